//! Verdicts: a limiter, its share of the time, its evidence, and the predicted gain of its removal.

use serde::Serialize;

use crate::limiter::Limiter;
use crate::performance::Performance;
use crate::remedy::Remedy;

/// A measured number that shows a limiter, and its source.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Evidence {
    /// Name of the quantity.
    pub what: String,
    /// Its value.
    pub value: f64,
    /// SI unit without prefix: `s`, `bytes`, `bytes/s`, `packets`; empty for a count or a share.
    pub unit: &'static str,
    /// Source: table and columns, or the field of a document.
    pub seen: &'static str,
}

impl Evidence {
    /// Evidence of one number.
    pub fn new(what: &str, value: f64, unit: &'static str, seen: &'static str) -> Evidence {
        Evidence { what: what.to_owned(), value, unit, seen }
    }
}

/// One limiter of a load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    /// The limiter.
    pub limiter: Limiter,
    /// Share of the time in which it limits, 0 to 1.
    pub share: f64,
    /// Numbers that show it.
    pub evidence: Vec<Evidence>,
    /// Predicted performance without this limiter, up to the next one.
    pub predicted: Performance,
    /// The limiter that would hold the load then.
    pub next: Limiter,
    /// Settings that relieve it; empty if there are none.
    pub remedies: Vec<Remedy>,
}

/// All verdicts on one load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Diagnosis {
    /// Measured performance.
    pub current: Performance,
    /// Limiters, the most worthwhile one first; never empty.
    pub verdicts: Vec<Verdict>,
    /// Questions that the recorded data leave open, in sentences.
    pub cannot_know: Vec<String>,
}

impl Verdict {
    /// Predicted throughput divided by the `current` one.
    pub fn gain(&self, current: Performance) -> f64 {
        if current.bytes_per_s > 0.0 { self.predicted.bytes_per_s / current.bytes_per_s } else { 1.0 }
    }
}

impl Diagnosis {
    /// The most worthwhile verdict.
    pub fn first(&self) -> Option<&Verdict> {
        self.verdicts.first()
    }
}
