//! What a peer can do wrong in the full feature phase, and what follows from it at error recovery
//! level 0: either the PDU is rejected and the connection goes on, or the connection is dropped.

use wire::iscsi::{BHS_LEN, Error as WireError, Opcode, Pdu};

/// Why a connection must be dropped.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// A header that is no PDU.
    #[error("peer sent a malformed PDU: {0}")]
    Malformed(#[from] WireError),
    /// A PDU that this side never receives in this phase.
    #[error("peer sent {found:?}, which has no place here")]
    Unexpected {
        /// What it is.
        found: Opcode,
    },
    /// A PDU whose fields contradict the state of its task or session.
    #[error("peer broke the protocol: {what} (task {itt:#010x})")]
    Contradiction {
        /// What is wrong.
        what: &'static str,
        /// Initiator task tag of the PDU.
        itt: u32,
    },
    /// A data segment longer than was declared.
    #[error("peer sent a data segment of {found_bytes} bytes; {limit_bytes} were agreed")]
    SegmentTooLong {
        /// Its length.
        found_bytes: u32,
        /// The limit (our MaxRecvDataSegmentLength).
        limit_bytes: u32,
    },
    /// A header that changed on its way; where the next PDU begins is not known either.
    #[error("a PDU header from the peer does not match its digest: it was damaged on its way")]
    HeaderDigest,
    /// A data segment that changed on its way (at error recovery level 0 nothing is asked for again).
    #[error("data from the peer does not match its digest: it was damaged on its way")]
    DataDigest,
}

impl Fault {
    pub(crate) fn contradiction(what: &'static str, itt: u32) -> Fault {
        Fault::Contradiction { what, itt }
    }
}

/// Where a data segment belongs; it is laid down there before the PDU is handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    /// There is none, or nobody wants it.
    Discard,
    /// Small and wanted whole, with the PDU.
    Collect,
    /// Payload of the task that the caller knows as `token`; what is longer is discarded.
    Payload {
        /// The caller's name of the task.
        token: u64,
        /// Where it begins within the task's transfer.
        offset_bytes: u32,
        /// Its length.
        len_bytes: u32,
    },
}

/// A PDU to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// What its basic header segment says.
    pub pdu: Pdu,
    /// Its data segment.
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
    /// These bytes.
    Owned(Vec<u8>),
    /// Part of the payload of the task that the caller knows as `token`.
    Payload {
        /// The caller's name of the task.
        token: u64,
        /// Where it begins within the task's transfer.
        offset_bytes: u32,
        /// Its length.
        len_bytes: u32,
    },
}
