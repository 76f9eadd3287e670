//! Lone requests over a line behind a ring.

use super::*;
use crate::testing::QUIET;

const LINE: u64 = 117_000_000;
const MSS: u64 = 1448;

/// Sends lone megabytes over a line behind a ring of so many packets; the most that waited in the ring for each.
fn bursts(rtt: Duration, count: usize) -> Vec<u64> {
    let mut space = Space::new();
    let (mut now, mut delivered) = (Instant::ZERO, 0u64);
    let mut cwnd = 320u64;
    (0..count)
        .map(|_| {
            let packets = 724.min(cwnd);
            let rate = space.bytes_per_s().unwrap_or(u64::MAX);
            // What arrives at the ring and leaves it at the line's rate.
            let spaced = rate.min(10 * LINE);
            let waiting = packets - packets * LINE.min(spaced) / spaced;
            let arrives = spaced.min(LINE);
            let begin = now + rtt;
            for _ in 0..2000 {
                now += Duration::from_millis(1);
                let gone_ns = now.since(begin).as_nanos() as u64;
                let arrived = (gone_ns * arrives / MSS / 1_000_000_000).min(packets);
                space.observe(
                    &Observation {
                        now,
                        rtt,
                        min_rtt: Some(rtt),
                        delivered_packets: (delivered + arrived) as u32,
                        unacked_packets: (packets - arrived) as u32,
                        cwnd_packets: cwnd as u32,
                        burst_bytes: 1 << 20,
                        was_spaced: true,
                        ..QUIET
                    },
                    None,
                );
                if arrived == packets {
                    break;
                }
            }
            now += Duration::from_millis(3);
            space.observe(
                &Observation {
                    now,
                    rtt,
                    min_rtt: Some(rtt),
                    delivered_packets: (delivered + packets) as u32,
                    cwnd_packets: cwnd as u32,
                    burst_bytes: 1 << 20,
                    ..QUIET
                },
                None,
            );
            delivered += packets;
            cwnd = (2 * cwnd).min(1448);
            waiting
        })
        .collect()
}

#[test]
fn the_line_is_found_and_a_short_ring_does_not_overflow() {
    for ms in [8, 16, 32, 64, 200] {
        let waited = bursts(Duration::from_millis(ms), 60);
        assert!(waited.iter().skip(1).all(|packets| *packets < 256), "{ms} ms: {waited:?}");
        let end = &waited[40..];
        assert!(end.iter().all(|packets| *packets < 100), "{ms} ms, at the end: {waited:?}");
        assert!(end.iter().all(|packets| *packets > 10), "a little faster than the line: {waited:?}");
    }
}

#[test]
fn late_wake_ups_do_not_make_it_slower_and_slower() {
    let rtt = Duration::from_millis(50);
    let mut space = Space::new();
    // Each train arrives at half the rate that it was to have.
    for round in 0..100 {
        let rate = space.bytes_per_s / 2;
        for ms in 0..=30u64 {
            let arrived = (rate * ms / MSS / 1000) as u32;
            space.observe(
                &Observation {
                    now: Instant::ZERO + rtt * round + Duration::from_millis(ms),
                    rtt,
                    min_rtt: Some(rtt),
                    delivered_packets: arrived,
                    unacked_packets: u32::from(ms < 30),
                    cwnd_packets: 2000,
                    burst_bytes: 1 << 20,
                    was_spaced: true,
                    ..QUIET
                },
                None,
            );
        }
    }
    assert_eq!(space.bytes_per_s, START_BYTES_PER_S);
}

#[test]
fn a_loss_while_something_was_spaced_makes_it_slower() {
    let rtt = Duration::from_millis(50);
    let lost = Some(Cut { kind: WindowKind::CutByLoss, from_packets: 400, to_packets: 280 });
    for (was_spaced, expected) in [(true, LINE / 100 * CUT_PERCENT), (false, LINE)] {
        let mut space = Space { arrived: [LINE; 5], bytes_per_s: LINE, ..Space::new() };
        let now = Instant::ZERO + Duration::from_secs(1);
        space.observe(&Observation { now, rtt, min_rtt: Some(rtt), was_spaced, ..QUIET }, lost);
        assert_eq!(space.bytes_per_s, expected);
    }
}

#[test]
fn small_requests_and_short_paths_are_not_spaced() {
    let mut space = Space::new();
    let long = Duration::from_millis(50);
    let small =
        Observation { rtt: long, min_rtt: Some(long), burst_bytes: 65_536, cwnd_packets: 10, ..QUIET };
    space.observe(&small, None);
    assert_eq!(space.bytes_per_s(), None);
    space.observe(&Observation { burst_bytes: 1 << 20, ..small }, None);
    assert!(space.bytes_per_s().is_some());
    space.observe(&Observation { min_rtt: Some(Duration::from_micros(90)), ..small }, None);
    assert_eq!(space.bytes_per_s(), None);
}
