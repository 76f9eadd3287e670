//! The table `io`: requests of the caller, as the initiator saw them. Written by the near end.

use event::{Io, Op};

use crate::column::table;

table! {
    /// The table `io` as plain columns.
    Ios, table "io" of io: Io;
    /// Time of issue by the caller, CLOCK_MONOTONIC.
    issued_t_ns: Vec<u64> = io.issued,
    /// Time of completion to the caller.
    completed_t_ns: Vec<u64> = io.completed,
    /// Read or write.
    op: Vec<Op> = io.op,
    /// Offset of the first byte on the LUN.
    offset_bytes: Vec<u64> = io.offset_bytes,
    /// Transfer length.
    len_bytes: Vec<u32> = io.len_bytes,
    /// SCSI status byte, 0 is GOOD.
    status: Vec<u32> = u32::from(io.status),
}
