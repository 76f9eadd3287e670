//! Requests and completions of a device.

use event::Instant;

use super::extent::Extent;
use crate::buffer::Buffer;
use crate::composite::{ByteRange, CompositeAction};
use crate::error::OperationError;

/// Number of a request, chosen by its face: unique with its owner while it is outstanding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Token(pub u64);

/// Party that takes turns with others at a device: a nexus, an NBD client, an open file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Owner(pub u64);

/// A request of a device.
#[derive(Debug)]
pub struct BlockRequest {
    /// Number of the request.
    pub id: Token,
    /// Owner of the request.
    pub owner: Owner,
    /// Operation.
    pub op: BlockOp,
    /// Force unit access: from or to the medium.
    pub fua: bool,
    /// The completion has the time at which the device ended it.
    pub is_timed: bool,
}

/// Operation of a request. Offsets and lengths are whole logical blocks.
#[derive(Debug)]
pub enum BlockOp {
    /// Fills the buffer.
    Read {
        /// Offset of the buffer in bytes.
        offset_bytes: u64,
        /// Buffer to fill.
        into: Buffer,
    },
    /// Stores the buffer.
    Write {
        /// Offset of the buffer in bytes.
        offset_bytes: u64,
        /// Buffer to store.
        data: Buffer,
    },
    /// Makes all writes durable that completed before it was submitted.
    Flush,
    /// Compares, fills, unmaps, or another operation of several reads and writes.
    Composite(CompositeAction),
    /// Looks up the allocation of a range from its begin on. The answer may end before the range does.
    Extents {
        /// Range to look up.
        range: ByteRange,
        /// Most extents of the answer.
        extents_max: usize,
    },
}

/// Completion of a request.
#[derive(Debug)]
pub struct BlockCompletion {
    /// Number of the request.
    pub id: Token,
    /// Owner of the request.
    pub owner: Owner,
    /// Result of the operation.
    pub result: Result<(), OperationError>,
    /// Buffer of a read, unless it was lost with a session.
    pub read: Option<Buffer>,
    /// Extents of a successful lookup, at least one; empty for other operations.
    pub extents: Vec<Extent>,
    /// Time at which the device ended it, of a timed request.
    pub ended_at: Option<Instant>,
}

/// Requests to withdraw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Select {
    /// One request.
    One(Owner, Token),
    /// All requests of an owner.
    Owner(Owner),
}

impl Select {
    /// Returns true if a request is among them.
    pub fn has(self, owner: Owner, id: Token) -> bool {
        match self {
            Select::One(one_owner, one_id) => (one_owner, one_id) == (owner, id),
            Select::Owner(of) => of == owner,
        }
    }
}

impl BlockRequest {
    /// Completion of this request that was not executed.
    pub fn refused(self, error: OperationError) -> BlockCompletion {
        let BlockRequest { id, owner, op, .. } = self;
        let read = if let BlockOp::Read { into, .. } = op { Some(into) } else { None };
        BlockCompletion { id, owner, result: Err(error), read, extents: Vec::new(), ended_at: None }
    }
}
