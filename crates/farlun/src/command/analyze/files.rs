//! Capture files in the order of their packets. Those that follow each other, as a ring of files does, are one capture;
//! those that overlap were made at several taps, and each is one of its own.

use std::fs::File;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};

use analysis::capture::file::{self, Ended, FileError};
use analysis::capture::{Analyzer, Capture, Listener};
use analysis::gaps::Gaps;
use analysis::gaps::capture::Listening;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use wire::pcap::Packet;

use crate::exit::Exit;

/// A capture and the files it was read from.
pub(super) struct Read {
    pub(super) paths: Vec<PathBuf>,
    pub(super) capture: Capture,
    pub(super) gaps: Option<Gaps>,
}

/// A capture that is being read.
pub(super) struct Tapped {
    paths: Vec<PathBuf>,
    analyzer: Analyzer,
    listening: Listening,
    dropped: u64,
    cut: Option<String>,
}

/// Reads all files; a bar shows how far.
pub(super) fn read(paths: &[PathBuf], listener: &mut dyn Listener) -> anyhow::Result<Vec<Read>> {
    let mut order = Vec::new();
    for path in paths {
        // One alone may be a pipe, which is read once.
        order.push((if paths.len() > 1 { first_ns(path)? } else { 0 }, path));
    }
    order.sort_by_key(|(first_ns, _)| *first_ns);
    let mut captures: Vec<Tapped> = Vec::new();
    for (first_ns, path) in order {
        let last = captures.last_mut().filter(|last| last.analyzer.last_ns() <= first_ns);
        let mut fresh = Tapped::over(&[]);
        let is_fresh = last.is_none();
        last.unwrap_or(&mut fresh).take(path, listener)?;
        captures.extend(is_fresh.then_some(fresh));
    }
    Ok(captures.into_iter().map(Tapped::finish).collect())
}

/// Writes what `page` makes of each capture into a folder, and says where.
pub(super) fn in_folder(
    folder: &Path,
    captures: &[Read],
    page: impl Fn(&Read, &str) -> anyhow::Result<String>,
) -> anyhow::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut pages = Vec::new();
    for (n, read) in captures.iter().enumerate() {
        let number = if captures.len() > 1 { format!("-{}", n + 1) } else { String::new() };
        let path = folder.join(format!("report{number}.html"));
        let mut words = vec!["farlun".to_owned(), "analyze".to_owned()];
        words.extend(read.paths.iter().map(|path| path.to_string_lossy().into_owned()));
        words.extend(["--out".to_owned(), folder.to_string_lossy().into_owned()]);
        let page = page(read, &lab::quoted(&words))?;
        std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
        pages.push(path);
    }
    Ok(pages)
}

/// Paths for a sentence.
pub(super) fn names(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl Tapped {
    pub(super) fn over(paths: &[PathBuf]) -> Tapped {
        Tapped {
            paths: paths.to_vec(),
            analyzer: Analyzer::new(),
            listening: Listening::default(),
            dropped: 0,
            cut: None,
        }
    }

    /// Reads the files it was made with, for a listener alone.
    pub(super) fn walk(mut self, listener: &mut dyn Listener) -> anyhow::Result<()> {
        std::mem::take(&mut self.paths).iter().try_for_each(|path| self.take(path, listener))
    }

    fn take(&mut self, path: &Path, listener: &mut dyn Listener) -> anyhow::Result<()> {
        let file = open(path)?;
        let bar = bar(file.metadata().map_or(0, |about| about.len()));
        let analyzer = &mut self.analyzer;
        let mut all = (&mut self.listening, listener);
        let each = |packet: &Packet<'_>| {
            analyzer.packet(packet, &mut all);
            false
        };
        let Ended { dropped, cut } =
            file::walk(file, each, |bytes| bar.set_position(bytes)).map_err(|error| explain(path, error))?;
        bar.finish_and_clear();
        self.dropped += dropped;
        self.cut = self.cut.take().or(cut);
        self.paths.push(path.to_owned());
        Ok(())
    }

    fn finish(self) -> Read {
        let several = self.paths.len() > 1;
        let cut = self.cut.map(|cut| if several { format!("{cut} (a file of several)") } else { cut });
        let capture = self.analyzer.finish(self.dropped, cut);
        Read { paths: self.paths, capture, gaps: self.listening.finish() }
    }
}

/// Time of a file's first packet; 0 if it has none.
fn first_ns(path: &Path) -> anyhow::Result<u64> {
    let mut first_ns = 0;
    let each = |packet: &Packet<'_>| {
        first_ns = packet.t_ns;
        true
    };
    file::walk(open(path)?, each, |_| {}).map_err(|error| explain(path, error))?;
    Ok(first_ns)
}

fn open(path: &Path) -> anyhow::Result<File> {
    File::open(path).map_err(|error| Exit::usage(format!("{}: {error}", path.display())))
}

fn explain(path: &Path, error: FileError) -> anyhow::Error {
    let shown = path.display();
    match error {
        FileError::Io(error) => anyhow::Error::new(error).context(format!("cannot read {shown}")),
        no_capture => Exit::usage(format!("{shown} {no_capture}")),
    }
}

/// Drawn where somebody sees it.
fn bar(bytes: u64) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
    ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
