//! One direction of a TCP connection: the kind of each segment, bytes in flight, round trips by acknowledgement.

use wire::inet::Segment;
use wire::inet::tcp::{ACK, FIN, RST, SYN};

use crate::budget::MemoryBudget;
use crate::figures::ack_clock::AckClock;
use crate::figures::delivery::Delivery;
use crate::figures::distribution::Distribution;
use crate::figures::level::Level;
use crate::figures::slow_start::SlowStarts;
use crate::figures::trains::{PathTrains, TrainSummary};
use crate::serial;
use crate::tcp::black_hole::{BlackHole, BlackHoleSearch};
use crate::tcp::handshake::Handshake;
use crate::tcp::kind::SegmentKind;
use crate::tcp::receive_window::ReceiveWindow;
use crate::tcp::receive_window::scale::WindowScale;
use crate::tcp::scoreboard::Scoreboard;
use crate::tcp::span::SequenceSpan;
use crate::tcp::totals::SegmentTotals;
use crate::tcp::unacked::Acknowledged;

/// Time in ns within which a filled hole was reordering, not loss.
const REORDER_NS: u64 = 3_000_000;
/// Time in ns between a transmission that the sender's own device dropped and the next one.
const LOCAL_NS: std::ops::RangeInclusive<u64> = 1_000..=20_000_000;
/// Time in ns by which an answer may be faster than the fastest round trip: that of the first segments is a wake-up longer.
const FASTER_NS: u64 = 100_000;
/// Payload in bytes below which a segment is a tinygram.
const TINYGRAM: usize = 128;
/// MSS in bytes if the handshake is not in the capture; larger segments fit into no packet of any path.
const LARGE_MSS: usize = 8_960;
/// MSS in bytes assumed for the Nagle test if the sender's SYN is not in the capture: the least MTU of IPv6 (RFC 8200
/// section 5) without the headers of IPv6 and of TCP with timestamps.
const SMALL_MSS: u16 = 1_208;

/// Rates of new data within round trips.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bursts {
    pub(crate) slow_starts: SlowStarts,
    pub(crate) ack_clock: AckClock,
    trains: PathTrains,
}

/// State of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct TcpDirection {
    pub(crate) handshake: Handshake,
    /// Window that this direction's sender advertises to its peer.
    pub(crate) window: ReceiveWindow,
    pub(crate) totals: SegmentTotals,
    pub(crate) delivery: Delivery,
    /// Round trips in ns from a segment to its acknowledgement.
    pub(crate) rtt: Distribution,
    pub(crate) flight_level: Level,
    pub(crate) bursts: Bursts,
    scoreboard: Scoreboard,
    black_hole: BlackHoleSearch,
    /// Scale of the peer's windows, if the handshake is not in the capture.
    peer_scale: WindowScale,
    /// Sequence number after the highest byte sent.
    next: Option<u64>,
    /// Cumulative acknowledgement.
    acked: u64,
    last_payload: usize,
    first_seq: Option<u32>,
    /// End of the stream, if its FIN is in the capture.
    pub(crate) fin: Option<u64>,
}

/// Findings about a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentSegment {
    pub(crate) kind: SegmentKind,
    /// Extended sequence number.
    pub(crate) start: u64,
    /// Bytes in flight, this segment included: not acknowledged and not selectively acknowledged.
    pub(crate) flight_bytes: u64,
    /// Its window differs from the last one.
    pub(crate) window_moved: bool,
    /// The peer's window scale is another one than assumed: earlier full windows are withdrawn.
    pub(crate) scale_changed: bool,
}

/// Findings about the acknowledgement in a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acknowledgement {
    pub(crate) rtt_ns: Option<u64>,
    /// Cumulative acknowledgement, extended.
    pub(crate) upto: u64,
    /// A pure acknowledgement that leaves nothing in flight, after a small segment.
    pub(crate) freed_small: bool,
}

