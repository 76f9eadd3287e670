//! Requests without a complete answer.

use wire::nbd::{StatusExtent, command_flag};

use super::super::error::NbdError;
use super::super::request::{NbdCommand, NbdOp};

/// Longest extents of one block status reply, in bytes. The client asks again for the rest of its range.
const STATUS_MAX_BYTES: u32 = 1 << 20;

/// A request that is not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingRequest {
    pub(super) cookie: u64,
    pub(super) command: NbdCommand,
    /// Bytes of a read in chunks so far.
    pub(super) answered_bytes: u32,
    /// Bytes that the request counts for: its data, or the longest block status reply.
    pub(super) held_bytes: u32,
    /// Limit of the extents of a block status.
    pub(super) extents_max: u32,
}

impl PendingRequest {
    /// A request whose reply may have a payload of `payload_max_bytes`.
    pub(super) fn new(cookie: u64, command: NbdCommand, payload_max_bytes: u32) -> PendingRequest {
        let extent_bytes = StatusExtent::LEN as u32;
        let extents_max = match command.flags & command_flag::REQ_ONE {
            0 => (STATUS_MAX_BYTES.min(payload_max_bytes) / extent_bytes).min(command.len_bytes),
            _ => 1,
        };
        let held_bytes = match command.op {
            NbdOp::Read | NbdOp::Write => command.len_bytes,
            NbdOp::BlockStatus => extents_max * extent_bytes,
            NbdOp::Flush | NbdOp::Trim | NbdOp::Cache | NbdOp::WriteZeroes => 0,
        };
        PendingRequest { cookie, command, answered_bytes: 0, held_bytes, extents_max }
    }
}

/// The answer to a request that breaks a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) cookie: u64,
    pub(super) command: u16,
    pub(super) error: NbdError,
}
