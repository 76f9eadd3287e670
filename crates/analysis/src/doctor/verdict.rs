//! A verdict: what limits, for how much of the time, what shows it, and what there is to gain.

use serde::Serialize;

use super::limiter::Limiter;
use super::remedy::Remedy;

/// Less than this is no gain.
pub(super) const LEAST_GAIN: f64 = 1.1;

/// How a load fares, or would.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Performance {
    /// Application bytes per second, of all sessions together.
    pub bytes_per_s: f64,
    /// Mean time of a request, from the caller's call to its end.
    pub latency_s: f64,
}

/// A number that shows a limiter, and where it can be seen.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Evidence {
    /// What it is.
    pub what: String,
    /// The number.
    pub value: f64,
    /// Its unit as in SI, without prefix: `s`, `bytes`, `bytes/s`, `packets`, or empty for a count or a share.
    pub unit: &'static str,
    /// Table and columns, or the field of a document.
    pub seen: &'static str,
}

/// One limiter of a load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    /// What limits.
    pub limiter: Limiter,
    /// For what share of the time, 0 … 1.
    pub share: f64,
    /// What shows it.
    pub evidence: Vec<Evidence>,
    /// How the load would fare without this limiter, until the next one holds it.
    pub predicted: Performance,
    /// What would hold it then.
    pub next: Limiter,
    /// What to change; empty if there is nothing.
    pub remedies: Vec<Remedy>,
}

/// Everything that is to be said of one load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Diagnosis {
    /// How it fares now.
    pub current: Performance,
    /// What limits it, the one with most to gain first; never empty.
    pub verdicts: Vec<Verdict>,
    /// What cannot be known from what was recorded, in sentences.
    pub cannot_know: Vec<String>,
}

impl Verdict {
    /// Throughput after the fix ÷ throughput now.
    pub fn gain(&self, current: Performance) -> f64 {
        if current.bytes_per_s > 0.0 { self.predicted.bytes_per_s / current.bytes_per_s } else { 1.0 }
    }
}

impl Diagnosis {
    /// What limits most.
    pub fn first(&self) -> Option<&Verdict> {
        self.verdicts.first()
    }
}
