//! Payload in transit between a socket and a LUN: destination of received data, and source of sent data.

use std::sync::Arc;

use block::{Buffer, Halt};
use proto::target::TaskId;
use wire::iscsi::Lun as Address;

use crate::lun::Nexus;
use crate::serve::limits::budget::Filled;

/// A command's payload, from the moment it is its turn until the last byte is placed or queued.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) task: TaskId,
    pub(crate) lun: Address,
    /// First byte on the LUN.
    pub(crate) offset_bytes: u64,
    /// Bytes that the command itself moves; the initiator may have expected fewer.
    pub(crate) actual_bytes: u32,
    /// Bytes transferred: at most the actual and the expected length; a write moves whole blocks.
    pub(crate) len_bytes: u32,
    pub(crate) fua: bool,
    /// The write in progress may leave its data in a volatile cache alone.
    pub(crate) is_cached: bool,
    /// The bytes are in a buffer, which counts against the session's share.
    pub(crate) is_buffered: bool,
    /// Handle that stops the call of a store, if there is one.
    pub(crate) halt: Option<Halt>,
    /// Progress of its data, while the initiator sends them.
    pub(crate) filled: Filled,
    pub(crate) body: Body,
}

impl Transfer {
    /// Stops the call that a worker executes, because the command has ended: the rest of it is not carried out.
    pub(crate) fn halt(&self) {
        if let Some(halt) = &self.halt {
            halt.set();
        }
    }
}

/// Place of the bytes.
#[derive(Debug)]
pub(crate) enum Body {
    /// In the LUN's memory.
    Memory,
    /// Here, while a write fills it.
    Filling(Buffer),
    /// Here, while the initiator sends the parameter data of this command.
    Parameters(Buffer, [u8; 16]),
    /// With a worker.
    Away,
    /// With a worker that keeps the reservations; then this request ends the tasks of these sessions.
    Keeping(usize, Vec<Nexus>),
    /// With a worker, though its command was ended: these requests wait until it comes back.
    Doomed(Vec<usize>),
    /// Nowhere: the command waits until this request has ended its tasks.
    Waiting(usize),
    /// Nowhere: its command was ended while a PDU of it was being received.
    Waste,
    /// Here, while a read sends it.
    Sending(Arc<Buffer>),
}

impl Body {
    /// Returns true while the initiator sends data into a buffer.
    pub(crate) fn lacks_data(&self) -> bool {
        matches!(self, Body::Filling(_) | Body::Parameters(..))
    }
}

/// Destination of received payload. The transfer is looked up on arrival, because it may be over by then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) token: u64,
    /// Offset from the start of the transfer.
    pub(crate) offset_bytes: u32,
}

/// Source of the data segment of a PDU.
#[derive(Debug)]
pub(crate) enum Payload {
    /// The LUN's memory.
    Memory { lun: Address, offset_bytes: u64, len_bytes: usize },
    /// A buffer that a store has filled.
    Buffer { buffer: Arc<Buffer>, offset_bytes: usize, len_bytes: usize },
    /// Bytes made for this PDU.
    Owned(Vec<u8>),
}
