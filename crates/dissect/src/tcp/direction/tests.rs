//! One sender and its receiver, segment by segment.

use wire::inet::tcp::{ACK, SYN};

use super::*;

const MS: u64 = 1_000_000;

struct Pair {
    sender: TcpDirection,
    receiver: TcpDirection,
    budget: MemoryBudget,
}

impl Pair {
    /// Before the first segment.
    fn silent() -> Pair {
        Pair {
            sender: TcpDirection::default(),
            receiver: TcpDirection::default(),
            budget: MemoryBudget::new(1 << 20),
        }
    }

    /// Ten segments of 1000 bytes, a millisecond apart, of which `acked` are acknowledged after 50 ms.
    fn new(acked: u32) -> Pair {
        let mut pair = Pair::silent();
        for n in 0..10 {
            assert_eq!(pair.data(u64::from(n) * MS, n * 1000, 1000).kind, SegmentKind::New);
        }
        pair.ack(50 * MS, acked * 1000, &[]);
        pair
    }

    fn data(&mut self, t_ns: u64, seq: u32, len: usize) -> SentSegment {
        let segment = Segment { seq: seq.wrapping_sub(5000), len, ..empty() };
        self.sender.send(t_ns, &segment, &self.receiver, &self.budget)
    }

    fn ack(&mut self, t_ns: u64, ack: u32, sack: &[(u32, u32)]) -> Acknowledgement {
        let mut options = vec![5, 2 + 8 * sack.len() as u8];
        for (start, end) in sack {
            options.extend(start.wrapping_sub(5000).to_be_bytes());
            options.extend(end.wrapping_sub(5000).to_be_bytes());
        }
        let options = wire::inet::Options::parse(if sack.is_empty() { &[] } else { &options });
        let segment = Segment { ack: ack.wrapping_sub(5000), options, ..empty() };
        self.acknowledge(t_ns, &segment)
    }

