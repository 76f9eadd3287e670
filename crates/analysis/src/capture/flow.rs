//! One TCP connection: both directions, their streams, and the iSCSI in them.

use std::net::SocketAddr;

use wire::inet::Segment;
use wire::inet::tcp::{FIN, SYN};

use super::budget::Budget;
use super::distribution::DISTRIBUTION_HELD;
use super::framer::{FRAMER_HELD, Framer};
use super::half::Half;
use super::holes::HOLES_HELD;
use super::kind::Kind;
use super::plausible::Side;
use super::ranges::RANGES_HELD;
use super::session::Session;
use super::stalls::Stalls;
use super::stream::{Chunk, Stream, Tag};
use super::tell::{Listener, Out, PacketRow};
use super::waits::{Before, TimeSpent};

/// Nothing from either side for longer is an idle gap, in ns: Linux's least retransmission timeout, behind which a
/// congestion window starts anew.
pub(super) const IDLE_NS: u64 = 200_000_000;

/// What a connection may hold besides what is taken from the budget as it grows: it is taken as a whole. The list of
/// all has the old one beside it while it grows.
pub(super) const FLOW_HELD: usize =
    3 * size_of::<Flow>() + 11 * DISTRIBUTION_HELD + 2 * RANGES_HELD + 2 * HOLES_HELD + 2 * FRAMER_HELD + 256;

/// One connection as one tap saw it. Direction 0 is that of the first packet seen.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) addresses: [SocketAddr; 2],
    /// The interface that shows each direction, if one has.
    pub(super) taps: [Option<u32>; 2],
    pub(super) halves: [Half; 2],
    pub(super) streams: [Stream; 2],
    pub(super) framers: [Framer; 2],
    pub(super) stalls: [Stalls; 2],
    pub(super) session: Session,
    pub(super) spent: TimeSpent,
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    pub(super) idle_gaps: u64,
    pub(super) idle_ns: u64,
}

impl Flow {
    pub(super) fn new(addresses: [SocketAddr; 2], taps: [Option<u32>; 2], t_ns: u64) -> Self {
        Self {
            addresses,
            taps,
            halves: <[Half; 2]>::default(),
            streams: <[Stream; 2]>::default(),
            framers: <[Framer; 2]>::default(),
            stalls: [Stalls::default(); 2],
            session: Session::new(addresses),
            spent: TimeSpent::default(),
            first_ns: t_ns,
            last_ns: t_ns,
            idle_gaps: 0,
            idle_ns: 0,
        }
    }

    /// The direction that a segment of this connection goes.
    pub(super) fn direction(&self, segment: &Segment<'_>) -> usize {
        usize::from(segment.src != self.addresses[0])
    }

    /// Whether what a segment says on that direction was there before.
    pub(super) fn has(&self, direction: usize, segment: &Segment<'_>) -> bool {
        self.halves[direction].has(segment, &self.halves[1 - direction])
    }

    /// Whether a segment was there before, also if it begins the connection.
    pub(super) fn repeats(&self, segment: &Segment<'_>) -> bool {
        let direction = self.direction(segment);
        match segment.flags & SYN {
            0 => self.has(direction, segment),
            _ => self.halves[direction].begins_again(segment.seq),
        }
    }

    /// The interfaces of both directions; one that shows nothing has that of the other.
    pub(super) fn interfaces(&self) -> [u32; 2] {
        let [first, second] = self.taps;
        [first.or(second), second.or(first)].map(Option::unwrap_or_default)
    }

    /// A packet of this connection.
    pub(super) fn packet(
        &mut self,
        tag: Tag,
        segment: &Segment<'_>,
        budget: &Budget,
        listener: &mut dyn Listener,
    ) {
        let direction = self.direction(segment);
        let interfaces = self.interfaces();
        self.idle(tag.t_ns);
        self.spent.pass(tag.t_ns);
        let [first, second] = &mut self.halves;
        let (own, peer) = if direction == 0 { (first, second) } else { (second, first) };
        let sent = own.sent(tag.t_ns, segment, peer, budget);
        let acked = peer.acknowledged(tag.t_ns, segment, sent.window_moved, budget);
        if let (Some(rtt_ns), Some(min_ns)) = (acked.rtt_ns, peer.rtt.min_ns()) {
            self.stalls[1 - direction].acknowledged(tag.t_ns, rtt_ns, min_ns, acked.freed_small);
        }
        if sent.kind == Kind::New {
            let mss = own.mss.map_or(1_000, usize::from);
            let other_rtt_ns = peer.rtt.min_ns().unwrap_or(0);
            self.stalls[direction].sent(tag.t_ns, other_rtt_ns, segment.len < mss);
        }
        let peer_end = peer.fin;
        let first = sent.start + u64::from(segment.flags & SYN != 0);
        let [own_first, peer_first] = [direction, 1 - direction].map(|n| self.session.starts[n]);
        listener.packet(&PacketRow {
            packet: tag.packet,
            t_ns: tag.t_ns,
            interface: interfaces[direction],
            src: segment.src,
            dst: segment.dst,
            seq: segment.seq,
            ack: segment.ack,
            len: segment.len,
            place: first.saturating_sub(own_first.unwrap_or(first)),
            acked: peer_first.map_or(0, |peer_first| acked.upto.saturating_sub(peer_first)),
            ip_bytes: segment.ip_len,
            flags: segment.flags,
            kind: sent.kind,
            ack_rtt_ns: acked.rtt_ns,
            flight_bytes: sent.flight_bytes,
        });
        self.data(direction, tag, segment, (sent.kind, sent.start), budget, listener);
        if acked.upto > 0 {
            let upto = acked.upto.min(peer_end.unwrap_or(u64::MAX));
            let [_, initiator_rtt_ns] = self.rtt_ns();
            let (framer, session) = (&mut self.framers[1 - direction], &mut self.session);
            let mut out = Out { listener, budget, interfaces, initiator_rtt_ns };
            let mut sink = |chunk: Chunk<'_>| framer.chunk(&chunk, 1 - direction, session, &mut out);
            self.streams[1 - direction].give_up(upto, tag, budget, &mut sink);
        }
        self.spent.stand(tag.t_ns, self.stands(tag.t_ns));
    }

