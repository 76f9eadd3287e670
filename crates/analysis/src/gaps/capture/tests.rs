//! Rows one by one, and packets of a connection as one tap and as two saw it.

use dissect::{Dissector, SegmentKind};
use wire::pcap::Packet;

use super::*;
use crate::gaps::Tap;

const MS: u64 = 1_000_000;
const RAW_IP: u32 = 101;

fn row(port: u16, len: usize, acked: u64) -> PacketRow {
    PacketRow {
        packet: 1,
        t_ns: 0,
        direction: name(port),
        seq: 0,
        ack: 0,
        len,
        stream_offset: 0,
        acked_offset: acked,
        ip_bytes: 52 + len,
        flags: 16,
        kind: SegmentKind::New,
        ack_rtt_ns: None,
        flight_bytes: 100,
    }
}

fn name(port: u16) -> DirectionKey {
    DirectionKey { interface: 0, src: ([198, 18, 0, 1], port).into(), dst: ([198, 18, 0, 2], 3260).into() }
}

#[test]
fn what_is_kept_is_bounded_over_all_connections() {
    let mut collector = GapCollector { kept: PASSAGES_ALL_MAX - 2, ..GapCollector::default() };
    (1..=5).for_each(|port| collector.packet(&row(port, 100, 0)));
    assert_eq!((collector.ways.len(), collector.kept), (2, PASSAGES_ALL_MAX));
}

#[test]
fn acknowledgements_have_the_bytes_that_they_are_the_first_to_acknowledge() {
    let mut collector = GapCollector::default();
    for acked in [5_000, 7_896, 7_896, 10_792, 9_000] {
        collector.packet(&row(1, 0, acked));
    }
    // The same ports again.
    collector.packet(&PacketRow { flags: 0x12, ..row(1, 0, 0) });
    [0, 1_448].into_iter().for_each(|acked| collector.packet(&row(1, 0, acked)));
    let newly: Vec<u32> = collector.ways[&name(1)].acks.iter().map(|kept| kept.newly).collect();
    assert_eq!(newly, [0, 2_896, 0, 2_896, 0, 0, 1_448]);
}

#[test]
fn super_packets_are_so_many_of_one_size() {
    let check = |lens: &[usize], ip_headers: usize, agreed: Option<u64>, expected: u32| {
        let mut collector = GapCollector::default();
        lens.iter()
            .for_each(|len| collector.packet(&PacketRow { ip_bytes: ip_headers + len, ..row(1, *len, 0) }));
        let way = &collector.ways[&name(1)];
        let six = DirectionKey { src: (std::net::Ipv6Addr::LOCALHOST, 1).into(), ..name(1) };
        let name = if ip_headers > 60 { six } else { name(1) };
        assert_eq!(way.packet_payload(name, agreed), expected, "{lens:?} {ip_headers} {agreed:?}");
    };
    // Both ends have said it, with or without timestamps, over IPv4 and IPv6.
    check(&[65_160, 48], 52, Some(1_460), 1_448);
    check(&[65_160, 48], 40, Some(1_460), 1_460);
    check(&[62_496, 48], 72, Some(8_940), 8_928);
    // Nobody has.
    check(&[1_348, 48], 52, None, 1_348);
    check(&[65_160, 2_896, 48], 52, None, 1_448);
    check(&[62_496, 8_928, 48], 72, None, 8_928);
    check(&[8_948, 100], 52, None, 8_948);
    check(&[3_948, 3_948], 52, None, 3_948);
}

/// Packets at both taps: data leave every 200 µs and take 5 ms, the far end acknowledges every second one at once; on
/// their way back acknowledgements are held until the next whole millisecond.
fn passing() -> Vec<(u64, u32, Vec<u8>)> {
    let mut seen = Vec::new();
    for n in 0..4_000_u64 {
        let left = 10 * MS + n * MS / 5;
        let data = frame(true, (n * 1_000) as u32, 1, 1_000);
        seen.push((left, 0, data.clone()));
        seen.push((left + 5 * MS, 1, data));
        if n % 2 == 1 {
            let answered = left + 5 * MS + 3_000;
            let ack = frame(false, 1, (n as u32 + 1) * 1_000, 0);
            seen.push((answered, 1, ack.clone()));
            seen.push(((answered + 5 * MS).next_multiple_of(MS), 0, ack));
        }
    }
    seen.sort_by_key(|(t_ns, _, _)| *t_ns);
    seen
}

