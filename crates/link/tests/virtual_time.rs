//! The path model in virtual time: rates, drops, order, and a committed table of throughputs.
//!
//! The table is `throughput.txt` beside this file. After a wanted change, read the difference that the test
//! prints and write it there.

use core::time::Duration;

use event::{BitRate, Fate, Instant};
use link::{Dropped, Handle, Packet, Path, Shape, Stage, wire_bytes};

const SECOND: Duration = Duration::from_secs(1);
const HEADERS: u32 = 52;
const PAYLOAD: u32 = 1448;

fn shape(delay_ms: u64, rate_mbit: u64, queue_bytes: u64) -> Shape {
    Shape { delay: Duration::from_millis(delay_ms), rate: BitRate(rate_mbit * 1_000_000), queue_bytes }
}

fn segments_of(handle: u64, arrived: Instant, segments: u16) -> Packet {
    let ip_bytes = HEADERS + PAYLOAD * u32::from(segments);
    let wire_bytes = wire_bytes(ip_bytes, segments, HEADERS);
    Packet::new(Handle(handle), arrived, ip_bytes, wire_bytes, segments)
}

/// Throughput of a saturating sender.
struct Saturated {
    payload_bytes: u64,
    sent: u64,
    dropped: u64,
    delivered: u64,
    last: Instant,
}

/// Offers super-packets of `segments` whenever one fits into the queue, from 0 to `load`, and pops all arrivals up to
/// `load` plus the delay.
fn saturate(shape: &Shape, segments: u16, load: Duration) -> Saturated {
    let mut path = Path::new(shape);
    let one = u64::from(segments_of(0, Instant::ZERO, segments).wire_bytes);
    let step = shape.rate.time_for(one) / 2;
    let end = Instant::ZERO + load;
    let mut seen = Saturated { payload_bytes: 0, sent: 0, dropped: 0, delivered: 0, last: Instant::ZERO };
    let mut now = Instant::ZERO;
    while now < end {
        seen.sent += 1;
        seen.dropped += u64::from(path.push(now, segments_of(seen.sent, now, segments)).is_err());
        now += step;
    }
    while let Some((arrival, packet)) = path.pop(end + shape.delay) {
        seen.delivered += 1;
        seen.payload_bytes += u64::from(packet.ip_bytes - HEADERS);
        seen.last = arrival;
    }
    seen
}

#[test]
fn a_queue_of_a_hundredth_of_the_bandwidth_delay_product_keeps_a_long_line_full() {
    let mut long = shape(250, 1_000, 0);
    long.queue_bytes = long.rate.bytes_in(long.base_rtt()) / 100;
    let seen = saturate(&long, 1, 5 * SECOND);
    let wire_bytes = seen.delivered * 1538;
    assert_eq!(wire_bytes / 1538, long.rate.bytes_in(5 * SECOND) / 1538, "every slot of the wire is used");
    assert!(seen.dropped > 0, "the sender offers twice the rate");
}

#[test]
fn the_rate_is_exact_over_a_second() {
    // 1538 bytes at 10 Gb/s take 1230.4 ns: truncation alone would be 0.03 % off.
    for (rate_mbit, segments) in [(1_000, 1), (1_000, 10), (10_000, 1), (7, 3), (9_999, 44)] {
        let line = shape(0, rate_mbit, 10_000_000);
        let mut path = Path::new(&line);
        let one = u64::from(segments_of(0, Instant::ZERO, segments).wire_bytes);
        let count = line.rate.bytes_in(SECOND) / one;
        let mut last = Instant::ZERO;
        let mut sent = 0;
        while sent < count {
            if path.push(last, segments_of(sent, last, segments)).is_ok() {
                sent += 1;
            } else {
                last = path.next_at().expect("a full queue empties");
                while path.pop(last).is_some() {}
            }
        }
        while let Some((arrival, _)) = path.pop(Instant::ZERO + 2 * SECOND) {
            last = arrival;
        }
        let exact_ns = u128::from(count * one * 8) * 1_000 / u128::from(rate_mbit);
        assert_eq!(u128::from(last.as_nanos()), exact_ns, "{rate_mbit} Mb/s, {segments} segments");
    }
}

