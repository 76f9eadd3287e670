//! One cell by itself, for callers that choose the next cell by its result.

use tables::manifest::{self, Window};

use super::child::{self, Ended};
use super::program::Fingerprint;
use super::verdict::{self, Attempt, Verdict};
use crate::plan::Cell;
use crate::run::command::Parts;
use crate::run::error::LabError;
use crate::run::lab::Lab;
use crate::run::schedule::{MAX_ATTEMPTS, order};

/// Result of a cell.
pub(crate) struct Single {
    /// Manifest for the cell's directory.
    pub(crate) manifest: manifest::Cell,
    /// Reason if it yields no figures, in a sentence.
    pub(crate) trouble: Option<String>,
    /// True if every attempt was invalid.
    pub(crate) is_invalid: bool,
    /// A signal ended it.
    pub(crate) interrupted: bool,
    /// Attempts that it took.
    pub(crate) attempts: u32,
}

impl Lab {
    /// Runs a cell once; true if a signal ended it.
    pub(in crate::run) fn attempt(&self, parts: Parts<'_>) -> Result<(Attempt, bool), LabError> {
        if Fingerprint::of(&self.program) != self.fingerprint {
            return Err(LabError::Replaced(self.program.clone()));
        }
        let words = parts.words(&self.program.to_string_lossy());
        let dir = parts.trace_dir;
        child::clear(dir).map_err(LabError::file(dir))?;
        let limit = order::time_limit(parts.cell);
        let ended = child::run(&words, dir, limit, self.signals.as_ref())
            .map_err(|error| self.not_started(error, dir))?;
        let attempt = verdict::judge(&ended, dir, &parts.cell.load);
        Ok((attempt, matches!(ended, Ended::Interrupted)))
    }

    /// Runs a cell whose tables go to `dir` until it is valid or will not become so.
    pub(crate) fn single(&self, parts: Parts<'_>) -> Result<Single, LabError> {
        let mut left = MAX_ATTEMPTS;
        let (attempt, interrupted, is_invalid) = loop {
            left -= 1;
            let (attempt, interrupted) = self.attempt(parts)?;
            let is_invalid = matches!(attempt.verdict, Verdict::Invalid(_));
            if !is_invalid || interrupted || left == 0 {
                break (attempt, interrupted, is_invalid);
            }
        };
        let trouble = attempt.verdict.trouble();
        let manifest = written(parts.cell, 1, parts.shown(), &attempt);
        Ok(Single { manifest, trouble, is_invalid, interrupted, attempts: MAX_ATTEMPTS - left })
    }
}

/// Manifest of a cell that was run.
pub(in crate::run) fn written(
    cell: &Cell,
    repeat: u32,
    command: String,
    attempt: &Attempt,
) -> manifest::Cell {
    let rtt = cell.path.rtt();
    let window = Window {
        start_s: cell.load.start.on(rtt).as_secs_f64(),
        length_s: cell.load.window.on(rtt).as_secs_f64(),
    };
    manifest::Cell {
        slug: cell.slug(),
        load: cell.load.name.clone(),
        repeat,
        parameters: cell.point.to_json().into_iter().collect(),
        command,
        window: Some(window),
        initiators: cell.load.initiators,
        targets: cell.load.far_hosts(),
        wan: attempt.wan.clone(),
        near: attempt.near.clone(),
        clock: None,
        valid: attempt.verdict == Verdict::Valid,
        reasons: attempt.verdict.reasons(),
        unvalidated: !cell.load.validity.is_judged(),
        for_throughput: cell.load.for_throughput,
    }
}
