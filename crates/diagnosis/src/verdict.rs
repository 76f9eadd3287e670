//! Verdicts: a limiter, its share of the time, its evidence, and the predicted gain of its removal.

use serde::{Serialize, Serializer};

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

/// Standing of a prediction: no figure exceeds the bounds of the evidence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// The next bound is known: a rate of the line, a window, or a rate that did not rise any more.
    #[default]
    Figure,
    /// So much was seen or is bounded from below; no evidence bounds it from above.
    AtLeast,
    /// No evidence bounds it: there is a gain, and no figure for it.
    Unknown,
}

/// One limiter of a load.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// The limiter.
    pub limiter: Limiter,
    /// Share of the time in which it limits, 0 to 1.
    pub share: f64,
    /// Numbers that show it.
    pub evidence: Vec<Evidence>,
    /// Predicted performance without this limiter, up to the next one. Rate × latency are the bytes outstanding then
    /// (Little's law).
    pub predicted: Performance,
    /// Standing of the prediction.
    pub certainty: Certainty,
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

/// As documents have it: a prediction without a figure is null, one with a figure states the bytes outstanding.
#[derive(Serialize)]
struct Document<'a> {
    limiter: Limiter,
    share: f64,
    evidence: &'a [Evidence],
    predicted: Option<Predicted>,
    certainty: Certainty,
    next: Limiter,
    remedies: &'a [Remedy],
}

#[derive(Serialize)]
struct Predicted {
    bytes_per_s: f64,
    latency_s: f64,
    outstanding_bytes: f64,
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Performance { bytes_per_s, latency_s } = self.predicted;
        let predicted = Predicted { bytes_per_s, latency_s, outstanding_bytes: bytes_per_s * latency_s };
        let document = Document {
            limiter: self.limiter,
            share: self.share,
            evidence: &self.evidence,
            predicted: Some(predicted).filter(|_| self.certainty != Certainty::Unknown),
            certainty: self.certainty,
            next: self.next,
            remedies: &self.remedies,
        };
        document.serialize(serializer)
    }
}

impl Diagnosis {
    /// The most worthwhile verdict.
    pub fn first(&self) -> Option<&Verdict> {
        self.verdicts.first()
    }
}
