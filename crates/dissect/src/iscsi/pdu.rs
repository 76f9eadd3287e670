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
    /// The packet that completes it is not in the capture.
    pub(crate) end_missing: bool,
    /// Not confirmed yet by a header after it: inferred, or found in mid-stream.
    pub(crate) provisional: bool,
    /// Bytes since the last visible PDU that may hide headers.
    pub(crate) hidden_before: Hidden,
}

/// Unknown bytes in which there may be headers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Hidden {
    /// Bytes of packets that the capture has cut.
    pub(crate) cut: u64,
    /// Bytes of packets that are not in the capture.
    pub(crate) missing: u64,
    /// Parts of packets with these bytes.
    pub(crate) parts: u64,
}

impl Hidden {
    /// Adds `bytes` of a packet that was cut, or is missing.
    pub(crate) fn add(&mut self, bytes: u64, missing: bool) {
        *(if missing { &mut self.missing } else { &mut self.cut }) += bytes;
        self.parts += u64::from(bytes > 0);
    }

    /// The sum of both.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            cut: self.cut + other.cut,
            missing: self.missing + other.missing,
            parts: self.parts + other.parts,
        }
    }
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

    /// Response code: of a SCSI Response, where a Data-In has 0, of a Reject its reason, and of responses to logouts and task
    /// management (RFC 7143 sections 11.4.3, 11.6.1, 11.15.1 and 11.17.1).
    pub(crate) fn response(&self) -> Option<u8> {
        self.byte(2)
    }

    /// SCSI status (RFC 7143 section 11.4.2), if the PDU is one with a status.
    pub(crate) fn scsi_status(&self) -> Option<u8> {
        self.byte(3).filter(|_| self.has_status())
    }

    /// True if the PDU carries the status of its command.
    pub(crate) fn has_status(&self) -> bool {
        let in_data = self.opcode == Opcode::DataIn && self.byte(1).is_some_and(|flags| flags & 1 != 0);
        in_data || self.opcode == Opcode::ScsiResponse
    }

    /// True for a response with a valid StatSN.
    pub(crate) fn has_stat_sn(&self) -> bool {
        !self.opcode.is_request() && (self.opcode != Opcode::DataIn || self.has_status())
    }

    /// True if the time of its end is known.
    pub(crate) fn is_timed(&self) -> bool {
        !self.inferred && !self.end_missing
    }

    /// True for a request that is marked immediate.
    pub(crate) fn is_immediate(&self) -> bool {
        self.byte(0).is_some_and(|byte| byte & 0x40 != 0)
    }

    /// Initiator task tag, which is known of every framed PDU.
    pub(crate) fn itt(&self) -> u32 {
        self.header.bhs().itt()
    }
}

/// True for requests that carry CmdSN.
pub(crate) fn has_cmd_sn(opcode: Opcode) -> bool {
    opcode.is_request() && !matches!(opcode, Opcode::DataOut | Opcode::SnackRequest)
}
