//! Capture files in the order of their packets. Those that follow each other, as a ring of files does, are one capture,
//! and so are those that show one direction each; those that overlap, or begin with packets that were there before, were
//! made at several taps, and each is one of its own.

use std::path::{Path, PathBuf};

use anyhow::Context;
use dissect::RowSink;

use super::captured::{Captured, Shared};
use super::source::{Source, name};
use super::tapped::Tapped;
use crate::{exit, output};

/// Difference in ns of the first stamps of files that are read side by side: two commands that were started by hand. If
/// they differ by more, clocks or times are others.
const JOIN_APART_NS: u64 = 60_000_000_000;

/// A file that cannot be read, among others.
#[derive(Clone, serde::Serialize)]
pub(super) struct Unreadable {
    pub(super) path: PathBuf,
    pub(super) error: String,
}

/// Captures, and files that are not in them.
pub(super) struct Captures {
    pub(super) read: Vec<Captured>,
    pub(super) unreadable: Vec<Unreadable>,
}

/// Reads all files, of `interfaces` only if any are named; a bar shows how far. Of the gaps between packets so many
/// points are kept for a drawing. Where one of several files cannot be read, the others are.
pub(super) fn read(
    paths: &[PathBuf],
    interfaces: &[String],
    points: usize,
    rows: &mut dyn RowSink,
) -> anyhow::Result<Captures> {
    let (mut sources, mut unreadable, mut first_error) = (Vec::new(), Vec::new(), None);
    for path in paths {
        let source = if paths.len() > 1 { Source::one_of_several(path) } else { Source::alone(path) };
        match source {
            Ok(source) => sources.push(source),
            Err(error) => {
                unreadable.push(Unreadable { path: path.clone(), error: exit::sentence(&error) });
                first_error.get_or_insert(error);
            }
        }
    }
    if let Some(error) = first_error.filter(|_| sources.is_empty()) {
        return Err(error);
    }
    sources.sort_by_key(|source| source.first.first_ns());
    let mut captures: Vec<Tapped> = Vec::new();
    let mut notes = Vec::new();
    while let Some(unit) = next_unit(&mut sources, &mut notes) {
        let first_of = |tapped: &&mut Tapped| unit.iter().all(|source| tapped.goes_on_with(&source.first));
        let before = captures.iter_mut().filter(first_of).max_by_key(|tapped| tapped.last_ns());
        let mut fresh = Tapped::new(interfaces);
        let is_fresh = before.is_none();
        let path = unit.first().map(|source| source.path.clone()).unwrap_or_default();
        match before.unwrap_or(&mut fresh).take(unit, rows) {
            Ok(()) => captures.extend(is_fresh.then_some(fresh)),
            Err(error) if paths.len() > 1 => {
                unreadable.push(Unreadable { path, error: exit::sentence(&error) });
            }
            Err(error) => return Err(error),
        }
    }
    let finished = captures.into_iter().map(|tapped| tapped.finish(points));
    let mut captures = finished.collect::<anyhow::Result<Vec<Captured>>>()?;
    captures.iter().try_for_each(Captured::expect_packets)?;
    if let Some(last) = captures.last_mut() {
        last.notes.append(&mut notes);
    }
    for this in 1..captures.len() {
        let (before, rest) = captures.split_at_mut(this);
        let shared = before.iter().enumerate().map(|(capture, other)| {
            let [this, other] = [&rest[0], other].map(|read| read.capture.dissection());
            let connections = dissect::shared_connections(this, other);
            Shared { capture, connections }
        });
        rest[0].shared = shared.filter(|shared| shared.connections > 0).collect();
    }
    Ok(Captures { read: captures, unreadable })
}

/// The earliest file, with those that show the other direction of its connections.
fn next_unit(sources: &mut Vec<Source>, notes: &mut Vec<String>) -> Option<Vec<Source>> {
    if sources.is_empty() {
        return None;
    }
    let first = sources.remove(0);
    // Files of one side follow each other: the next one of the other side is the one that belongs to this one.
    let other = sources.iter().position(|other| first.first.complements(&other.first));
    let Some(place) = other else { return Some(vec![first]) };
    let apart_ns = sources[place].first.first_ns() - first.first.first_ns();
    if apart_ns > JOIN_APART_NS {
        notes.push(format!(
            "{} has the other direction of connections in {} and begins {} s later: clocks or times differ, so they are not \
             joined",
            name(&sources[place].path),
            name(&first.path),
            apart_ns / 1_000_000_000
        ));
        return Some(vec![first]);
    }
    Some(vec![first, sources.remove(place)])
}

/// Writes the `page` of each capture into a folder; returns their paths.
pub(super) fn in_folder(
    folder: &Path,
    captures: &[Captured],
    page: impl Fn(&Captured, &str) -> anyhow::Result<String>,
) -> anyhow::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut pages = Vec::new();
    for (n, read) in captures.iter().enumerate() {
        let number = if captures.len() > 1 { format!("-{}", n + 1) } else { String::new() };
        let path = folder.join(format!("report{number}.html"));
        let mut words = vec!["farlun".to_owned(), "analyze".to_owned()];
        words.extend(read.paths().iter().map(|path| path.to_string_lossy().into_owned()));
        words.extend(read.interfaces.iter().flat_map(|name| ["--interface".to_owned(), name.clone()]));
        words.extend(["--out".to_owned(), folder.to_string_lossy().into_owned()]);
        let page = page(read, &lab::quoted(&words))?;
        output::write(&path, page.as_bytes())?;
        pages.push(path);
    }
    Ok(pages)
}
