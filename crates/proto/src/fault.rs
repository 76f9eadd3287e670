//! Faults of a peer in the full feature phase, and their consequence at error recovery level 0: either the PDU is
//! rejected and the connection continues, or the connection is dropped.

use wire::iscsi::{BHS_LEN, Error as WireError, Opcode, Pdu};

/// Reason to drop a connection.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// A header that cannot be parsed.
    #[error("peer sent a malformed PDU: {0}")]
    Malformed(#[from] WireError),
    /// A PDU that this side never receives in this phase.
    #[error("peer sent {found:?}, which has no place here")]
    Unexpected {
        /// Opcode of the PDU.
        found: Opcode,
    },
    /// A PDU whose fields contradict the state of its task or session.
    #[error("peer broke the protocol: {what} (task {itt:#010x})")]
    Contradiction {
        /// Nature of the contradiction.
        what: &'static str,
        /// Initiator task tag of the PDU.
        itt: u32,
    },
    /// A data segment longer than declared.
    #[error("peer sent a data segment of {found_bytes} bytes; {limit_bytes} were agreed")]
    SegmentTooLong {
        /// Length of the segment.
        found_bytes: u32,
        /// The limit (MaxRecvDataSegmentLength of this side).
        limit_bytes: u32,
    },
    /// A damaged header; the start of the next PDU is unknown too.
    #[error("a PDU header from the peer does not match its digest: it was damaged on its way")]
    HeaderDigest,
    /// A damaged data segment (error recovery level 0 has no retransmission).
    #[error("data from the peer does not match its digest: it was damaged on its way")]
    DataDigest,
}

impl Fault {
    pub(crate) fn contradiction(what: &'static str, itt: u32) -> Fault {
        Fault::Contradiction { what, itt }
    }
}

/// Destination of a data segment, which is stored there before the PDU is handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    /// No data segment, or one to discard.
    Discard,
    /// A small segment that is collected whole and handled with the PDU.
    Collect,
    /// Payload of a task; data beyond `len_bytes` is discarded.
    Payload {
        /// Token of the task, chosen by the caller.
        token: u64,
        /// Offset within the task's transfer.
        offset_bytes: u32,
        /// Bytes to store.
        len_bytes: u32,
    },
}

/// A PDU to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The basic header segment, parsed.
    pub pdu: Pdu,
    /// The data segment.
    pub data: Data,
}

impl Transmit {
    /// The basic header segment.
    pub fn header(&self) -> [u8; BHS_LEN] {
        let mut header = [0; BHS_LEN];
        self.pdu.emit(&mut header);
        header
    }
}

/// The data segment of a PDU to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Data {
    /// None.
    None,
    /// Bytes owned by the PDU.
    Owned(Vec<u8>),
    /// Part of the payload of a task.
    Payload {
        /// Token of the task, chosen by the caller.
        token: u64,
        /// Offset within the task's transfer.
        offset_bytes: u32,
        /// Length of the part.
        len_bytes: u32,
    },
}
