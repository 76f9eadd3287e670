//! One TCP connection as one tap shows it: both directions, their streams, and the iSCSI in them.

use std::net::SocketAddr;

use wire::inet::Segment;
use wire::inet::tcp::{ACK, FIN, RST, SYN};

use crate::budget::MemoryBudget;
use crate::events::log::Occurrence;
use crate::events::reports::Report;
use crate::events::watch::ConnectionEnd;
use crate::figures::distribution::DISTRIBUTION_HELD;
use crate::figures::time_use::{Activity, TimeAccount};
use crate::iscsi::commands::statuses::PLACES_HELD;
use crate::iscsi::framer::Framer;
use crate::iscsi::pdu::Hidden;
use crate::iscsi::role::Role;
use crate::iscsi::session::Session;
use crate::iscsi::text::FRAMER_HELD;
use crate::iscsi::trial::TRIAL_HELD;
use crate::output::Output;
use crate::packets::file_edge::FileEdge;
use crate::packets::packet_ref::PacketRef;
use crate::packets::window::LATE_MAX_NS;
use crate::rows::{DirectionKey, PacketRow, RowSink};
use crate::tcp::direction::{SentSegment, TcpDirection};
use crate::tcp::holes::HOLES_HELD;
use crate::tcp::kind::SegmentKind;
use crate::tcp::nagle::NagleStalls;
use crate::tcp::ranges::RANGES_HELD;
use crate::tcp::stream::{Chunk, Reassembler};

/// Time in ns without a packet of either direction that is an idle gap: Linux's minimum retransmission timeout, after
/// which a congestion window restarts.
const IDLE_NS: u64 = 200_000_000;

/// Time in ns after the last segment in which a report of one may come: the maximum segment lifetime (RFC 9293 section
/// 3.4.2), 2 min.
const REPORT_NS: u64 = 120_000_000_000;

/// Memory in bytes that a connection needs besides the parts that reserve as they grow; reserved as a whole. While the
/// list of connections grows the old one exists beside it.
pub(crate) const CONNECTION_HELD: usize = 3 * size_of::<TappedConnection>()
    + 19 * DISTRIBUTION_HELD
    + 2 * RANGES_HELD
    + 2 * HOLES_HELD
    + 2 * FRAMER_HELD
    + 2 * TRIAL_HELD
    + PLACES_HELD
    + 256;

/// Files of the capture in which a connection was seen last.
#[derive(Clone, Copy, Debug)]
struct LastFiles {
    /// That of each direction.
    seen: [u32; 2],
    /// The one up to which the time between files is accounted for.
    accounted: u32,
}

/// One connection at one tap. Direction 0 is that of the first packet.
#[derive(Clone, Debug)]
pub(crate) struct TappedConnection {
    pub(crate) addresses: [SocketAddr; 2],
    /// Interface that shows each direction.
    pub(crate) taps: [Option<u32>; 2],
    pub(crate) directions: [TcpDirection; 2],
    pub(crate) streams: [Reassembler; 2],
    pub(crate) framers: [Framer; 2],
    pub(crate) stalls: [NagleStalls; 2],
    pub(crate) session: Session,
    pub(crate) time: TimeAccount,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) idle_gaps: u64,
    pub(crate) idle_ns: u64,
    files: LastFiles,
    /// Last time at which the tap is known to have watched the connection.
    pub(crate) end_ns: u64,
    /// Most bytes that the capture has kept of a packet that it has cut.
    pub(crate) cut_len: Option<u32>,
}

impl TappedConnection {
    /// Connection that begins in a file of the capture, by its number.
    pub(crate) fn new(addresses: [SocketAddr; 2], taps: [Option<u32>; 2], t_ns: u64, file: u32) -> Self {
        Self {
            addresses,
            taps,
            directions: <[TcpDirection; 2]>::default(),
            streams: <[Reassembler; 2]>::default(),
            framers: <[Framer; 2]>::default(),
            stalls: [NagleStalls::default(); 2],
            session: Session::new(addresses),
            time: TimeAccount::default(),
            first_ns: t_ns,
            last_ns: t_ns,
            idle_gaps: 0,
            idle_ns: 0,
            files: LastFiles { seen: [file; 2], accounted: file },
            end_ns: t_ns,
            cut_len: None,
        }
    }

