//! Requests without a complete answer.

use super::super::NbdCommand;

/// A request that is not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingRequest {
    pub(super) cookie: u64,
    pub(super) command: NbdCommand,
    /// Bytes of a read in chunks so far.
    pub(super) answered_bytes: u32,
}

/// The answer to a request that breaks a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) cookie: u64,
    pub(super) command: u16,
    pub(super) error: u32,
}