    fn acknowledge(&mut self, t_ns: u64, segment: &Segment<'_>) -> Acknowledgement {
        let SentSegment { window_moved, .. } = self.receiver.send(t_ns, segment, &self.sender, &self.budget);
        self.sender.acknowledge(t_ns, segment, window_moved, &self.receiver.handshake, &self.budget)
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
    assert_eq!(pair.sender.totals.flight_max, 10_000);
}

#[test]
fn kinds_of_retransmission() {
    let mut fast = Pair::new(2);
    for n in 0..3 {
        fast.ack((51 + n) * MS, 2000, &[]);
    }
    assert_eq!(fast.data(55 * MS, 2000, 1000).kind, SegmentKind::Fast);
    let mut sack = Pair::new(2);
    sack.ack(51 * MS, 2000, &[(4000, 5000)]);
    assert_eq!(sack.data(55 * MS, 2000, 1000).kind, SegmentKind::Fast);
    assert_eq!(sack.data(55 * MS, 4000, 1000).kind, SegmentKind::Spurious, "it was acknowledged selectively");
    let mut timeout = Pair::new(2);
    assert_eq!(timeout.data(300 * MS, 2000, 1000).kind, SegmentKind::Timeout);
    assert_eq!(timeout.data(300 * MS, 0, 1000).kind, SegmentKind::Spurious);
    let mut local = Pair::new(2);
    local.data(60 * MS, 10_000, 1000);
    assert_eq!(local.data(61 * MS, 10_000, 1000).kind, SegmentKind::Local, "a millisecond of 50 later");
    assert_eq!(local.sender.totals.kinds.retransmissions(), 1);
}

/// The device refuses a segment; its sender has more data when it sends that again.
#[test]
fn a_retransmission_longer_than_the_refused_segment() {
    for (dup_acks, len) in [(0, 1000), (0, 1448), (0, 64_000), (2, 1448), (4, 64_000)] {
        let mut pair = Pair::new(2);
        (0..dup_acks).for_each(|_| _ = pair.ack(55 * MS, 2000, &[]));
        pair.data(60 * MS, 10_000, 1000);
        assert_eq!(pair.data(61 * MS, 10_000, len).kind, SegmentKind::Local, "{dup_acks} {len}");
        assert_eq!(pair.data(62 * MS, 10_000 + len as u32, 1000).kind, SegmentKind::New);
        assert_eq!(pair.sender.totals.kinds.local, 1);
    }
    // A super-packet that is refused as a whole and repeated in packets.
    let mut pair = Pair::new(2);
    pair.data(60 * MS, 10_000, 5_000);
    for n in 0..5_u64 {
        let again = pair.data(61 * MS + n * 100, 10_000 + n as u32 * 1000, 1000);
        assert_eq!(again.kind, SegmentKind::Local, "{n}");
    }
    // One byte that a zero-window probe has sent before.
    let mut probed = Pair::new(10);
    probed.data(60 * MS, 10_000, 1);
    assert_eq!(probed.data(61 * MS, 10_000, 1000).kind, SegmentKind::New);
    // Much later it is a timeout.
    let mut late = Pair::new(2);
    assert_eq!(late.data(300 * MS, 9_000, 2_000).kind, SegmentKind::Timeout);
}

#[test]
fn a_hole_is_reordering_or_loss() {
    let mut pair = Pair::new(10);
    assert_eq!(pair.data(60 * MS, 11_000, 1000).kind, SegmentKind::New);
    assert_eq!(pair.data(61 * MS, 10_000, 1000).kind, SegmentKind::OutOfOrder);
    assert_eq!(pair.data(62 * MS, 13_000, 1000).kind, SegmentKind::New);
    assert_eq!(pair.data(150 * MS, 12_000, 1000).kind, SegmentKind::Unseen);
    assert_eq!(pair.data(160 * MS, 15_000, 1000).kind, SegmentKind::New);
    assert_eq!(pair.data(260 * MS, 17_000, 1000).kind, SegmentKind::New);
    assert_eq!(pair.data(261 * MS, 14_000, 1000).kind, SegmentKind::Unseen, "the other gap is a new one");
    assert_eq!(pair.data(262 * MS, 16_000, 1000).kind, SegmentKind::OutOfOrder);
}

#[test]
fn a_window_update_is_no_duplicate_acknowledgement() {
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
fn a_retransmitted_syn_yields_no_round_trip() {
    let mut pair = Pair::silent();
    let syn = Segment { flags: SYN, ..empty() };
    for t_ns in [0, 1000 * MS] {
        pair.sender.send(t_ns, &syn, &pair.receiver, &pair.budget);
    }
    let answer = Segment { flags: SYN | ACK, ack: 1, ..empty() };
    assert_eq!(pair.acknowledge(1010 * MS, &answer).rtt_ns, None);
}

#[test]
fn a_window_needs_the_scale_of_both_sides() {
    let options = |is_cut| wire::inet::Options { is_cut, ..wire::inet::Options::default() };
    let syn = |flags, is_cut| Segment { flags, options: options(is_cut), ..empty() };
    for (first, second, expected) in [
        (Some(false), Some(false), Some(0)),
        (Some(true), Some(false), None),
        (Some(false), None, None),
        (None, Some(false), None),
    ] {
        let mut pair = Pair::silent();
        if let Some(is_cut) = first {
            pair.sender.send(0, &syn(SYN, is_cut), &pair.receiver, &pair.budget);
        }
        if let Some(is_cut) = second {
            pair.receiver.send(0, &syn(SYN | ACK, is_cut), &pair.sender, &pair.budget);
        }
        pair.receiver.send(0, &empty(), &pair.sender, &pair.budget);
        assert_eq!(pair.receiver.window_shift(&pair.sender), expected, "{first:?} {second:?}");
    }
}

#[test]
fn probes() {
    let mut pair = Pair::new(10);
    assert_eq!(pair.data(60 * MS, 9_999, 1).kind, SegmentKind::KeepAlive);
    assert_eq!(pair.data(61 * MS, 9_999, 0).kind, SegmentKind::KeepAlive);
    let closed = Segment { window: 0, ..empty() };
    pair.receiver.send(70 * MS, &closed, &pair.sender, &pair.budget);
    assert_eq!(pair.data(80 * MS, 10_000, 1).kind, SegmentKind::WindowProbe);
    pair.receiver.finish(90 * MS);
    assert_eq!((pair.receiver.window.zero_windows, pair.receiver.window.zero_window_ns), (1, 20 * MS));
}

/// Segments of 1000 bytes with `flight` of them in flight, without a handshake; the window of 100 has a shift of 7 in truth.
fn in_flight(flight: u32) -> Pair {
    let mut pair = Pair::new(0);
    for n in 10..400 {
        let t_ns = (100 + u64::from(n)) * MS;
        pair.ack(t_ns, (n.max(flight) - flight) * 1000, &[]);
        pair.data(t_ns, n * 1000, 1000);
    }
    pair
}

#[test]
fn a_window_of_unknown_scale_is_full_if_all_flights_fill_it() {
    // 12 of 12.8 KB, then 9: more than 6.4 KB, so the window is larger, and it is never full.
    let full = in_flight(11);
    assert_eq!(full.receiver.window_shift(&full.sender), Some(7));
    assert!(full.sender.totals.window_full > 200, "{:?}", full.sender.totals);
    let half = in_flight(8);
    assert_eq!(half.receiver.window_shift(&half.sender), Some(7));
    assert_eq!(half.sender.totals.window_full, 0, "{:?}", half.sender.totals);
}

#[test]
fn a_super_packet_is_longer_than_the_smaller_mss() {
    for (sender, receiver, mss) in [
        (Some(1448), Some(8948), 1448),
        (Some(8948), Some(1448), 1448),
        (Some(1220), None, 1220),
        (None, None, LARGE_MSS),
    ] {
        let mut pair = Pair::silent();
        let options = |mss| wire::inet::Options { mss, ..wire::inet::Options::default() };
        let seq = 0_u32.wrapping_sub(5001);
        pair.sender.send(
            0,
            &Segment { flags: SYN, seq, options: options(sender), ..empty() },
            &pair.receiver,
            &pair.budget,
        );
        let answer = Segment { flags: SYN | ACK, ack: seq + 1, options: options(receiver), ..empty() };
        pair.acknowledge(MS, &answer);
        for (seq, len, super_packets) in [(0, mss - 1, 0), (mss - 1, mss, 0), (2 * mss - 1, mss + 1, 1)] {
            pair.data(2 * MS, seq as u32, len);
            assert_eq!(pair.sender.totals.super_packets, super_packets, "{len} of {mss} bytes");
        }
    }
}

#[test]
fn a_pure_acknowledgement_of_everything_frees_a_small_segment() {
    // Without a handshake a segment is small below 1208 bytes.
    for (last_len, acked, ack_len, freed_small) in [
        (1000, 11_000, 0, true),
        (1208, 11_208, 0, false),
        (1000, 10_000, 0, false),
        (1000, 11_000, 48, false),
        (1208, 10_000, 0, false),
    ] {
        let mut pair = Pair::new(0);
        pair.data(60 * MS, 10_000, last_len);
        let answer = Segment { ack: 0_u32.wrapping_add(acked).wrapping_sub(5000), len: ack_len, ..empty() };
        let freed = pair.acknowledge(110 * MS, &answer).freed_small;
        assert_eq!(freed, freed_small, "{last_len} bytes, {acked} acknowledged with {ack_len}");
    }
}
