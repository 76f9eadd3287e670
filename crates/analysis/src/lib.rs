//! Questions asked of a run: tables in, plain results out. One question per file.
//!
//! Nothing is drawn here and nothing is measured; times of a result are seconds, rates bits per second.
//! [`capture`] diagnoses captures that `dissect` has read. [`Tour::collect`] asks every question of every cell of a run; its [`Metrics`] are what a plan's
//! expectations name.

pub mod account;
pub mod capture;
pub mod clock;
pub mod compare;
mod counter;
pub mod cuts;
pub mod diagram;
pub mod doctor;
pub mod ends;
pub mod gain;
pub mod gaps;
mod gist;
mod initiators;
pub mod interval;
pub mod latency;
pub mod lateness;
pub mod layers;
pub mod limits;
pub mod line;
pub mod live;
mod looking;
mod metrics;
pub mod ramp;
pub mod sockets;
mod states;
mod steadiness;
pub mod throughput;
mod tour;
pub mod turnaround;

pub use gist::{Gist, Requests, Share};
pub use metrics::{LINE, METRICS, Metric, Metrics, Spread};
pub use tables::manifest;
pub use tour::{CellResult, Point, Repeat, Tour, TourError};

/// A moment of a series: seconds since the load began, and the value then.
pub type Sample = (f64, f64);

/// A stretch of CLOCK_MONOTONIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Its beginning.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
}

impl Span {
    /// Its length.
    pub fn length_s(self) -> f64 {
        self.end_ns.saturating_sub(self.start_ns) as f64 / 1e9
    }
}
