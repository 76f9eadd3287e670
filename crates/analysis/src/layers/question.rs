//! Request for the layers of a cell: window, path and size of the drawings.

use crate::Span;

/// Request for the layers of a cell: window, path, and size of the drawings.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Start of the load: origin of every series.
    pub origin_ns: u64,
    /// Window of the figures.
    pub window: Span,
    /// The round trip of the path; 0 if it is not known.
    pub rtt_ns: u64,
    /// Points of all lines of one layer, about.
    pub points: usize,
    /// Requests to keep for looking at one by one, about.
    pub requests: usize,
    /// CmdSN of a request to include in any case.
    pub request: Option<u32>,
}
