//! Throughput and latency of a load, measured or predicted.

use serde::Serialize;

/// Throughput and latency of a load.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Performance {
    /// Application bytes per second, summed over all sessions.
    pub bytes_per_s: f64,
    /// Mean latency of a request in seconds, from the caller's call to its completion.
    pub latency_s: f64,
}
