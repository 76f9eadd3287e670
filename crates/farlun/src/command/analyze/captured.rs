//! A capture that has been read, and its files.

use std::path::PathBuf;

use analysis::capture::DiagnosedCapture;
use analysis::gaps::capture::Found;

use super::source::name;
use crate::exit::Exit;

/// Files that are read side by side, or one.
pub(super) type Unit = Vec<Member>;

/// A file of a unit.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) path: PathBuf,
    /// Name of the interface that it is, if it shows one direction of a capture.
    pub(super) side: Option<String>,
}

/// A capture and the files it was read from.
pub(super) struct Captured {
    pub(super) units: Vec<Unit>,
    /// Selected interfaces; all if empty.
    pub(super) interfaces: Vec<String>,
    pub(super) capture: DiagnosedCapture,
    pub(super) gaps: Option<Found>,
    /// Captures before it that show connections which are in it too.
    pub(super) shared: Vec<Shared>,
    /// Sentences about its files.
    pub(super) notes: Vec<String>,
}

/// Connections that another capture shows too.
#[derive(Clone, Copy, serde::Serialize)]
pub(super) struct Shared {
    /// Which capture that is, from 0.
    pub(super) capture: usize,
    pub(super) connections: usize,
}

impl Captured {
    /// Files of the capture.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.units.iter().flatten().map(|member| member.path.clone()).collect()
    }

    /// Names of its files for a sentence.
    pub(super) fn names(&self) -> String {
        names(&self.paths())
    }

    /// Expects packets of a selected interface.
    pub(super) fn expect_packets(&self) -> anyhow::Result<()> {
        let there = &self.capture.dissection().totals.interfaces;
        if self.interfaces.is_empty() || there.iter().any(|one| one.taken) {
            return Ok(());
        }
        let there: Vec<String> =
            there.iter().map(|one| format!("{} ({})", one.number, one.label())).collect();
        Err(Exit::usage(format!(
            "{} has no packet of interface {}, expected one of: {}",
            self.names(),
            self.interfaces.join(", "),
            there.join(", ")
        )))
    }
}

/// Paths for a sentence.
pub(super) fn names(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| name(path)).collect::<Vec<_>>().join(", ")
}
