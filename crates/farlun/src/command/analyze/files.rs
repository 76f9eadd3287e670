//! Capture files in the order of their packets. Those that follow each other, as a ring of files does, are one capture;
//! those that overlap, or begin with what was there before, were made at several taps, and each is one of its own.

use std::fs::File;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};

use analysis::capture::DiagnosedCapture;
use analysis::gaps;
use analysis::gaps::capture::{Found, GapCollector};
use anyhow::Context;
use dissect::{Dissector, FileEnd, FileError, FirstPackets, RowSink, read_packets};
use indicatif::{ProgressBar, ProgressStyle};
use wire::pcap::Packet;

use crate::exit::Exit;
use crate::output;

/// A capture and the files it was read from.
pub(super) struct Read {
    pub(super) paths: Vec<PathBuf>,
    /// Selected interfaces; all if empty.
    pub(super) interfaces: Vec<String>,
    pub(super) capture: DiagnosedCapture,
    pub(super) gaps: Option<Found>,
    /// Captures before it that show connections which are in it too.
    pub(super) shared: Vec<Shared>,
}

/// Connections that another capture shows too.
#[derive(Clone, Copy, serde::Serialize)]
pub(super) struct Shared {
    /// Which capture that is, from 0.
    pub(super) capture: usize,
    pub(super) connections: usize,
}

/// A capture that is being read.
pub(super) struct Tapped {
    paths: Vec<PathBuf>,
    interfaces: Vec<String>,
    dissector: Dissector,
    gaps: GapCollector,
    dropped: u64,
    cut: Option<String>,
}

/// Reads all files, of `interfaces` only if any are named; a bar shows how far. Of the gaps between packets so many
/// points are kept for a drawing.
pub(super) fn read(
    paths: &[PathBuf],
    interfaces: &[String],
    points: usize,
    rows: &mut dyn RowSink,
) -> anyhow::Result<Vec<Read>> {
    let mut order = Vec::new();
    for path in paths {
        // One alone may be a pipe, which is read once.
        order.push((if paths.len() > 1 { first_packets(path)? } else { FirstPackets::default() }, path));
    }
    order.sort_by_key(|(first, _)| first.first_ns());
    let mut captures: Vec<Tapped> = Vec::new();
    for (first, path) in order {
        let goes_on = |tapped: &&mut Tapped| {
            tapped.dissector.last_ns() <= first.first_ns() && !tapped.dissector.has_seen(&first)
        };
        let before = captures.iter_mut().filter(goes_on).max_by_key(|tapped| tapped.dissector.last_ns());
        let mut fresh = Tapped::over(&[], interfaces);
        let is_fresh = before.is_none();
        before.unwrap_or(&mut fresh).take(path, rows)?;
        captures.extend(is_fresh.then_some(fresh));
    }
    let finished = captures.into_iter().map(|tapped| tapped.finish(points));
    let mut captures = finished.collect::<anyhow::Result<Vec<Read>>>()?;
    captures.iter().try_for_each(Read::expect_packets)?;
    for this in 1..captures.len() {
        let (before, rest) = captures.split_at_mut(this);
        let shared = before.iter().enumerate().map(|(capture, other)| {
            let [this, other] = [&rest[0], other].map(|read| read.capture.dissection());
            let connections = dissect::shared_connections(this, other);
            Shared { capture, connections }
        });
        rest[0].shared = shared.filter(|shared| shared.connections > 0).collect();
    }
    Ok(captures)
}

impl Read {
    /// That an interface that was asked for is there.
    fn expect_packets(&self) -> anyhow::Result<()> {
        let there = &self.capture.dissection().totals.interfaces;
        if self.interfaces.is_empty() || there.iter().any(|one| one.taken) {
            return Ok(());
        }
        let there: Vec<String> =
            there.iter().map(|one| format!("{} ({})", one.number, one.label())).collect();
        Err(Exit::usage(format!(
            "{} has no packet of interface {}, expected one of: {}",
            names(&self.paths),
            self.interfaces.join(", "),
            there.join(", ")
        )))
    }
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
        words.extend(read.interfaces.iter().flat_map(|name| ["--interface".to_owned(), name.clone()]));
        words.extend(["--out".to_owned(), folder.to_string_lossy().into_owned()]);
        let page = page(read, &lab::quoted(&words))?;
        output::write(&path, page.as_bytes())?;
        pages.push(path);
    }
    Ok(pages)
}

/// Paths for a sentence.
pub(super) fn names(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl Tapped {
    pub(super) fn over(paths: &[PathBuf], interfaces: &[String]) -> Tapped {
        Tapped {
            paths: paths.to_vec(),
            interfaces: interfaces.to_vec(),
            dissector: Dissector::with_interfaces(interfaces.to_vec()),
            gaps: GapCollector::default(),
            dropped: 0,
            cut: None,
        }
    }

    /// Reads the files it was made with, for their rows alone.
    pub(super) fn walk(mut self, rows: &mut dyn RowSink) -> anyhow::Result<()> {
        std::mem::take(&mut self.paths).iter().try_for_each(|path| self.take(path, rows))
    }

    fn take(&mut self, path: &Path, rows: &mut dyn RowSink) -> anyhow::Result<()> {
        let file = open(path)?;
        let bar = bar(file.metadata().map_or(0, |about| about.len()));
        let dissector = &mut self.dissector;
        let mut all = (&mut self.gaps, rows);
        let each = |packet: &Packet<'_>, interface: &str| {
            dissector.packet(packet, interface, &mut all);
            false
        };
        let FileEnd { dropped, cut } = read_packets(file, each, |bytes| bar.set_position(bytes))
            .map_err(|error| explain(path, error))?;
        bar.finish_and_clear();
        self.dropped += dropped;
        self.cut = self.cut.take().or(cut);
        self.paths.push(path.to_owned());
        Ok(())
    }

    fn finish(self, points: usize) -> anyhow::Result<Read> {
        let several = self.paths.len() > 1;
        let cut = self.cut.map(|cut| if several { format!("{cut} (a file of several)") } else { cut });
        let dissection = self.dissector.finish(self.dropped, cut);
        let mut gaps = self.gaps;
        // A pipe cannot be read twice.
        let are_files = self.paths.iter().all(|path| path.is_file());
        if let Some(alone) = gaps.again(&dissection).filter(|_| are_files) {
            let mut again = Tapped { gaps: alone, ..Tapped::over(&[], &self.interfaces) };
            self.paths.iter().try_for_each(|path| again.take(path, &mut ()))?;
            gaps = again.gaps;
        }
        let drawing = gaps::Drawing { origin_ns: dissection.totals.begin_ns, points };
        let gaps = gaps.finish(&dissection, drawing);
        let capture = DiagnosedCapture::new(dissection);
        Ok(Read { paths: self.paths, interfaces: self.interfaces, capture, gaps, shared: Vec::new() })
    }
}

/// The first packets of a file.
fn first_packets(path: &Path) -> anyhow::Result<FirstPackets> {
    let mut first = FirstPackets::default();
    read_packets(open(path)?, |packet, interface| first.packet(packet, interface), |_| {})
        .map_err(|error| explain(path, error))?;
    Ok(first)
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
