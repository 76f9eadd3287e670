//! A PDU with its place in the stream and in the capture.

use wire::iscsi::Opcode;

use crate::iscsi::header::PartialHeader;
use crate::packets::packet_ref::PacketRef;

/// A complete PDU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FramedPdu {
    pub(crate) opcode: Opcode,
    pub(crate) header: PartialHeader,
    pub(crate) data_len: u64,
    /// Position of the first byte in the direction's stream.
    pub(crate) start: u64,
    /// Position after the last byte.
    pub(crate) end: u64,
    /// Packet of the first byte.
    pub(crate) first: PacketRef,
    /// Packet that completes the PDU.
    pub(crate) last: PacketRef,
    /// The header is not in the capture.
    pub(crate) inferred: bool,
}

impl FramedPdu {
    /// A byte of the header, if known.
    pub(crate) fn byte(&self, at: usize) -> Option<u8> {
        self.header.byte(at)
    }

    /// A word of the header, if known.
    pub(crate) fn word(&self, at: usize) -> Option<u32> {
        self.header.word(at)
    }

    /// True if the PDU carries the status of its command.
    pub(crate) fn has_status(&self) -> bool {
        let in_data = self.opcode == Opcode::DataIn && self.byte(1).is_some_and(|flags| flags & 1 != 0);
        in_data || self.opcode == Opcode::ScsiResponse
    }

    /// Initiator task tag, which is known of every framed PDU.
    pub(crate) fn itt(&self) -> u32 {
        self.header.bhs().itt()
    }
}
