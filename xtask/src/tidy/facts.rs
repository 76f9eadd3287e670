//! Facts of every source file that the ratchets count: its length, structs, prose and names.

use std::thread;

use super::cycles::Module;
use super::prose::Prose;
use super::structs::{self, Struct};
use super::tree::File;

/// Facts of one file.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) path: &'a str,
    pub(super) lines: usize,
    pub(super) structs: Vec<Struct>,
    pub(super) prose: Prose,
    pub(super) names: Module,
    /// Message of the parser, if the file is no Rust.
    pub(super) refused: Option<String>,
}

impl<'a> Facts<'a> {
    fn from_file(file: &'a File) -> Self {
        let mut facts = Self {
            path: &file.path,
            lines: file.text.lines().count(),
            structs: Vec::new(),
            prose: Prose::from_source(&file.text),
            names: Module::default(),
            refused: None,
        };
        match syn::parse_file(&file.text) {
            Ok(parsed) => {
                facts.structs = structs::in_file(&parsed);
                facts.names = Module::from_file(&parsed);
            }
            Err(error) => facts.refused = Some(error.to_string()),
        }
        facts
    }
}

/// The facts of all files, in their order. The parser takes most of the time of `tidy`, so every processor parses.
pub(super) fn from_files(files: &[File]) -> Vec<Facts<'_>> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut facts: Vec<(usize, Facts<'_>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|first| {
                let share = files.iter().enumerate().skip(first).step_by(threads);
                scope.spawn(|| share.map(|(at, file)| (at, Facts::from_file(file))).collect::<Vec<_>>())
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a parser does not panic")).collect()
    });
    facts.sort_by_key(|(at, _)| *at);
    facts.into_iter().map(|(_, facts)| facts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_keep_the_order_of_the_files() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files: Vec<File> = (1..40).map(|lines| file("a.rs", &"\n".repeat(lines))).collect();
        let lines: Vec<usize> = from_files(&files).iter().map(|facts| facts.lines).collect();
        assert_eq!(lines, (1..40).collect::<Vec<_>>());
        let broken = [file("a.rs", "fn ("), file("b.rs", "fn f() {}")];
        let refused: Vec<bool> = from_files(&broken).iter().map(|facts| facts.refused.is_some()).collect();
        assert_eq!(refused, [true, false]);
    }
}