impl TcpDirection {
    /// Takes a segment of this direction; `peer` is the other direction.
    pub(crate) fn send(
        &mut self,
        t_ns: u64,
        segment: &Segment<'_>,
        peer: &TcpDirection,
        budget: &MemoryBudget,
    ) -> SentSegment {
        self.totals.packets += 1;
        let syn = segment.flags & SYN != 0;
        if syn {
            self.handshake.take(&segment.options);
        }
        let window_moved = self.advertise(t_ns, segment, peer);
        let start = match self.next {
            Some(next) => serial::near(next, segment.seq),
            None => serial::first(segment.seq),
        };
        if self.next.is_none() {
            (self.next, self.acked, self.first_seq) = (Some(start), start, Some(segment.seq));
        }
        let next = self.next.unwrap_or(start);
        let marks = u64::from(syn) + u64::from(segment.flags & FIN != 0);
        let end = start + segment.len as u64 + marks;
        let kind = self.classify(t_ns, segment, (start, end, next), peer);
        self.totals.kinds.count(kind);
        if kind.repairs_loss() {
            self.scoreboard.begin_recovery(next);
        }
        if end > start && kind != SegmentKind::KeepAlive {
            self.scoreboard.holes.fill(start, end);
            if start > next && segment.flags & RST == 0 {
                self.scoreboard.holes.add(next, start, t_ns);
            }
            if end > next {
                self.scoreboard.unacked.push(end, segment.len as u32, t_ns, budget);
                self.next = Some(end);
            }
        }
        if segment.flags & FIN != 0 {
            self.fin = Some(end - 1);
        }
        let flight_bytes = self.flight();
        self.flight_level.set(t_ns, flight_bytes);
        if flight_bytes > 0 {
            self.delivery.begin(t_ns);
        }
        let scale_changed = kind == SegmentKind::New && self.search_scale(t_ns, end, peer);
        if segment.len > 0 {
            self.count_data(t_ns, segment, flight_bytes, peer);
        }
        if kind == SegmentKind::New {
            let [to_receiver, to_sender] = [&self.rtt, &peer.rtt].map(|rtt| rtt.min_ns().unwrap_or(0));
            let rtt_ns = to_receiver.saturating_add(to_sender);
            self.bursts.trains.data(t_ns, segment.len as u64, rtt_ns);
            self.bursts.slow_starts.add(t_ns, segment.len as u64, rtt_ns);
            self.bursts.ack_clock.data(t_ns, [to_receiver, to_sender]);
        }
        SentSegment { kind, start, flight_bytes, window_moved, scale_changed }
    }

    /// Holds new data up to `end` against the peer's window of unknown scale; true if that is another one than it seemed.
    fn search_scale(&mut self, t_ns: u64, end: u64, peer: &TcpDirection) -> bool {
        if peer.handshake.window_shift(&self.handshake).is_some() || peer.window.is_closed() {
            return false;
        }
        let rtt_ns = peer.rtt.min_ns().unwrap_or(0);
        // The history is an eighth of a round trip coarse, and a sender may answer faster than the fastest round trip
        // seen. Too new an edge only looks less full.
        let sent_ns = t_ns.saturating_sub(rtt_ns.saturating_sub(rtt_ns / 4 + FASTER_NS));
        let has_changed = self.peer_scale.permit(
            end,
            |shift| peer.window.edge_at(sent_ns, shift),
            |shift| peer.window.edge_at(t_ns, shift),
            peer.rtt.count(),
        );
        if has_changed {
            self.totals.window_full = 0;
        }
        has_changed
    }

    fn count_data(&mut self, t_ns: u64, segment: &Segment<'_>, flight_bytes: u64, peer: &TcpDirection) {
        let mss = self.mss(peer);
        let fills_window = self.fills_window_of(peer, t_ns);
        let totals = &mut self.totals;
        totals.data_packets += 1;
        totals.payload_bytes += segment.len as u64;
        totals.kept_bytes += segment.payload.len() as u64;
        totals.largest = totals.largest.max(segment.len);
        totals.flight_max = totals.flight_max.max(flight_bytes);
        totals.tinygrams += u64::from(segment.len < TINYGRAM);
        totals.super_packets += u64::from(segment.len > mss);
        totals.window_full += u64::from(fills_window);
        self.last_payload = segment.len;
    }

    /// Largest payload of a packet in bytes, with a default for an unknown handshake.
    fn mss(&self, peer: &TcpDirection) -> usize {
        self.handshake.mss_with(&peer.handshake).map_or(LARGE_MSS, usize::from)
    }

    /// Payload in bytes below which a segment of this direction is small in the sense of Nagle's algorithm.
    pub(crate) fn small_below(&self) -> usize {
        usize::from(self.handshake.own_mss().unwrap_or(SMALL_MSS))
    }

    /// Shift of the windows that this side advertises; `None` if it is unknown.
    pub(crate) fn window_shift(&self, peer: &TcpDirection) -> Option<u8> {
        self.handshake.window_shift(&peer.handshake).or(peer.peer_scale.shift())
    }