    /// Direction of a segment of this connection.
    pub(crate) fn direction(&self, segment: &Segment<'_>) -> usize {
        usize::from(segment.src != self.addresses[0])
    }

    /// True if all data and the acknowledgement of a segment are known already.
    pub(crate) fn has(&self, direction: usize, segment: &Segment<'_>) -> bool {
        self.directions[direction].has(segment, &self.directions[1 - direction])
    }

    /// True if a segment repeats a known one, the SYN included.
    pub(crate) fn repeats(&self, segment: &Segment<'_>) -> bool {
        let direction = self.direction(segment);
        match segment.flags & SYN {
            0 => self.has(direction, segment),
            _ => self.directions[direction].repeats_syn(segment.seq),
        }
    }

    /// Interface of each direction; a direction without packets has the interface of the other one.
    pub(crate) fn interfaces(&self) -> [u32; 2] {
        let [first, second] = self.taps;
        [first.or(second), second.or(first)].map(Option::unwrap_or_default)
    }

    /// Takes a segment that may be the first one in another file; `edges` are those between all files so far. If bytes are
    /// missing in front of it, a file is missing between the two. Nothing is known of the commands in it: no header is inferred
    /// across the gap, commands from before it have no answer, and its time is nobody's. So is that between files that do not
    /// follow each other at once. Returns the number of the edge from which on a file is missing.
    pub(crate) fn enter_file(
        &mut self,
        edges: &[FileEdge],
        packet: PacketRef,
        segment: &Segment<'_>,
        budget: &MemoryBudget,
        rows: &mut dyn RowSink,
    ) -> Option<usize> {
        let (t_ns, file) = (packet.t_ns, edges.len() as u32);
        let direction = self.direction(segment);
        let first_edge = self.files.accounted as usize;
        self.files.accounted = file;
        if self.files.seen[direction] == file || segment.flags & (SYN | RST) != 0 {
            self.skip_unwatched(&edges[first_edge..], false, budget);
            return None;
        }
        let is_first = self.files.seen[1 - direction] != file;
        self.files.seen[direction] = file;
        let sent = self.directions[direction].gap_to(segment.seq);
        let acked = match segment.flags & ACK {
            0 => 0,
            _ => self.directions[1 - direction].gap_to(segment.ack),
        };
        if sent == 0 && acked == 0 {
            let is_waiting = self.session.commands.table.len() > 0;
            self.skip_unwatched(&edges[first_edge..], is_waiting, budget);
            return None;
        }
        let from_ns = edges.get(first_edge).map_or(self.last_ns, |edge| edge.from_ns.max(self.last_ns));
        if is_first {
            self.skip(from_ns, t_ns, budget);
        }
        for (passed, bytes) in [(direction, sent), (1 - direction, acked)] {
            if bytes == 0 && !is_first {
                continue;
            }
            let upto = self.directions[passed].pass_over(t_ns, bytes, budget);
            let missing = self.streams[passed].pass_over(upto, budget);
            let output = self.output(budget, rows);
            let mut expected = self.session.direction(passed, output);
            self.framers[passed].pass_over(missing, packet, &mut expected);
        }
        if is_first {
            self.session.commands.forget_all(|_| true, from_ns, budget);
            self.session.events.pass_over();
            self.time.set_activity(t_ns, Activity::default());
        }
        Some(first_edge)
    }

