//! One request of the caller at the initiator, from issue to completion.

use crate::Instant;

/// Operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// READ.
    Read,
    /// WRITE.
    Write,
}

/// A row of the table `io`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// Time at which the caller issued it.
    pub issued: Instant,
    /// Time at which the caller received the completion.
    pub completed: Instant,
    /// Read or write.
    pub op: Op,
    /// First byte on the LUN.
    pub offset_bytes: u64,
    /// Bytes of the request.
    pub len_bytes: u32,
    /// SCSI status byte (0 is GOOD).
    pub status: u8,
}

impl Op {
    /// The one of a name.
    pub fn named(name: &str) -> Option<Op> {
        [Op::Read, Op::Write].into_iter().find(|op| op.name() == name)
    }

    /// The name that tables and users see.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
        }
    }
}