#[test]
fn only_waiting_bytes_fill_the_queue() {
    // Room for three; the first packet is on the wire at once and takes none of it.
    let mut path = Path::new(&shape(100, 1_000, 3 * 1538));
    let fates: Vec<bool> =
        (0..6).map(|n| path.push(Instant::ZERO, segments_of(n, Instant::ZERO, 1)).is_ok()).collect();
    assert_eq!(fates, [true, true, true, true, false, false]);
    assert_eq!(path.waiting_bytes(), 3 * 1538);
    // One packet time later one has gone on to propagate, and one more fits.
    let later = Instant::ZERO + Duration::from_nanos(12_304);
    assert_eq!(path.push(later, segments_of(6, later, 1)), Ok(()));
    assert_eq!(
        path.push(later, segments_of(7, later, 1)),
        Err(Dropped { packet: Packet { number: 8, ..segments_of(7, later, 1) }, fate: Fate::QueueFull })
    );
}

#[test]
fn a_packet_arrives_after_its_serialisation_and_the_delay_whenever_somebody_asks() {
    let line = shape(8, 1_000, 1_000_000);
    let at = Instant::from_nanos(777);
    let due = Instant::from_nanos(777 + 12_304 + 8_000_000);
    for asked in [due, due + SECOND] {
        let mut path = Path::new(&line);
        path.push(at, segments_of(1, at, 1)).expect("an empty path takes a packet");
        assert_eq!(path.next_at(), Some(due));
        assert_eq!(path.pop(due - Duration::from_nanos(1)), None);
        assert_eq!(path.pop(asked), Some((due, Packet { number: 1, ..segments_of(1, at, 1) })));
        assert_eq!(path.next_at(), None);
    }
}

#[test]
fn nothing_is_lost_made_or_reordered() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let line = shape(random.u64(0..50), random.u64(1..2_000), random.u64(1_500..200_000));
        let mut path = Path::new(&line);
        let (mut now, mut taken, mut arrived) = (Instant::ZERO, Vec::new(), Vec::new());
        let mut last = Instant::ZERO;
        for n in 0..500 {
            now += Duration::from_nanos(random.u64(0..200_000));
            if path.push(now, segments_of(n, now, random.u16(1..45))).is_ok() {
                taken.push(n);
            }
            assert!(path.waiting_bytes() <= line.queue_bytes, "seed {seed}");
            // Polls at random times must not change the outcome.
            let looks = random.bool();
            while let Some((arrival, packet)) = looks.then(|| path.pop(now)).flatten() {
                assert!(arrival >= last && arrival >= packet.arrived + line.delay, "seed {seed}");
                assert!(arrival <= now, "seed {seed}");
                last = arrival;
                arrived.push(packet.handle.0);
            }
        }
        while let Some(next) = path.next_at() {
            if let Some((_, packet)) = path.pop(next) {
                arrived.push(packet.handle.0);
            }
        }
        assert_eq!(arrived, taken, "seed {seed}");
        assert_eq!(path.waiting_bytes(), 0, "seed {seed}");
    }
}

#[test]
fn throughputs_are_what_they_were() {
    let mut table = String::from(
        "TCP payload through a saturated path in 2 s, MTU 1500 with timestamps\n\
         delay_ms rate_mbit queue_bytes segments payload_mbit delivered dropped\n",
    );
    for (delay_ms, rate_mbit) in [(0, 1_000), (8, 1_000), (50, 1_000), (250, 1_000), (8, 100), (8, 10_000)] {
        for (queue_bytes, segments) in [(100_000, 1), (1_000_000, 10), (1_000_000, 44)] {
            let line = shape(delay_ms, rate_mbit, queue_bytes);
            let seen = saturate(&line, segments, 2 * SECOND);
            assert!(seen.last <= Instant::ZERO + 2 * SECOND + line.delay);
            let mbit = seen.payload_bytes as f64 * 8.0 / 2.0 / 1e6;
            let (delivered, dropped) = (seen.delivered, seen.dropped);
            table += &format!(
                "{delay_ms:8} {rate_mbit:9} {queue_bytes:11} {segments:8} {mbit:12.3} {delivered:9} {dropped:7}\n"
            );
        }
    }
    let committed = include_str!("throughput.txt");
    assert!(table == committed, "the throughputs are now\n{table}\nand were\n{committed}");
}
