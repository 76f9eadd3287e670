//! Totals of a target over its life.

use tables::manifest::Trace;

/// Totals of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// SCSI commands run.
    pub commands: u64,
    /// Sessions that logged in.
    pub sessions: u64,
    /// Payload received.
    pub received_bytes: u64,
    /// Payload sent.
    pub sent_bytes: u64,
    /// Recorded trace of requests.
    pub trace: Option<Trace>,
}