    /// Bytes of a full segment, at most; without a handshake from the largest one, which may be a super-packet.
    fn full_segment_bytes(&self, peer: &TcpDirection) -> usize {
        let largest = self.totals.largest;
        let seen = if largest <= LARGE_MSS { largest } else { usize::from(SMALL_MSS) };
        self.handshake.mss_with(&peer.handshake).map_or(seen, usize::from)
    }

    /// Takes the window in a segment; true if it differs from the last one.
    fn advertise(&mut self, t_ns: u64, segment: &Segment<'_>, peer: &TcpDirection) -> bool {
        let moved = self.window.advertise(t_ns, segment);
        if let Some(next) = peer.next
            && segment.flags & (ACK | SYN | RST) == ACK
        {
            let shift = self.handshake.window_shift(&peer.handshake).unwrap_or(peer.peer_scale.least());
            let apart_ns = self.rtt.min_ns().unwrap_or(0) / 8;
            self.window.remember(t_ns, serial::near(next, segment.ack), shift, apart_ns);
        }
        moved
    }

    fn classify(
        &mut self,
        t_ns: u64,
        segment: &Segment<'_>,
        (start, end, next): (u64, u64, u64),
        peer: &TcpDirection,
    ) -> SegmentKind {
        let marked = segment.flags & (SYN | FIN | RST) != 0;
        let is_first = self.totals.data_packets + self.totals.packets <= 1;
        if segment.len <= 1 && !marked && start + 1 == next && !is_first {
            return SegmentKind::KeepAlive;
        }
        let scoreboard = &mut self.scoreboard;
        if segment.len == 0 {
            if end > start && end <= next {
                // The acknowledgement of a SYN or FIN that was sent twice yields no round trip.
                scoreboard.unacked.retransmit(start, end, t_ns);
            }
            return SegmentKind::Control;
        }
        if segment.len == 1 && start == next && peer.window.is_closed() {
            return SegmentKind::WindowProbe;
        }
        // A zero-window probe of one byte leaves that byte to be sent again with new data.
        if end > next && start + 1 >= next {
            return SegmentKind::New;
        }
        // A retransmission may be longer than what it repeats: its new data follow at once.
        let end = end.min(next);
        if end <= self.acked || scoreboard.sacked.covers(start, end) {
            return SegmentKind::Spurious;
        }
        if let Some(since_ns) = scoreboard.holes.fill(start, end) {
            let is_soon = t_ns.saturating_sub(since_ns) < REORDER_NS && !scoreboard.has_dup_acks();
            return if is_soon { SegmentKind::OutOfOrder } else { SegmentKind::Unseen };
        }
        let before = scoreboard.unacked.retransmit(start, end, t_ns);
        if start == self.acked {
            self.black_hole.retransmit(
                t_ns,
                start,
                segment.len as u64,
                before.map_or(t_ns, |before| before.t_ns),
            );
        }
        let too_soon = |ns: u64| LOCAL_NS.contains(&ns) && self.rtt.min_ns().is_some_and(|rtt| ns < rtt);
        let is_soon = before.is_some_and(|before| too_soon(t_ns.saturating_sub(before.t_ns)));
        // No answer to a first transmission arrives within a round trip.
        if is_soon && before.is_some_and(|before| before.is_first) {
            return SegmentKind::Local;
        }
        let sacked_above = scoreboard.sacked.highest().is_some_and(|highest| highest > end);
        if scoreboard.has_dup_acks() || sacked_above {
            return SegmentKind::Fast;
        }
        if is_soon && scoreboard.dup_acks == 0 { SegmentKind::Local } else { SegmentKind::Timeout }
    }