/// IPv4 and TCP without options.
fn frame(out: bool, seq: u32, ack: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0; 40 + len];
    (frame[0], frame[8], frame[9]) = (0x45, 64, 6);
    frame[2..4].copy_from_slice(&((40 + len) as u16).to_be_bytes());
    let (near, far) = ([198, 18, 0, 1], [198, 18, 0, 2]);
    frame[12..16].copy_from_slice(if out { &near } else { &far });
    frame[16..20].copy_from_slice(if out { &far } else { &near });
    let ports = if out { [40_000_u16, 5_201] } else { [5_201, 40_000] };
    frame[20..22].copy_from_slice(&ports[0].to_be_bytes());
    frame[22..24].copy_from_slice(&ports[1].to_be_bytes());
    frame[24..28].copy_from_slice(&seq.to_be_bytes());
    frame[28..32].copy_from_slice(&ack.to_be_bytes());
    (frame[32], frame[33], frame[34]) = (0x50, 0x10, 0xff);
    frame
}

/// The same as a collector and the dissection have it, at these interfaces only.
fn listened(interfaces: &[u32]) -> (GapCollector, Dissection) {
    let (mut analyzer, mut collector) = (Dissector::new(), GapCollector::default());
    for (t_ns, interface, bytes) in passing().iter().filter(|(_, at, _)| interfaces.contains(at)) {
        let packet = Packet { t_ns: *t_ns, len: bytes.len(), bytes, link: RAW_IP, interface: *interface };
        analyzer.packet(&packet, ["near", "far"][*interface as usize], &mut collector);
    }
    let capture = analyzer.finish(0, None, &mut collector);
    (collector, capture)
}

#[test]
fn two_taps_show_how_acknowledgements_were_pressed_together() {
    let (collector, capture) = listened(&[0, 1]);
    let found =
        collector.finish(&capture, Drawing { origin_ns: capture.totals.begin_ns, points: 100 }).unwrap();
    let Busiest { from, data_packets, looked_at, two_taps, .. } = &found.of;
    assert_eq!((from.as_str(), *data_packets, *looked_at), ("198.18.0.1:40000", 4_000, 4_000));
    assert!(*two_taps);
    let gaps = found.gaps.unwrap();
    let (sent, received) = (gaps.at(crate::gaps::Kind::Data, Tap::Sent).unwrap(), &gaps.taps[2]);
    assert_eq!((sent.p50_s, received.p50_s), (200e-6, 200e-6));
    assert!(!sent.shown.points.is_empty() && sent.shown.points[0].0 < 0.02);
    // Five acknowledgements of every two milliseconds, two or three at a time.
    let pressed = gaps.compression.unwrap();
    assert!(pressed.in_runs > 0.9 && (2.0..=3.0).contains(&pressed.acks_per_run), "{pressed:?}");
    let bursts = pressed.bursts.unwrap();
    assert!((bursts.acked_bytes / pressed.acks_per_run - 2_000.0).abs() < 10.0, "{bursts:?}");
}

#[test]
fn one_tap_has_no_arrivals() {
    for interface in [0, 1] {
        let (collector, capture) = listened(&[interface]);
        let found = collector.finish(&capture, Drawing::default()).unwrap();
        let gaps = found.gaps.unwrap();
        assert_eq!((found.of.two_taps, gaps.taps.len(), gaps.compression), (false, 2, None));
    }
}

#[test]
fn a_connection_that_came_too_late_is_read_for_again() {
    let (mut collector, capture) = listened(&[0, 1]);
    assert!(collector.again(&capture).is_none(), "it has everything");
    collector.ways.clear();
    collector.kept = PASSAGES_ALL_MAX;
    let found = collector.again(&capture).unwrap();
    assert_eq!((found.only.len(), found.again(&capture).is_none()), (4, true));
    let told = collector.finish(&capture, Drawing::default()).unwrap();
    assert_eq!((told.gaps, told.of.looked_at, told.of.data_packets), (None, 0, 4_000));
}
