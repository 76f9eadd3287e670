//! Analysis of a run: tables in, plain results out. One question per file.
//!
//! Nothing is drawn here and nothing is measured; times of a result are seconds, rates bits per second. [`capture`]
//! diagnoses captures that `dissect` has read. [`Tour::collect`] computes every result of every cell of a run; plans
//! name its [`Metrics`].

pub mod capture;
pub mod compare;
pub mod diagram;
pub mod doctor;
pub mod gaps;
pub mod layers;
mod load;
mod metrics;
mod path;
mod run;
mod tcp;

pub use compare::interval;
pub use load::{latency, ramp, throughput, turnaround};
pub use metrics::{LINE, METRICS, Metric, Metrics, Spread};
pub use path::{accounting, clock, lateness, line};
pub use run::cell::{CellResult, Point, Repeat};
pub use run::error::TourError;
pub use run::result::Tour;
pub use run::summary::{Requests, RunSummary, Share};
pub use run::{limits, policy_gain};
pub use tables::manifest;
pub use tcp::{cuts, live, sockets, windows};

/// A moment of a series: seconds since the load began, and the value then.
pub type Sample = (f64, f64);

/// A stretch of CLOCK_MONOTONIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Begin.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
}

impl Span {
    /// Length in seconds.
    pub fn length_s(self) -> f64 {
        self.end_ns.saturating_sub(self.start_ns) as f64 / 1e9
    }
}