    /// Takes the acknowledgement in a segment of the other direction; `window_moved` as in [`SentSegment`].
    pub(crate) fn acknowledge(
        &mut self,
        t_ns: u64,
        segment: &Segment<'_>,
        window_moved: bool,
        peer: &Handshake,
        budget: &MemoryBudget,
    ) -> Acknowledgement {
        if segment.flags & ACK == 0 {
            return Acknowledgement::default();
        }
        // Without a segment of this direction there is nothing that could be acknowledged.
        let Some(next) = self.next else { return Acknowledgement::default() };
        self.black_hole.hear();
        let ack = serial::near(next, segment.ack);
        let min_rtt_ns = self.bursts.trains.rtt_ns();
        for (start, end) in segment.options.sack.iter() {
            let (start, end) = (serial::near(next, start), serial::near(next, end));
            // A block below the acknowledgement reports a duplicate (RFC 2883); one above the sent data is invalid.
            if start >= ack && end <= next {
                let newly = self.scoreboard.sack(start, end);
                self.delivery.add(t_ns, newly, min_rtt_ns);
                self.bursts.trains.acknowledged(t_ns, newly);
                self.totals.sack_seen = true;
            }
        }
        if ack > self.acked && ack <= next.saturating_add(u64::from(u32::MAX >> 2)) {
            let sacked_before = self.scoreboard.advance(ack);
            let newly = (ack - self.acked).saturating_sub(sacked_before);
            self.delivery.add(t_ns, newly, min_rtt_ns);
            self.bursts.trains.acknowledged(t_ns, newly);
            self.acked = ack;
            self.totals.acks += 1;
            self.bursts.ack_clock.acknowledged(t_ns);
            if ack > next {
                // The receiver has data that never passed the tap.
                self.next = Some(ack);
                self.totals.early_acks += 1;
            }
            self.flight_level.set(t_ns, self.flight());
            if self.flight() == 0 {
                self.delivery.end(t_ns);
            }
            let Acknowledged { rtt_ns, largest_bytes } =
                self.scoreboard.unacked.acknowledge(ack, t_ns, budget);
            // A super-packet arrives in packets of the MSS.
            let mss = self.handshake.mss_with(peer).map_or(LARGE_MSS as u64, u64::from);
            self.black_hole.progress(t_ns, ack, largest_bytes.min(mss));
            if let Some(rtt_ns) = rtt_ns {
                self.rtt.add(rtt_ns);
                self.totals.rtt_alone |= segment.len == 0;
            }
            let small = self.last_payload > 0 && self.last_payload < self.small_below();
            let freed_small = small && ack >= next && segment.len == 0;
            return Acknowledgement { rtt_ns, upto: ack, freed_small };
        }
        let marked = segment.flags & (SYN | FIN | RST) != 0;
        // A window update is no duplicate acknowledgement (RFC 5681 section 2).
        let is_duplicate = !window_moved || segment.options.sack.iter().next().is_some();
        if ack == self.acked && segment.len == 0 && !marked && is_duplicate && self.flight() > 0 {
            self.scoreboard.dup_acks += 1;
            self.totals.dup_acks += 1;
        }
        Acknowledgement { upto: self.acked, ..Acknowledgement::default() }
    }

    /// Trains behind the path: of the packets if the tap is nearer to their receiver, else of their acknowledgements.
    pub(crate) fn trains(&self, peer: &TcpDirection) -> Option<TrainSummary> {
        let [to_receiver, to_sender] = [&self.rtt, &peer.rtt].map(Distribution::min_ns);
        let is_behind = to_receiver.zip(to_sender).is_some_and(|(receiver, sender)| receiver < sender);
        self.bursts.trains.summary(is_behind)
    }

    /// Bytes in flight: not acknowledged and not selectively acknowledged.
    fn flight(&self) -> u64 {
        let sent = self.next.unwrap_or(self.acked).saturating_sub(self.acked);
        sent.saturating_sub(self.scoreboard.sacked.bytes())
    }

    /// True during loss recovery.
    pub(crate) fn is_recovering(&self) -> bool {
        self.scoreboard.is_recovering()
    }

    /// True if the receive window of `peer` had no room for two more segments when the last byte was sent. Senders leave
    /// that room to avoid small segments.
    pub(crate) fn fills_window_of(&self, peer: &TcpDirection, t_ns: u64) -> bool {
        let sent_ns = t_ns.saturating_sub(peer.rtt.min_ns().unwrap_or(0));
        let edge = peer.window_shift(self).and_then(|shift| peer.window.edge_at(sent_ns, shift));
        edge.zip(self.next).is_some_and(|(edge, next)| next + 2 * self.full_segment_bytes(peer) as u64 > edge)
    }

    /// True if all data and the acknowledgement of a segment are known already.
    pub(crate) fn has(&self, segment: &Segment<'_>, peer: &TcpDirection) -> bool {
        let Some(next) = self.next else { return false };
        let marks = segment.flags & (SYN | FIN);
        let end = serial::near(next, segment.seq) + segment.len as u64 + u64::from(marks.count_ones());
        let acks_more = |next: u64| segment.flags & ACK != 0 && serial::near(next, segment.ack) > peer.acked;
        end <= next && !peer.next.is_some_and(acks_more)
    }

