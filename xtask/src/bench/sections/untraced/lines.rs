//! Which source lines an instruction is of, and which of them record.
//!
//! An instruction is of a line and, where that was compiled into another function, of the line that called it, and so
//! on. It records if one of them does: so the bounds check of an index that only recording needs is its own.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Files that record requests.
const FILES: &[&str] = &[
    "crates/initiator/src/session/request_trace.rs",
    "crates/iscsi_target/src/serve/session/request_trace.rs",
    "crates/iscsi_target/src/serve/session/tracing.rs",
];
/// Files below these folders call the recorder, on lines with one of these words. Lines on which the record is only one
/// field of many that are moved anyway (`mark`) are not counted: its share there cannot be determined.
const FOLDERS: &[&str] = &["crates/initiator/src/", "crates/iscsi_target/src/serve/", "crates/engine/src/"];
const WORDS: &[&str] = &[
    "trail",
    "note",
    "note_turn",
    "note_request",
    "note_stored",
    "note_ended",
    "is_timed",
    "Mark",
    "marked",
    "departed",
    "stamped",
    "stamping",
];

/// A place in a source file, from the workspace's root; lines from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    file: PathBuf,
    line: usize,
}

/// The lines of each address, those of the innermost function first.
pub(super) fn of(program: &Path, addresses: impl Iterator<Item = u64>) -> Result<HashMap<u64, Vec<Place>>> {
    let folder = tempfile::tempdir()?;
    let list = folder.path().join("addresses");
    let asked: String = addresses.map(|address| format!("{address:#x}\n")).collect();
    std::fs::write(&list, asked)?;
    let mut command = Command::new("addr2line");
    command.args(["--addresses", "--inlines", "--exe"]).arg(program).stdin(File::open(&list)?);
    let output = command.output().context("cannot start addr2line")?;
    ensure!(output.status.success(), "addr2line: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(answers(&String::from_utf8_lossy(&output.stdout)))
}

/// Output of addr2line: an address, and a line for each function that holds the address.
fn answers(text: &str) -> HashMap<u64, Vec<Place>> {
    let mut found: HashMap<u64, Vec<Place>> = HashMap::new();
    let mut frames = None;
    for line in text.lines() {
        if let Some(address) = line.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
            frames = Some(found.entry(address).or_default());
        } else if let (Some(frames), Some(place)) = (&mut frames, place(line)) {
            frames.push(place);
        }
    }
    found
}

/// `FILE:LINE`, perhaps with ` (discriminator 2)` behind it; `None` for an unknown place.
fn place(text: &str) -> Option<Place> {
    let (file, line) = text.rsplit_once(':')?;
    let line = line.split_whitespace().next()?.parse().ok()?;
    // `./` stands in the middle where cargo gave a relative path to the compiler.
    Some(Place { file: Path::new(file).components().collect(), line })
}

/// The source files that were looked at.
pub(super) struct Sources {
    root: PathBuf,
    /// For each line whether it asks for something to be recorded.
    asking: HashMap<PathBuf, Vec<bool>>,
}

impl Sources {
    /// Of the workspace at `root`.
    pub(super) fn new(root: &Path) -> Sources {
        Sources { root: root.to_owned(), asking: HashMap::new() }
    }

    /// Returns true if the line at `place` records or calls the recorder.
    pub(super) fn records(&mut self, place: &Place) -> bool {
        let Ok(file) = place.file.strip_prefix(&self.root) else { return false };
        let is_below = |folder: &&str| file.starts_with(folder);
        if FILES.iter().any(|known| file == Path::new(known)) {
            return true;
        }
        if !FOLDERS.iter().any(is_below) {
            return false;
        }
        let asking = self.asking.entry(place.file.clone()).or_insert_with(|| {
            let text = std::fs::read_to_string(&place.file).unwrap_or_default();
            text.lines().map(asks).collect()
        });
        asking.get(place.line.wrapping_sub(1)).copied().unwrap_or(false)
    }
}

/// Returns true if one of the words is in a line, as a name of its own.
fn asks(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(file: &str, line: usize) -> Place {
        Place { file: file.into(), line }
    }

    #[test]
    fn an_instruction_is_of_every_function_that_it_was_compiled_into() {
        let text = "0x0000000000000010\n/rustc/a/option.rs:7\n/w/./crates/iscsi_target/src/serve/session/state.rs:3 (discriminator 2)\n\
                    0x0000000000000012\n??:?\n0x13\n/w/x.rs:?\n";
        let found = answers(text);
        let frames =
            [at("/rustc/a/option.rs", 7), at("/w/crates/iscsi_target/src/serve/session/state.rs", 3)];
        assert_eq!((&found[&0x10][..], found[&0x12].len(), found[&0x13].len()), (&frames[..], 0, 0));
    }

    #[test]
    fn lines_that_record_are_told_by_their_file_or_their_words() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("crates/iscsi_target/src/serve/session/state.rs");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(
            &file,
            "let a = 1; // no trail\nif let Some(trail) = x {\nself.note(task);\nnotes();\n",
        )
        .unwrap();
        let mut sources = Sources::new(root.path());
        let lines: Vec<bool> =
            (0..6).map(|line| sources.records(&Place { file: file.clone(), line })).collect();
        assert_eq!(lines, [false, false, true, true, false, false]);
        assert!(sources.records(&Place { file: root.path().join(FILES[0]), line: 9 }));
        assert!(!sources.records(&Place { file: root.path().join("crates/link/src/trail.rs"), line: 1 }));
    }

    #[test]
    fn the_files_and_folders_are_there() {
        let root = crate::workspace::root();
        FILES.iter().chain(FOLDERS).for_each(|path| assert!(root.join(path).exists(), "{path}"));
    }
}
