//! Parts of a connection's time, each with the limiter that took it.

use diagnosis::{Evidence, Limiter};
use dissect::Durations;

/// Factor of the depth: a wait that the protocol has no need of comes first from this share of its time on.
const WEIGHT_OF_DEPTH: f64 = 0.7;
/// Factor of the round trip, whose time only other requests could use.
const WEIGHT_OF_ROUND_TRIP: f64 = 0.5;

/// A part of the time.
pub(super) struct Part {
    pub(super) limiter: Limiter,
    pub(super) seconds: f64,
    pub(super) evidence: Vec<Evidence>,
}

impl Part {
    /// Seconds with the factor of the limiter.
    pub(super) fn weight(&self) -> f64 {
        match self.limiter {
            Limiter::QueueDepth => self.seconds * WEIGHT_OF_DEPTH,
            Limiter::RoundTrip => self.seconds * WEIGHT_OF_ROUND_TRIP,
            _ => self.seconds,
        }
    }
}

pub(super) fn part(limiter: Limiter, seconds: f64, evidence: Vec<Evidence>) -> Part {
    Part { limiter, seconds, evidence }
}

pub(super) fn evidence(what: &str, value: f64, unit: &'static str, seen: &'static str) -> Evidence {
    Evidence::new(what, value, unit, seen)
}

pub(super) fn durations(what: &str, durations: Option<Durations>, seen: &'static str) -> Vec<Evidence> {
    durations.map(|durations| evidence(what, durations.p50_s, "s", seen)).into_iter().collect()
}
