//! One direction of a TCP connection: what each segment is, what is in flight, how soon it is acknowledged.

use wire::inet::Segment;
use wire::inet::tcp::{ACK, FIN, RST, SYN};

use super::budget::Budget;
use super::delivery::Delivery;
use super::distribution::Distribution;
use super::edges::Edges;
use super::holes::Holes;
use super::kind::{Kind, Kinds};
use super::level::Level;
use super::ranges::Ranges;
use super::serial;
use super::taps::Span;
use super::unacked::Unacked;

/// A gap that is filled within this time was reordering and no loss.
const REORDER_NS: u64 = 3_000_000;
/// A segment that its own device dropped is sent again at least and at most so much later.
const LOCAL_NS: std::ops::RangeInclusive<u64> = 1_000..=20_000_000;
/// Payload below which a segment is a tinygram, in bytes.
const TINYGRAM: usize = 128;
/// What no path takes in one packet, if the connection's beginning did not tell.
const LARGE_MSS: usize = 8_960;

/// What was seen of a direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Half {
    /// Behind the highest byte that was sent.
    next: Option<u64>,
    acked: u64,
    sacked: Ranges,
    /// Something was sent again; it is over when this has arrived.
    recovery_end: Option<u64>,
    holes: Holes,
    unacked: Unacked,
    dup_acks: u32,
    /// Shift of the windows that this side announces; `None` if its SYN was not seen or had none.
    scale: Option<u8>,
    /// Its SYN was seen with all its options.
    pub(super) scale_known: bool,
    pub(super) syn_seen: bool,
    pub(super) mss: Option<u16>,
    pub(super) sack_permitted: bool,
    /// The last window this side announced, as it stood in the header.
    window: Option<u16>,
    /// Up to where this side would take bytes.
    edges: Edges,
    zero_since_ns: Option<u64>,
    last_payload: usize,
    first_seq: Option<u32>,
    /// The end of the stream, where a FIN was seen.
    pub(super) fin: Option<u64>,
    pub(super) packets: u64,
    pub(super) data_packets: u64,
    pub(super) payload_bytes: u64,
    pub(super) kept_bytes: u64,
    pub(super) kinds: Kinds,
    pub(super) delivery: Delivery,
    pub(super) rtt: Distribution,
    pub(super) flight_max: u64,
    pub(super) flight_level: Level,
    pub(super) dup_acks_total: u64,
    pub(super) sack_seen: bool,
    pub(super) zero_windows: u64,
    pub(super) zero_window_ns: u64,
    pub(super) window_full: u64,
    pub(super) tinygrams: u64,
    pub(super) super_packets: u64,
    pub(super) largest: usize,
}

/// What a segment was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) kind: Kind,
    /// Its first byte in the direction's count.
    pub(super) start: u64,
    /// Bytes in flight with it: sent, not acknowledged, not selectively acknowledged.
    pub(super) flight_bytes: u64,
    /// It announces another window than the one before.
    pub(super) window_moved: bool,
}

/// What an acknowledgement told of the other direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acked {
    pub(super) rtt_ns: Option<u64>,
    /// Everything before has arrived.
    pub(super) upto: u64,
    /// It came alone, left nothing in flight, and what was sent last was small.
    pub(super) freed_small: bool,
}