    /// True if `peer` takes a RST of this sender with this sequence number: it has to be the next byte that it expects (RFC
    /// 5961 section 3.2). At the tap that is one between the acknowledged and the sent bytes.
    pub(crate) fn may_reset(&self, seq: u32, peer: &TcpDirection) -> bool {
        let sent = self.next.map(|next| next as u32);
        let Some(expected) = peer.window.expected.or(sent.map(|_| self.acked as u32)) else { return true };
        let in_flight = sent.map_or(0, |sent| sent.wrapping_sub(expected));
        let in_flight = if in_flight < 1 << 31 { in_flight } else { 0 };
        seq.wrapping_sub(expected) <= in_flight
    }

    /// True if a RST refuses the SYN of this sender: it acknowledges that (RFC 9293 section 3.10.7.3).
    pub(crate) fn is_refused_by(&self, reset: &Segment<'_>) -> bool {
        let Some((first_seq, next)) = self.first_seq.zip(self.next) else { return false };
        let acked = reset.ack.wrapping_sub(first_seq);
        reset.flags & ACK != 0 && (1..=(next as u32).wrapping_sub(first_seq)).contains(&acked)
    }

    /// Sequence numbers in the capture.
    pub(crate) fn span(&self) -> SequenceSpan {
        let len = self.first_seq.zip(self.next).map(|(seq, next)| next.saturating_sub(serial::first(seq)));
        SequenceSpan { first_seq: self.first_seq, len: len.unwrap_or(0), syn: self.handshake.syn_seen }
    }

    /// True if a SYN with this sequence number repeats the one in the capture.
    pub(crate) fn repeats_syn(&self, seq: u32) -> bool {
        self.first_seq == Some(seq)
    }

    /// True while a segment is retransmitted again and again without progress.
    pub(crate) fn is_stalled(&self) -> bool {
        self.black_hole.is_stalled()
    }

    /// Position of the first byte that has not arrived by `end_ns`: it was sent more than once, and not acknowledged though
    /// there was time for it, three retransmissions or the slowest round trip. `None` if there is none, or no
    /// acknowledgement is in the capture.
    pub(crate) fn undelivered_from(&self, end_ns: u64) -> Option<u64> {
        let sent_ns = self.scoreboard.unacked.first_retransmitted_ns().filter(|_| self.totals.acks > 0)?;
        let slowest_s = self.rtt.durations().map_or(0.0, |rtt| rtt.max_s);
        let is_late = end_ns.saturating_sub(sent_ns) as f64 / 1e9 > slowest_s;
        (is_late || self.is_stalled()).then_some(self.acked)
    }

    /// Path MTU black hole of this direction, once the capture has ended at `t_ns`.
    pub(crate) fn black_hole(&self, t_ns: u64) -> Option<BlackHole> {
        self.black_hole.finish(t_ns)
    }

    /// Bytes from the end of the sent data forward to `seq`, which another file of the capture begins with: 0 for data
    /// that was sent before. A difference of more than a window of TCP (RFC 7323 section 2.3) in the other sense is one that
    /// has wrapped.
    pub(crate) fn gap_to(&self, seq: u32) -> u64 {
        const WINDOW_MAX: u32 = 1 << 30;
        let ahead = self.next.map_or(0, |next| seq.wrapping_sub(next as u32));
        if ahead > u32::MAX - WINDOW_MAX { 0 } else { u64::from(ahead) }
    }

    /// Passes over bytes that are in no file; returns the place behind them. All of them were sent and acknowledged.
    pub(crate) fn pass_over(&mut self, t_ns: u64, bytes: u64, budget: &MemoryBudget) -> u64 {
        let upto = self.next.unwrap_or(0).saturating_add(bytes);
        (self.next, self.acked) = (Some(upto), upto);
        self.scoreboard.advance(upto);
        self.scoreboard.unacked.acknowledge(upto, t_ns, budget);
        self.black_hole.progress(t_ns, upto, 0);
        self.flight_level.set(t_ns, 0);
        self.delivery.end(t_ns);
        upto
    }

    /// Leaves out the time between two moments, which nobody watched: no round trip and no rate spans it.
    pub(crate) fn skip(&mut self, from_ns: u64, to_ns: u64, budget: &MemoryBudget) {
        let next = self.next.unwrap_or(0);
        self.scoreboard.unacked.acknowledge(next, to_ns, budget);
        self.black_hole.skip(to_ns.saturating_sub(from_ns));
        self.window.skip(from_ns, to_ns);
        self.flight_level.skip(from_ns, to_ns);
        if self.flight() > 0 {
            self.delivery.end(from_ns);
            self.delivery.begin(to_ns);
        }
    }

    /// Ends the capture at `t_ns`.
    pub(crate) fn finish(&mut self, t_ns: u64) {
        self.window.finish(t_ns);
    }
}

#[cfg(test)]
mod tests;
