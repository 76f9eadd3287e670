//! State of the negotiation, and requests without a complete answer.

use wire::nbd::StatusExtent;

use super::super::error::NbdError;
use super::super::request::{NbdBlockSizes, NbdCommand};
use super::coverage::Coverage;

/// Replies of the negotiation so far.
#[derive(Debug, Default)]
pub(super) struct Negotiation {
    /// The option that waits for its reply.
    pub(super) option: u32,
    pub(super) replies: u32,
    pub(super) has_no_zeroes: bool,
    pub(super) is_structured: bool,
    pub(super) allocation_id: Option<u32>,
    /// Size and transmission flags.
    pub(super) export: Option<(u64, u16)>,
    pub(super) blocks: Option<NbdBlockSizes>,
}

/// A request that is not answered.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) token: u64,
    pub(super) command: NbdCommand,
    pub(super) is_sent: bool,
    pub(super) coverage: Coverage,
    /// The first error reported.
    pub(super) error: Option<NbdError>,
    /// Error chunks.
    pub(super) errors: u32,
    pub(super) extents: Vec<StatusExtent>,
}

impl PendingRequest {
    pub(super) fn new(token: u64, command: NbdCommand) -> PendingRequest {
        PendingRequest {
            token,
            command,
            is_sent: false,
            coverage: Coverage::default(),
            error: None,
            errors: 0,
            extents: Vec::new(),
        }
    }

    /// True if the command has one of these flags.
    pub(super) fn has_flag(&self, flag: u16) -> bool {
        self.command.flags & flag != 0
    }

    /// True once a chunk of the reply has come.
    pub(super) fn has_chunks(&self) -> bool {
        self.coverage.bytes() > 0 || self.errors > 0 || !self.extents.is_empty()
    }
}