    /// The fastest round trip from the tap to the target, and to the initiator, in ns; 0 if there was none.
    fn rtt_ns(&self) -> [u64; 2] {
        let target = usize::from(self.session.side(1) == Side::Target);
        [1 - target, target].map(|sender| self.halves[sender].rtt.min_ns().unwrap_or(0))
    }

    /// How things stand now.
    fn stands(&self, now_ns: u64) -> Before {
        let open = self.session.commands.open.len();
        let in_hand = [0, 1].map(|direction| self.framers[direction].is_within_a_pdu());
        let rtt_ns = self.rtt_ns();
        let closed_until_ns = self.session.window.closed_until_ns(rtt_ns[1]);
        if open == 0 && in_hand == [false; 2] {
            let ended_ns = self.session.commands.ended_ns;
            return Before { closed_until_ns, ended_ns, rtt_ns, ..Before::default() };
        }
        let [first, second] = &self.halves;
        let full = in_hand[0] && first.fills_window_of(second, now_ns)
            || in_hand[1] && second.fills_window_of(first, now_ns);
        Before {
            open,
            recovering: first.is_recovering() || second.is_recovering(),
            in_hand: in_hand != [false; 2],
            window_full: full,
            closed_until_ns,
            ended_ns: None,
            for_r2t: self.session.commands.for_r2t,
            since_ns: self.session.commands.since_ns,
            rtt_ns,
        }
    }

    fn data(
        &mut self,
        direction: usize,
        tag: Tag,
        segment: &Segment<'_>,
        (kind, start): (Kind, u64),
        budget: &Budget,
        listener: &mut dyn Listener,
    ) {
        let start = start + u64::from(segment.flags & SYN != 0);
        if segment.flags & SYN != 0 {
            self.streams[direction].begin(start);
            self.framers[direction].begin(start);
            self.session.begin();
            self.session.starts[direction].get_or_insert(start);
        }
        if segment.len == 0 || kind == Kind::KeepAlive {
            return;
        }
        self.session.starts[direction].get_or_insert(start);
        let chunk = Chunk { start, end: start + segment.len as u64, known: segment.payload, tag };
        let interfaces = self.interfaces();
        let [_, initiator_rtt_ns] = self.rtt_ns();
        let (framer, session) = (&mut self.framers[direction], &mut self.session);
        let mut out = Out { listener, budget, interfaces, initiator_rtt_ns };
        let mut sink = |chunk: Chunk<'_>| framer.chunk(&chunk, direction, session, &mut out);
        self.streams[direction].push(chunk, budget, &mut sink);
    }

    fn idle(&mut self, t_ns: u64) {
        let gap_ns = t_ns.saturating_sub(self.last_ns);
        if gap_ns > IDLE_NS {
            self.idle_gaps += 1;
            self.idle_ns += gap_ns;
        }
        self.last_ns = self.last_ns.max(t_ns);
    }

    /// Whether a segment from `interface` is the next of a direction that is followed there: then it is of no other tap.
    pub(super) fn goes_on_with(&self, segment: &Segment<'_>, interface: u32) -> bool {
        let direction = self.direction(segment);
        self.taps[direction] == Some(interface)
            && segment.flags & SYN == 0
            && [segment.src, segment.dst] == [self.addresses[direction], self.addresses[1 - direction]]
    }

    /// Whether this SYN begins another connection between the same ports.
    pub(super) fn is_over(&self, segment: &Segment<'_>) -> bool {
        let direction = self.direction(segment);
        let begun = self.halves.iter().any(|half| half.data_packets > 0 || half.fin.is_some());
        segment.flags & (SYN | FIN) == SYN && begun && !self.halves[direction].begins_again(segment.seq)
    }
}
