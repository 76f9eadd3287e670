//! Gaps of a table: super-packets, both taps, the busiest connection, and effects of the emulator itself.

use std::path::Path;

use analysis::Span;
use analysis::diagram::Hosts;
use analysis::gaps::{self, Cause, Drawing, Gaps, Kind, Tap};
use event::{Direction, Fate, Instant, Packet, Sink, Tcp};
use tables::Recorder;

const US: u64 = 1_000;
const SECOND: u64 = 1_000_000 * US;
const DRAWING: Drawing = Drawing { origin_ns: SECOND, points: 500 };

/// A connection from near to far: super-packets of four each 49 µs and a little, acknowledged one by one. They are handed
/// over at the multiples of `late_us`, if that is not 0.
fn write(dir: &Path, late_us: u64) {
    let mut table = Recorder::create(dir.join("packets.parquet")).unwrap();
    let (mut seq, mut at) = (7_u32, SECOND);
    for n in 0..8_000_u64 {
        // Up to 30 µs more, which looks like chance.
        at += 49_216
            + (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (n << 17)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
                % 29_910;
        let due = at + 5_000 * US;
        let received = if late_us == 0 { due } else { due.div_ceil(late_us * US) * late_us * US };
        for (direction, ports, tcp, ingress, due, received) in [
            (Direction::NearToFar, (40_000, 5201), (seq, 1, 4 * 1_448), at, due, received),
            (
                Direction::FarToNear,
                (5201, 40_000),
                (1, seq + 4 * 1_448, 0),
                received + 3 * US,
                received + 5_003 * US,
                received + 5_003 * US,
            ),
            // Another connection that carries little.
            (Direction::FarToNear, (5201, 40_001), (n as u32, 1, 8), at, due, due),
        ] {
            let (src_port, dst_port) = ports;
            let (seq, ack, payload_bytes) = tcp;
            let segments = if payload_bytes > 1_448 { 4 } else { 1 };
            let (src_host, dst_host) = if direction == Direction::NearToFar { (0, 100) } else { (100, 0) };
            table.record(&Packet {
                ingress: Instant::from_nanos(ingress),
                scheduled: Instant::from_nanos(due),
                egress: Instant::from_nanos(received),
                direction,
                number: n,
                fate: Fate::Delivered,
                ip_bytes: 52 + payload_bytes,
                segments,
                src_host,
                dst_host,
                tcp: Some(Tcp { src_port, dst_port, seq, ack, payload_bytes, flags: 16 }),
                unseen_ns: 0,
            });
        }
        seq = seq.wrapping_add(4 * 1_448);
    }
    table.finish().unwrap();
}

fn collect(dir: &Path) -> Gaps {
    let window = Span { start_ns: SECOND, end_ns: 100 * SECOND };
    gaps::collect(dir, Hosts { near: 1, far: 1 }, window, DRAWING).unwrap().unwrap()
}

#[test]
fn super_packets_share_the_time_they_took_and_have_no_cause() {
    let temp = tempfile::tempdir().unwrap();
    assert_eq!(
        gaps::collect(temp.path(), Hosts { near: 1, far: 1 }, Span { start_ns: 0, end_ns: 1 }, DRAWING)
            .unwrap(),
        None
    );
    write(temp.path(), 0);
    let gaps = collect(temp.path());
    assert_eq!(gaps.taps.len(), 6);
    for tap in [Tap::Sent, Tap::Due, Tap::Received] {
        let data = gaps.at(Kind::Data, tap).unwrap();
        assert_eq!(data.packets, 4 * 7_999);
        // 49.2 µs and half of 29.9 on average, for four packets.
        assert!((data.mean_s * 1e6 - 16.04).abs() < 0.2, "{}", data.mean_s);
        assert_eq!(gaps.at(Kind::Acks, tap).unwrap().packets, 7_999);
    }
    assert_eq!(gaps.causes(), []);
    let shown = &gaps.at(Kind::Data, Tap::Due).unwrap().shown;
    assert!((400..=600).contains(&shown.points.len()) && !shown.zoom.is_empty());
    assert_eq!(shown.logarithmic.packets.iter().sum::<u64>(), 4 * 7_999);
    assert!(shown.points[0].0 < 0.01, "time counts from the load's beginning");
}

#[test]
fn what_is_drawn_begins_with_the_load_and_what_is_said_with_the_window() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), 0);
    let window = Span { start_ns: SECOND + 300_000 * US, end_ns: SECOND + 400_000 * US };
    let between = Hosts { near: 1, far: 1 };
    let gaps = gaps::collect(temp.path(), between, window, DRAWING).unwrap().unwrap();
    for (kind, tap) in [(Kind::Data, Tap::Sent), (Kind::Data, Tap::Received), (Kind::Acks, Tap::Sent)] {
        let gaps = gaps.at(kind, tap).unwrap();
        let (whole, points) = (&gaps.shown.whole, &gaps.shown.points);
        // A super-packet every 64 µs: 1560 of them in the window, 8000 in all.
        assert!(gaps.packets < 4 * 1_600 && whole.len() > 700, "{} {}", gaps.packets, whole.len());
        assert!(whole[0].0 < 0.02 && whole[whole.len() - 1].0 > 0.48, "{:?}", whole[0]);
        assert!(points[0].0 > 0.29 && points[points.len() - 1].0 < 0.41, "{:?}", points[0]);
    }
    let silent = gaps::collect(temp.path(), between, window, Drawing::default()).unwrap().unwrap();
    assert!(silent.taps.iter().all(|tap| tap.shown.whole.is_empty()));
}

#[test]
fn a_late_emulator_is_no_property_of_the_path() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), 500);
    let causes: Vec<Cause> = collect(temp.path()).causes().iter().map(|(cause, _)| *cause).collect();
    assert_eq!(causes, [Cause::Emulator]);
}
