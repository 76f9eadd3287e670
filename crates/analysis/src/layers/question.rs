//! Request for the layers of a cell: window, path and size of the drawings.

use crate::Span;

/// What to ask of a cell, and how finely to draw it.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// When the load began: the zero of every series.
    pub origin_ns: u64,
    /// What the figures are of.
    pub window: Span,
    /// The round trip of the path; 0 if it is not known.
    pub rtt_ns: u64,
    /// Points of all lines of one layer, about.
    pub points: usize,
    /// Requests to keep for looking at one by one, about.
    pub requests: usize,
    /// The CmdSN of one that is wanted in any case.
    pub request: Option<u32>,
}