impl Half {
    /// This side has sent a segment into the window `peer` last announced.
    pub(super) fn sent(&mut self, t_ns: u64, segment: &Segment<'_>, peer: &Half, budget: &Budget) -> Sent {
        self.packets += 1;
        let syn = segment.flags & SYN != 0;
        if syn {
            self.syn_seen = true;
            self.mss = segment.options.mss;
            self.scale = segment.options.window_scale;
            self.scale_known = self.scale.is_some() || !segment.options.is_cut;
            self.sack_permitted = segment.options.sack_permitted;
        }
        let window_before = self.window;
        self.announce(t_ns, segment, peer);
        let window_moved = window_before != self.window;
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
        self.kinds.count(kind);
        if kind.is_repair() {
            self.recovery_end.get_or_insert(next);
        }
        if end > start && !matches!(kind, Kind::KeepAlive) {
            self.holes.fill(start, end);
            if start > next && segment.flags & RST == 0 {
                self.holes.add(next, start, t_ns);
            }
            if end > next {
                self.unacked.push(end, t_ns, budget);
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
        if segment.len > 0 {
            self.data(t_ns, segment, flight_bytes, peer);
        }
        Sent { kind, start, flight_bytes, window_moved }
    }

    fn data(&mut self, t_ns: u64, segment: &Segment<'_>, flight_bytes: u64, peer: &Half) {
        self.data_packets += 1;
        self.payload_bytes += segment.len as u64;
        self.kept_bytes += segment.payload.len() as u64;
        self.last_payload = segment.len;
        self.largest = self.largest.max(segment.len);
        self.flight_max = self.flight_max.max(flight_bytes);
        self.tinygrams += u64::from(segment.len < TINYGRAM);
        let mss = self.mss_of(peer);
        self.super_packets += u64::from(segment.len > mss);
        self.window_full += u64::from(self.fills_window_of(peer, t_ns));
    }

    /// What this side may put into one packet: the smaller of what both have said.
    fn mss_of(&self, peer: &Half) -> usize {
        self.mss_agreed(peer).map_or(LARGE_MSS, usize::from)
    }

    /// The smaller of what both have said.
    pub(super) fn mss_agreed(&self, peer: &Half) -> Option<u16> {
        [self.mss, peer.mss].into_iter().flatten().min()
    }

    /// The window this side announced, in bytes; `None` if it is not known what both have said of its scale.
    fn window_bytes(&self, peer: &Half) -> Option<u64> {
        let shift = match (self.scale, peer.scale) {
            (Some(shift), Some(_)) => shift,
            _ if self.scale_known && peer.scale_known => 0,
            _ => return None,
        };
        Some(u64::from(self.window?) << shift)
    }

    fn announce(&mut self, t_ns: u64, segment: &Segment<'_>, peer: &Half) {
        if segment.flags & RST != 0 {
            return;
        }
        self.window = Some(segment.window);
        if let (Some(window), Some(next)) = (self.window_bytes(peer), peer.next)
            && segment.flags & (ACK | SYN) == ACK
        {
            let apart_ns = self.rtt.min_ns().unwrap_or(0) / 8;
            self.edges.add(t_ns, serial::near(next, segment.ack) + window, apart_ns);
        }
        match (segment.window, self.zero_since_ns) {
            (0, None) if segment.flags & SYN == 0 => {
                self.zero_windows += 1;
                self.zero_since_ns = Some(t_ns);
            }
            (1.., Some(since)) => {
                self.zero_window_ns += t_ns.saturating_sub(since);
                self.zero_since_ns = None;
            }
            _ => {}
        }
    }

    fn classify(
        &mut self,
        t_ns: u64,
        segment: &Segment<'_>,
        (start, end, next): (u64, u64, u64),
        peer: &Half,
    ) -> Kind {
        let marked = segment.flags & (SYN | FIN | RST) != 0;
        if segment.len <= 1 && !marked && start + 1 == next && self.data_packets + self.packets > 1 {
            return Kind::KeepAlive;
        }
        if segment.len == 0 {
            if end > start && end <= next {
                // A SYN or FIN that is sent again: its acknowledgement tells no round trip.
                self.unacked.again(start, end, t_ns);
            }
            return Kind::Control;
        }
        if segment.len == 1 && start == next && peer.window == Some(0) {
            return Kind::WindowProbe;
        }
        if end > next {
            return Kind::New;
        }
        if end <= self.acked || self.sacked.covers(start, end) {
            return Kind::Spurious;
        }
        if let Some(since_ns) = self.holes.fill(start, end) {
            let soon = t_ns.saturating_sub(since_ns) < REORDER_NS && self.dup_acks < 3;
            return if soon { Kind::OutOfOrder } else { Kind::Unseen };
        }
        let since = self.unacked.again(start, end, t_ns).map(|before| t_ns.saturating_sub(before));
        let told = self.dup_acks >= 3 || self.sacked.highest().is_some_and(|highest| highest > end);
        if told {
            return Kind::Fast;
        }
        let too_soon = |ns: u64| LOCAL_NS.contains(&ns) && self.rtt.min_ns().is_some_and(|rtt| ns < rtt);
        if self.dup_acks == 0 && since.is_some_and(too_soon) { Kind::Local } else { Kind::Timeout }
    }

    /// The other side has acknowledged what this side sent, and its window has moved or not.
    pub(super) fn acknowledged(
        &mut self,
        t_ns: u64,
        segment: &Segment<'_>,
        window_moved: bool,
        budget: &Budget,
    ) -> Acked {
        if segment.flags & ACK == 0 {
            return Acked::default();
        }
        let Some(next) = self.next else {
            // Nothing was seen of this side yet: its first byte is what is expected now.
            return Acked::default();
        };
        let ack = serial::near(next, segment.ack);
        for (start, end) in segment.options.sack.iter() {
            let (start, end) = (serial::near(next, start), serial::near(next, end));
            // Below the acknowledgement it is a duplicate that is told (RFC 2883); above what was sent, nonsense.
            if start >= ack && end <= next {
                let before = self.sacked.bytes();
                self.sacked.add(start, end);
                let more = self.sacked.bytes().saturating_sub(before);
                self.delivery.add(t_ns, more, self.rtt.min_ns().unwrap_or(0));
                self.sack_seen = true;
            }
        }
        if ack > self.acked && ack <= next.saturating_add(u64::from(u32::MAX >> 2)) {
            let early = self.sacked.bytes_before(ack);
            let delivered = (ack - self.acked).saturating_sub(early);
            self.delivery.add(t_ns, delivered, self.rtt.min_ns().unwrap_or(0));
            self.acked = ack;
            self.dup_acks = 0;
            self.recovery_end = self.recovery_end.filter(|end| *end > ack);
            self.sacked.forget_before(ack);
            self.holes.forget_before(ack);
            if ack > next {
                // The tap has missed what the peer has received.
                self.next = Some(ack);
            }
            self.flight_level.set(t_ns, self.flight());
            if self.flight() == 0 {
                self.delivery.end(t_ns);
            }
            let rtt_ns = self.unacked.acknowledge(ack, t_ns, budget);
            if let Some(rtt_ns) = rtt_ns {
                self.rtt.add(rtt_ns);
            }
            let small = self.last_payload > 0 && self.last_payload < usize::from(self.mss.unwrap_or(1_000));
            return Acked { rtt_ns, upto: ack, freed_small: small && ack >= next && segment.len == 0 };
        }
        let marked = segment.flags & (SYN | FIN | RST) != 0;
        // A window that opens is told of without any loss (RFC 5681 section 2).
        let is_alone = !window_moved || segment.options.sack.iter().next().is_some();
        if ack == self.acked && segment.len == 0 && !marked && is_alone && self.flight() > 0 {
            self.dup_acks += 1;
            self.dup_acks_total += 1;
        }
        Acked { upto: self.acked, ..Acked::default() }
    }

    /// Bytes that were sent and have arrived as far as is known neither in order nor out of it.
    fn flight(&self) -> u64 {
        let sent = self.next.unwrap_or(self.acked).saturating_sub(self.acked);
        sent.saturating_sub(self.sacked.bytes())
    }

    /// Whether something that was lost is being sent again.
    pub(super) fn is_recovering(&self) -> bool {
        self.recovery_end.is_some() || self.dup_acks >= 3
    }

    /// Whether the window had no room for two more segments that `peer` had announced when what passes now was sent:
    /// senders leave some, so as not to send little ones.
    pub(super) fn fills_window_of(&self, peer: &Half, t_ns: u64) -> bool {
        let from_sender_ns = peer.rtt.min_ns().unwrap_or(0);
        let edge = peer.edges.at(t_ns.saturating_sub(from_sender_ns));
        edge.zip(self.next).is_some_and(|(edge, next)| next + 2 * self.mss_of(peer) as u64 > edge)
    }

    /// Whether all that a segment says, data and acknowledgement, was there before.
    pub(super) fn has(&self, segment: &Segment<'_>, peer: &Half) -> bool {
        let Some(next) = self.next else { return false };
        let marks = segment.flags & (SYN | FIN);
        let end = serial::near(next, segment.seq) + segment.len as u64 + u64::from(marks.count_ones());
        let tells = |next: u64| segment.flags & ACK != 0 && serial::near(next, segment.ack) > peer.acked;
        end <= next && !peer.next.is_some_and(tells)
    }

    /// Which bytes were seen.
    pub(super) fn span(&self) -> Span {
        let len = self.first_seq.zip(self.next).map(|(seq, next)| next.saturating_sub(serial::first(seq)));
        Span { first_seq: self.first_seq, len: len.unwrap_or(0), syn: self.syn_seen }
    }

    /// Whether a SYN with this number is the one that was seen, sent again.
    pub(super) fn begins_again(&self, seq: u32) -> bool {
        self.first_seq == Some(seq)
    }

    /// The capture ends.
    pub(super) fn finish(&mut self, t_ns: u64) {
        if let Some(since) = self.zero_since_ns.take() {
            self.zero_window_ns += t_ns.saturating_sub(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    struct Pair {
        sender: Half,
        receiver: Half,
        budget: Budget,
    }

    impl Pair {
        /// Ten segments of 1000 bytes, a millisecond apart, of which `acked` are acknowledged after 50 ms.
        fn new(acked: u32) -> Pair {
            let mut pair =
                Pair { sender: Half::default(), receiver: Half::default(), budget: Budget::new(1 << 20) };
            for n in 0..10 {
                assert_eq!(pair.data(u64::from(n) * MS, n * 1000, 1000).kind, Kind::New);
            }
            pair.ack(50 * MS, acked * 1000, &[]);
            pair
        }

        fn data(&mut self, t_ns: u64, seq: u32, len: usize) -> Sent {
            let segment = Segment { seq: seq.wrapping_sub(5000), len, ..empty() };
            self.sender.sent(t_ns, &segment, &self.receiver, &self.budget)
        }

        fn ack(&mut self, t_ns: u64, ack: u32, sack: &[(u32, u32)]) -> Acked {
            let mut options = vec![5, 2 + 8 * sack.len() as u8];
            for (start, end) in sack {
                options.extend(start.wrapping_sub(5000).to_be_bytes());
                options.extend(end.wrapping_sub(5000).to_be_bytes());
            }
            let options = wire::inet::Options::parse(if sack.is_empty() { &[] } else { &options });
            let segment = Segment { ack: ack.wrapping_sub(5000), options, ..empty() };
            self.acknowledge(t_ns, &segment)
        }

        fn acknowledge(&mut self, t_ns: u64, segment: &Segment<'_>) -> Acked {
            let Sent { window_moved, .. } = self.receiver.sent(t_ns, segment, &self.sender, &self.budget);
            self.sender.acknowledged(t_ns, segment, window_moved, &self.budget)
        }
    }

    fn empty() -> Segment<'static> {
        let nobody = std::net::SocketAddr::from(([0; 4], 0));
        Segment {
            src: nobody,
            dst: nobody,
            seq: 0,
            ack: 0,
            flags: ACK,
            window: 100,
            options: wire::inet::Options::default(),
            ip_len: 40,
            len: 0,
            payload: &[],
        }
    }

    #[test]
    fn round_trip_and_flight() {
        let mut pair = Pair::new(1);
        assert_eq!(pair.sender.rtt.min_ns(), Some(50 * MS));
        assert_eq!(pair.data(51 * MS, 10_000, 1000).flight_bytes, 10_000);
        pair.ack(52 * MS, 1000, &[(3000, 6000)]);
        assert_eq!(pair.data(53 * MS, 11_000, 1000).flight_bytes, 8_000, "SACK is taken off");
        assert_eq!(pair.sender.flight_max, 10_000);
    }

    #[test]
    fn why_it_is_sent_again() {
        let mut fast = Pair::new(2);
        for n in 0..3 {
            fast.ack((51 + n) * MS, 2000, &[]);
        }
        assert_eq!(fast.data(55 * MS, 2000, 1000).kind, Kind::Fast);
        let mut sack = Pair::new(2);
        sack.ack(51 * MS, 2000, &[(4000, 5000)]);
        assert_eq!(sack.data(55 * MS, 2000, 1000).kind, Kind::Fast);
        assert_eq!(sack.data(55 * MS, 4000, 1000).kind, Kind::Spurious, "it was acknowledged selectively");
        let mut timeout = Pair::new(2);
        assert_eq!(timeout.data(300 * MS, 2000, 1000).kind, Kind::Timeout);
        assert_eq!(timeout.data(300 * MS, 0, 1000).kind, Kind::Spurious);
        let mut local = Pair::new(2);
        local.data(60 * MS, 10_000, 1000);
        assert_eq!(local.data(61 * MS, 10_000, 1000).kind, Kind::Local, "a millisecond of 50 later");
        assert_eq!(local.sender.kinds.retransmissions(), 1);
    }

    #[test]
    fn gaps_are_filled_soon_or_late() {
        let mut pair = Pair::new(10);
        assert_eq!(pair.data(60 * MS, 11_000, 1000).kind, Kind::New);
        assert_eq!(pair.data(61 * MS, 10_000, 1000).kind, Kind::OutOfOrder);
        assert_eq!(pair.data(62 * MS, 13_000, 1000).kind, Kind::New);
        assert_eq!(pair.data(150 * MS, 12_000, 1000).kind, Kind::Unseen);
        assert_eq!(pair.data(160 * MS, 15_000, 1000).kind, Kind::New);
        assert_eq!(pair.data(260 * MS, 17_000, 1000).kind, Kind::New);
        assert_eq!(pair.data(261 * MS, 14_000, 1000).kind, Kind::Unseen, "the other gap is a new one");
        assert_eq!(pair.data(262 * MS, 16_000, 1000).kind, Kind::OutOfOrder);
    }

    #[test]
    fn a_window_that_opens_is_no_sign_of_loss() {
        let mut pair = Pair::new(2);
        for window in 101..110 {
            pair.acknowledge(51 * MS, &Segment { ack: 2000_u32.wrapping_sub(5000), window, ..empty() });
        }
        assert!(!pair.sender.is_recovering());
        for _ in 0..3 {
            pair.acknowledge(52 * MS, &Segment { ack: 2000_u32.wrapping_sub(5000), window: 109, ..empty() });
        }
        assert!(pair.sender.is_recovering());
    }

    #[test]
    fn a_syn_that_was_sent_again_tells_no_round_trip() {
        let mut pair =
            Pair { sender: Half::default(), receiver: Half::default(), budget: Budget::new(1 << 20) };
        let syn = Segment { flags: SYN, ..empty() };
        for t_ns in [0, 1000 * MS] {
            pair.sender.sent(t_ns, &syn, &pair.receiver, &pair.budget);
        }
        let answer = Segment { flags: SYN | ACK, ack: 1, ..empty() };
        assert_eq!(pair.acknowledge(1010 * MS, &answer).rtt_ns, None);
    }

    #[test]
    fn a_window_is_known_only_by_what_both_have_said() {
        let options = |is_cut| wire::inet::Options { is_cut, ..wire::inet::Options::default() };
        let syn = |flags, is_cut| Segment { flags, options: options(is_cut), ..empty() };
        for (first, second, expected) in [
            (Some(false), Some(false), Some(100)),
            (Some(true), Some(false), None),
            (Some(false), None, None),
            (None, Some(false), None),
        ] {
            let mut pair =
                Pair { sender: Half::default(), receiver: Half::default(), budget: Budget::new(1 << 20) };
            if let Some(is_cut) = first {
                pair.sender.sent(0, &syn(SYN, is_cut), &pair.receiver, &pair.budget);
            }
            if let Some(is_cut) = second {
                pair.receiver.sent(0, &syn(SYN | ACK, is_cut), &pair.sender, &pair.budget);
            }
            pair.receiver.sent(0, &empty(), &pair.sender, &pair.budget);
            assert_eq!(pair.receiver.window_bytes(&pair.sender), expected, "{first:?} {second:?}");
        }
    }

    #[test]
    fn probes() {
        let mut pair = Pair::new(10);
        assert_eq!(pair.data(60 * MS, 9_999, 1).kind, Kind::KeepAlive);
        assert_eq!(pair.data(61 * MS, 9_999, 0).kind, Kind::KeepAlive);
        let closed = Segment { window: 0, ..empty() };
        pair.receiver.sent(70 * MS, &closed, &pair.sender, &pair.budget);
        assert_eq!(pair.data(80 * MS, 10_000, 1).kind, Kind::WindowProbe);
        pair.receiver.finish(90 * MS);
        assert_eq!((pair.receiver.zero_windows, pair.receiver.zero_window_ns), (1, 20 * MS));
    }
}
