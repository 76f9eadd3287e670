//! Pings without an answer: NOP-Out and NOP-In with a valid tag (RFC 7143 sections 11.18 and 11.19).

use wire::iscsi::{Opcode, RESERVED_TAG};

use crate::iscsi::pdu::FramedPdu;

/// Time in ns after which a ping has timed out: the default of open-iscsi's `node.conn[0].timeo.noop_out_timeout`, 5 s.
pub(super) const TIMEOUT_NS: u64 = 5_000_000_000;

/// Tag of a NOP: one that asks for an answer, or one that answers.
pub(super) enum NopTag {
    Ping(u32),
    Answer(u32),
}

impl NopTag {
    /// Tag of a NOP; `None` if it neither asks nor answers, or its tags are not known.
    pub(super) fn new(pdu: &FramedPdu) -> Option<Self> {
        let (itt, ttt) = (pdu.itt(), pdu.word(20));
        let valid = |tag: u32| Some(tag).filter(|tag| *tag != RESERVED_TAG);
        match pdu.opcode {
            Opcode::NopOut => valid(itt).map(Self::Ping).or_else(|| valid(ttt?).map(Self::Answer)),
            Opcode::NopIn => valid(itt).map(Self::Answer).or_else(|| valid(ttt?).map(Self::Ping)),
            _ => None,
        }
    }
}
