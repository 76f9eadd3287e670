//! The table `io`: every request of the caller, as the initiator saw it. Written by the near end.

use event::{Io, Op};

use crate::{Row, Visit};

/// The table `io` as plain columns.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ios {
    /// When the caller issued it, CLOCK_MONOTONIC.
    pub issued_t_ns: Vec<u64>,
    /// When the caller was told that it has ended.
    pub completed_t_ns: Vec<u64>,
    /// Read or write.
    pub op: Vec<Op>,
    /// First byte on the LUN.
    pub offset_bytes: Vec<u64>,
    /// Length.
    pub len_bytes: Vec<u32>,
    /// SCSI status byte, 0 is GOOD.
    pub status: Vec<u32>,
}

impl Ios {
    /// Puts the rows of another such table behind these.
    pub fn append(&mut self, other: Ios) {
        let Ios { issued_t_ns, completed_t_ns, op, offset_bytes, len_bytes, status } = other;
        self.issued_t_ns.extend(issued_t_ns);
        self.completed_t_ns.extend(completed_t_ns);
        self.op.extend(op);
        self.offset_bytes.extend(offset_bytes);
        self.len_bytes.extend(len_bytes);
        self.status.extend(status);
    }
}

impl Row for Io {
    const TABLE: &'static str = "io";
    type Columns = Ios;

    fn push(&self, columns: &mut Ios) {
        columns.issued_t_ns.push(self.issued.as_nanos());
        columns.completed_t_ns.push(self.completed.as_nanos());
        columns.op.push(self.op);
        columns.offset_bytes.push(self.offset_bytes);
        columns.len_bytes.push(self.len_bytes);
        columns.status.push(u32::from(self.status));
    }

    fn visit<V: Visit>(columns: &mut Ios, visitor: &mut V) -> Result<(), V::Error> {
        visitor.u64("issued_t_ns", &mut columns.issued_t_ns)?;
        visitor.u64("completed_t_ns", &mut columns.completed_t_ns)?;
        visitor.word("op", &mut columns.op)?;
        visitor.u64("offset_bytes", &mut columns.offset_bytes)?;
        visitor.u32("len_bytes", &mut columns.len_bytes)?;
        visitor.u32("status", &mut columns.status)
    }
}