    /// Leaves out the unwatched time between files. `stood_still`: no byte moved and commands were outstanding, which is a
    /// stall, watched or not. Tools that rotate by time open the next file with the first packet behind a silence.
    fn skip_unwatched(&mut self, edges: &[FileEdge], stood_still: bool, budget: &MemoryBudget) {
        let is_skipped = |edge: &&FileEdge| edge.lacks_bytes || edge.is_unwatched() && !stood_still;
        for edge in edges.iter().filter(is_skipped) {
            self.skip(edge.from_ns, edge.to_ns, budget);
        }
    }

    /// Leaves out the time between two moments, which nobody watched.
    fn skip(&mut self, from_ns: u64, to_ns: u64, budget: &MemoryBudget) {
        let from_ns = from_ns.max(self.last_ns);
        if to_ns <= from_ns {
            return;
        }
        self.count_idle(from_ns);
        self.last_ns = to_ns;
        self.time.skip(from_ns, to_ns);
        self.session.skip(from_ns, to_ns);
        self.directions.iter_mut().for_each(|direction| direction.skip(from_ns, to_ns, budget));
    }

    /// Edge behind which nobody is known to have watched the connection, if it is in no later file.
    pub(crate) fn last_edge<'a>(&self, edges: &'a [FileEdge]) -> Option<&'a FileEdge> {
        edges[self.files.accounted as usize..].iter().find(|edge| edge.is_unwatched())
    }

    /// Takes a packet of this connection.
    pub(crate) fn packet(
        &mut self,
        packet: PacketRef,
        segment: &Segment<'_>,
        budget: &MemoryBudget,
        rows: &mut dyn RowSink,
    ) {
        let direction = self.direction(segment);
        if segment.flags & RST != 0 {
            self.reset(direction, packet, segment, budget);
        }
        self.count_idle(packet.t_ns);
        self.time.charge(packet.t_ns);
        let [first, second] = &mut self.directions;
        let (own, peer) = if direction == 0 { (first, second) } else { (second, first) };
        let sent = own.send(packet.t_ns, segment, peer, budget);
        if sent.scale_changed {
            self.time.retract_receive_window(direction);
        }
        let acked = peer.acknowledge(packet.t_ns, segment, sent.window_moved, &own.handshake, budget);
        if let (Some(rtt_ns), Some(min_ns)) = (acked.rtt_ns, peer.rtt.min_ns()) {
            self.stalls[1 - direction].acknowledged(packet.t_ns, rtt_ns, min_ns, acked.freed_small);
        }
        if sent.kind == SegmentKind::New {
            let sender_rtt_ns = peer.rtt.min_ns().unwrap_or(0);
            self.stalls[direction].sent(packet.t_ns, sender_rtt_ns, segment.len < own.small_below());
        }
        let peer_end = peer.fin;
        self.session.set_alone(peer.totals.packets == 0);
        rows.packet(&self.row(packet, segment, &sent, (acked.upto, acked.rtt_ns)));
        self.take_data(direction, packet, segment, &sent, budget, rows);
        if acked.upto > 0 {
            let upto = acked.upto.min(peer_end.unwrap_or(u64::MAX));
            let output = self.output(budget, rows);
            let mut expected = self.session.direction(1 - direction, output);
            let framer = &mut self.framers[1 - direction];
            let mut sink = |chunk: Chunk<'_>| framer.chunk(&chunk, &mut expected);
            self.streams[1 - direction].give_up(upto, packet, budget, &mut sink);
        }
        self.time.set_activity(packet.t_ns, self.activity(packet.t_ns));
    }

    /// Takes a RST, which may answer a SYN. One that its receiver refuses ends nothing.
    fn reset(&mut self, direction: usize, packet: PacketRef, segment: &Segment<'_>, budget: &MemoryBudget) {
        let [own, peer] = [direction, 1 - direction].map(|n| &self.directions[n]);
        let is_answer = peer.handshake.syn_seen && !own.handshake.syn_seen && own.totals.packets == 0;
        let is_accepted =
            if is_answer { peer.is_refused_by(segment) } else { own.may_reset(segment.seq, peer) };
        if is_accepted {
            self.session.events.reset(direction, packet, is_answer, budget);
        }
    }

    /// Takes an ICMP report of a segment, which may be of another connection.
    pub(crate) fn report(&mut self, report: &Report, budget: &MemoryBudget) {
        let Report { unreachable, in_file, t_ns } = *report;
        let Some(direction) = self.addresses.iter().position(|address| *address == unreachable.src) else {
            return;
        };
        let is_during = t_ns.saturating_add(LATE_MAX_NS) >= self.first_ns
            && t_ns <= self.end_ns.max(self.last_ns).saturating_add(REPORT_NS);
        let is_own = self.addresses[1 - direction] == unreachable.dst
            && self.directions[direction].span().contains(unreachable.seq);
        if is_own && is_during {
            let packet = PacketRef { number: 0, in_file, t_ns };
            let occurrence = Occurrence::new(unreachable.reason.into(), direction, packet);
            let from = unreachable.from.to_string();
            self.session.events.log.add(Occurrence { address: Some(&from), ..occurrence }, budget);
        }
    }

    /// Ends the connection; the tap watched it until `watched_ns`. Time in which nothing moves counts up to there, unless
    /// the connection is closed, or an answer may have passed unseen.
    pub(crate) fn finish(&mut self, watched_ns: u64, budget: &MemoryBudget) {
        let is_closed = self.session.events.is_reset || self.directions.iter().any(|one| one.fin.is_some());
        let is_clear = [0, 1].map(|direction| {
            self.directions[direction].totals.packets > 0
                && self.streams[direction].missing_bytes == 0
                && self.framers[direction].open() == Hidden::default()
        });
        self.end_ns = if is_closed { self.last_ns } else { self.last_ns.max(watched_ns) };
        if is_clear == [true; 2] {
            self.time.charge(self.end_ns);
        }
        for direction in &mut self.directions {
            direction.finish(self.last_ns);
        }
        let initiator = usize::from(self.session.sender(0) == Role::Target);
        let end = ConnectionEnd { t_ns: self.end_ns, is_clear };
        self.session.finish(initiator, end, budget);
    }

    /// Row of a segment; `acked` is its extended acknowledgement and the round trip of that.
    fn row(
        &self,
        packet: PacketRef,
        segment: &Segment<'_>,
        sent: &SentSegment,
        (upto, ack_rtt_ns): (u64, Option<u64>),
    ) -> PacketRow {
        let direction = self.direction(segment);
        let first = sent.start + u64::from(segment.flags & SYN != 0);
        let [own_first, peer_first] = [direction, 1 - direction].map(|n| self.session.starts[n]);
        PacketRow {
            direction: DirectionKey {
                interface: self.interfaces()[direction],
                src: segment.src,
                dst: segment.dst,
            },
            packet: packet.in_file,
            t_ns: packet.t_ns,
            seq: segment.seq,
            ack: segment.ack,
            len: segment.len,
            stream_offset: first.saturating_sub(own_first.unwrap_or(first)),
            acked_offset: peer_first.map_or(0, |peer_first| upto.saturating_sub(peer_first)),
            ip_bytes: segment.ip_len,
            flags: segment.flags,
            kind: sent.kind,
            ack_rtt_ns,
            flight_bytes: sent.flight_bytes,
        }
    }

    /// Fastest round trip from the tap to the target, and to the initiator, in ns; 0 if unknown.
    fn rtt_ns(&self) -> [u64; 2] {
        let target = usize::from(self.session.sender(1) == Role::Target);
        [1 - target, target].map(|sender| self.directions[sender].rtt.min_ns().unwrap_or(0))
    }

    fn output<'a>(&self, budget: &'a MemoryBudget, rows: &'a mut dyn RowSink) -> Output<'a> {
        let [_, initiator_rtt_ns] = self.rtt_ns();
        Output { rows, budget, interfaces: self.interfaces(), initiator_rtt_ns }
    }

    /// State after a packet.
    fn activity(&self, now_ns: u64) -> Activity {
        let commands = &self.session.commands;
        let outstanding = commands.table.len();
        let within_pdu = [0, 1].map(|direction| self.framers[direction].is_within_pdu());
        let rtt_ns = self.rtt_ns();
        let closed_until_ns = self.session.window.closed_until_ns(rtt_ns[1]);
        let is_stalled = self.directions.iter().any(TcpDirection::is_stalled);
        let unseen = self.framers.iter().any(Framer::is_out_of_sync);
        if outstanding == 0 && within_pdu == [false; 2] && !is_stalled {
            let ended_ns = commands.ended_ns;
            let is_refused = commands.is_refused();
            return Activity { unseen, is_refused, closed_until_ns, ended_ns, rtt_ns, ..Activity::default() };
        }
        let [first, second] = &self.directions;
        let fills = |(own, peer): (&TcpDirection, &TcpDirection)| own.fills_window_of(peer, now_ns);
        let both = [(first, second), (second, first)];
        let window_full = [0, 1].map(|direction| within_pdu[direction] && fills(both[direction]));
        Activity {
            unseen,
            outstanding,
            is_stalled,
            is_refused: commands.is_refused(),
            recovering: first.is_recovering() || second.is_recovering(),
            within_pdu: within_pdu != [false; 2],
            window_full,
            closed_until_ns,
            ended_ns: None,
            for_r2t: commands.for_r2t,
            turn_since_ns: commands.turns_since_ns,
            rtt_ns,
        }
    }

    /// Passes the payload of a segment through reassembly to the framer.
    fn take_data(
        &mut self,
        direction: usize,
        packet: PacketRef,
        segment: &Segment<'_>,
        sent: &SentSegment,
        budget: &MemoryBudget,
        rows: &mut dyn RowSink,
    ) {
        let start = sent.start + u64::from(segment.flags & SYN != 0);
        // A SYN that was sent again, or a damaged one, begins nothing.
        if segment.flags & SYN != 0 && self.streams[direction].begin(start) {
            self.framers[direction].begin(start);
            self.session.begin();
            self.session.starts[direction].get_or_insert(start);
        }
        if segment.len == 0 || sent.kind == SegmentKind::KeepAlive {
            return;
        }
        self.session.starts[direction].get_or_insert(start);
        let end = start + segment.len as u64;
        let chunk = Chunk { start, end, known: segment.payload, packet, missing: false };
        let output = self.output(budget, rows);
        let mut expected = self.session.direction(direction, output);
        let framer = &mut self.framers[direction];
        let mut sink = |chunk: Chunk<'_>| framer.chunk(&chunk, &mut expected);
        self.streams[direction].push(chunk, budget, &mut sink);
    }

    fn count_idle(&mut self, t_ns: u64) {
        let gap_ns = t_ns.saturating_sub(self.last_ns);
        if gap_ns > IDLE_NS {
            self.idle_gaps += 1;
            self.idle_ns += gap_ns;
        }
        self.last_ns = self.last_ns.max(t_ns);
    }

    /// True if a segment from `interface` continues a direction at that interface. No placement is needed then.
    pub(crate) fn continues_with(&self, segment: &Segment<'_>, interface: u32) -> bool {
        let direction = self.direction(segment);
        self.taps[direction] == Some(interface)
            && segment.flags & SYN == 0
            && [segment.src, segment.dst] == [self.addresses[direction], self.addresses[1 - direction]]
    }

    /// True if a segment is the SYN of a later connection between the same ports.
    pub(crate) fn is_over(&self, segment: &Segment<'_>) -> bool {
        let direction = self.direction(segment);
        let has_data = |one: &TcpDirection| one.totals.data_packets > 0 || one.fin.is_some();
        let begun = self.directions.iter().any(has_data);
        segment.flags & (SYN | FIN) == SYN && begun && !self.directions[direction].repeats_syn(segment.seq)
    }
}
