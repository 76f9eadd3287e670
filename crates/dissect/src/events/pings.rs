//! Pings without an answer: NOP-Out and NOP-In with a valid tag (RFC 7143 sections 11.18 and 11.19).

use wire::iscsi::{Opcode, RESERVED_TAG};

use crate::iscsi::pdu::FramedPdu;
use crate::packets::packet_ref::PacketRef;

/// Time in ns after which a ping has timed out: the default of open-iscsi's `node.conn[0].timeo.noop_out_timeout`, 5 s.
pub(super) const TIMEOUT_NS: u64 = 5_000_000_000;
/// Limit of pings without an answer.
const PINGS_MAX: usize = 16;

/// Pings of one side that have no answer yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Pings {
    waiting: Vec<Ping>,
}

/// A ping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ping {
    tag: u32,
    pub(super) packet: PacketRef,
}

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

impl Pings {
    /// Takes a ping; returns the oldest one if there are too many.
    pub(super) fn send(&mut self, tag: u32, packet: PacketRef) -> Option<Ping> {
        let oldest = (self.waiting.len() == PINGS_MAX).then(|| self.waiting.remove(0));
        self.waiting.push(Ping { tag, packet });
        oldest
    }

    /// Takes an answer; returns its ping.
    pub(super) fn answer(&mut self, tag: u32) -> Option<Ping> {
        let place = self.waiting.iter().position(|ping| ping.tag == tag)?;
        Some(self.waiting.remove(place))
    }

    /// Forgets all pings and returns them.
    pub(super) fn take(&mut self) -> Vec<Ping> {
        std::mem::take(&mut self.waiting)
    }
}
