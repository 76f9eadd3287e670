//! Packets and PDUs of a connection whose every byte is known.

use std::path::Path;

use analysis::Span;
use analysis::diagram::{self, Diagram, Hosts, Kind};
use event::{Direction, Fate, Host, Instant, Packet, PduKind, PduSeen, RequestId, Tcp, TcpTimes, Way};
use tables::Writer;

const MS: u64 = 1_000_000;
/// Both initial sequence numbers are close to the end of their range.
const ISN: u32 = u32::MAX - 5_000;

/// The hosts of a load with one at each end.
const FIRST: Hosts = Hosts { near: 1, far: 1 };

fn collect(dir: &Path, start_ns: u64, most: usize) -> Result<Option<Diagram>, tables::TableError> {
    Diagram::collect(dir, &[dir.to_owned()], FIRST, start_ns, most)
}

/// A connection: packets and PDUs as they are written.
struct Script {
    packets: Vec<Packet>,
    pdus: Vec<PduSeen>,
    sent: [u64; 2],
}

impl Script {
    fn new() -> Script {
        let mut script = Script { packets: Vec::new(), pdus: Vec::new(), sent: [0; 2] };
        script.packet(0, Host::Near, 40_000, ISN, 0, 2);
        script.packet(MS, Host::Far, 40_000, ISN, 0, 18);
        script
    }

    fn packet(&mut self, at_ns: u64, from: Host, near_port: u16, seq: u32, payload_bytes: u32, flags: u8) {
        let t = |ns: u64| Instant::from_nanos(1_000 * MS + ns);
        let (direction, src_port, dst_port, own) = match from {
            Host::Near => (Direction::NearToFar, near_port, 3260, 0),
            Host::Far => (Direction::FarToNear, 3260, near_port, 1),
        };
        let ack = ISN.wrapping_add(1).wrapping_add(self.sent[1 - own] as u32);
        self.packets.push(Packet {
            ingress: t(at_ns),
            scheduled: t(at_ns + 4 * MS),
            egress: t(at_ns + 4 * MS),
            direction,
            number: 1,
            fate: Fate::Delivered,
            ip_bytes: 52 + payload_bytes,
            segments: 1,
            src_host: if from == Host::Near { 0 } else { 100 },
            dst_host: if from == Host::Near { 100 } else { 0 },
            tcp: Some(Tcp { src_port, dst_port, seq, ack, payload_bytes, flags }),
            unseen_ns: 0,
        });
    }

    /// A packet with the next bytes of its stream.
    fn bytes(&mut self, at_ns: u64, from: Host, payload_bytes: u32) {
        let own = usize::from(from == Host::Far);
        let seq = ISN.wrapping_add(1).wrapping_add(self.sent[own] as u32);
        self.packet(at_ns, from, 40_000, seq, payload_bytes, 16);
        self.sent[own] += u64::from(payload_bytes);
    }

    /// A PDU at a place in the stream of its sender, seen by both ends.
    fn pdu(&mut self, at_ns: u64, from: Host, kind: PduKind, begin: u64, len_bytes: u32, cmd_sn: u32) {
        for (host, way, t_ns) in [(from, Way::Out, at_ns), (other(from), Way::In, at_ns + 4 * MS)] {
            let t = Instant::from_nanos(1_000 * MS + t_ns);
            self.pdus.push(PduSeen {
                t,
                host,
                id: RequestId { session: 9, connection: 0, itt: cmd_sn, cmd_sn },
                way,
                kind,
                has_status: kind == PduKind::Response,
                stat_sn: 0,
                data_sn: 0,
                offset_bytes: 0,
                len_bytes,
                stream_begin: begin,
                stream_end: begin + 48 + u64::from(len_bytes),
                socketed: if way == Way::Out { t } else { Instant::ZERO },
                tcp: TcpTimes::default(),
            });
        }
    }

    fn write(&self, dir: &Path) {
        let mut packets = Writer::<Packet>::create(dir.join("packets.parquet")).unwrap();
        self.packets.iter().for_each(|p| packets.push(p).unwrap());
        packets.finish().unwrap();
        let mut pdus = Writer::<PduSeen>::create(dir.join("pdus-near.parquet")).unwrap();
        self.pdus.iter().for_each(|p| pdus.push(p).unwrap());
        pdus.finish().unwrap();
    }
}

fn other(host: Host) -> Host {
    if host == Host::Near { Host::Far } else { Host::Near }
}

/// Reads of 8 KiB, 10 ms apart: a command, Data-In in six packets, a response in the last of them, two ACKs.
fn reads(count: u64) -> Script {
    let mut script = Script::new();
    for i in 0..count {
        let at = 10 * MS * (i + 1);
        let [near, far] = script.sent;
        script.pdu(at - 1_000, Host::Near, PduKind::Command, near, 0, i as u32 + 1);
        script.bytes(at, Host::Near, 48);
        script.pdu(at + 5 * MS, Host::Far, PduKind::DataIn, far, 8192, i as u32 + 1);
        script.pdu(at + 5 * MS, Host::Far, PduKind::Response, far + 48 + 8192, 0, i as u32 + 1);
        let mut left = 48 + 8192 + 48;
        while left > 0 {
            let payload = left.min(1448);
            script.bytes(at + 5 * MS, Host::Far, payload);
            left -= payload;
        }
        for _ in 0..2 {
            script.bytes(at + 9 * MS + 500, Host::Near, 0);
        }
    }
    // Another connection, with fewer bytes and other PDUs.
    script.packet(0, Host::Near, 41_000, 7, 0, 2);
    script.packet(3 * MS, Host::Near, 41_000, 8, 48, 16);
    script
}

#[test]
fn every_packet_knows_its_pdus() {
    let dir = tempfile::tempdir().unwrap();
    reads(50).write(dir.path());
    let diagram = collect(dir.path(), 0, 10_000).unwrap().unwrap();
    assert_eq!(diagram.flow.near_port, 40_000);
    assert_eq!((diagram.arrows.len(), diagram.others), (2 + 50 * 9, 0));
    assert_eq!(diagram.pdus.len(), 150, "what both ends saw counts once");
    let count = |kind| diagram.arrows.iter().filter(|arrow| arrow.kind == kind).count();
    assert_eq!([Kind::Connection, Kind::Command, Kind::DataIn, Kind::Ack].map(count), [2, 50, 300, 100]);
    assert!(diagram.arrows.is_sorted_by_key(|arrow| arrow.sent_ns));
    let last = diagram.arrows.iter().rfind(|arrow| arrow.kind == Kind::DataIn).unwrap();
    let kinds: Vec<PduKind> = diagram.pdus[last.pdus.clone()].iter().map(|pdu| pdu.kind).collect();
    assert_eq!(kinds, [PduKind::DataIn, PduKind::Response], "a packet may end one PDU and hold another");
    assert_eq!(last.bytes.end, 50 * 8288, "across the end of the sequence numbers");
    assert_eq!(last.received_ns, Some(last.sent_ns + 4 * MS));
    assert_eq!(diagram.arrows.last().unwrap().acked, 50 * 8288);
}

#[test]
fn a_stretch_begins_where_it_is_wanted_and_ends_when_it_is_long_enough() {
    let dir = tempfile::tempdir().unwrap();
    reads(50).write(dir.path());
    let diagram = collect(dir.path(), 1_200 * MS, 18).unwrap().unwrap();
    assert_eq!((diagram.arrows.len(), diagram.others), (18, 2 + 50 * 9 - 18));
    assert_eq!((diagram.arrows[0].sent_ns, diagram.arrows[0].kind), (1_200 * MS, Kind::Command));
    assert_eq!(collect(dir.path(), 9_000 * MS, 18).unwrap(), None);
}

#[test]
fn pdus_of_another_connection_are_not_put_into_these_packets() {
    let dir = tempfile::tempdir().unwrap();
    let mut script = reads(50);
    // The same places in a stream, at times at which no packet with them left.
    script.pdus.iter_mut().for_each(|pdu| {
        pdu.t = Instant::from_nanos(pdu.t.as_nanos() + 73 * MS);
        pdu.socketed = Instant::ZERO;
    });
    script.write(dir.path());
    let diagram = collect(dir.path(), 0, 10_000).unwrap().unwrap();
    assert_eq!(diagram.pdus, []);
    assert!(diagram.arrows.iter().all(|arrow| arrow.pdus.is_empty()));
    assert_eq!(diagram.arrows.iter().filter(|arrow| arrow.kind == Kind::Unrecorded).count(), 50 * 7);
}

#[test]
fn pdus_that_lie_over_each_other_or_end_before_they_begin_harm_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let mut script = reads(50);
    for i in 0..50 {
        // A file that is not ours may say anything.
        for at in [10, 200, 1_000] {
            script.pdu(10 * MS * (i + 1) + 5 * MS, Host::Far, PduKind::Nop, i * 8288 + at, 0, 0);
        }
        let backwards = script.pdus.last_mut().unwrap();
        (backwards.stream_begin, backwards.stream_end) = (i * 8288 + 5_000, i * 8288 + 100);
    }
    script.write(dir.path());
    let diagram = collect(dir.path(), 0, 10_000).unwrap().unwrap();
    assert_eq!(diagram.arrows.len(), 2 + 50 * 9);
    assert!(diagram.pdus.iter().all(|pdu| pdu.stream_begin <= pdu.stream_end));
}

#[test]
fn what_the_receiver_saw_long_after_is_the_same_pdu() {
    let dir = tempfile::tempdir().unwrap();
    let mut script = reads(50);
    for pdu in script.pdus.iter_mut().filter(|pdu| pdu.way == Way::In) {
        pdu.t = Instant::from_nanos(pdu.t.as_nanos() + 46 * MS);
    }
    script.pdus.sort_by_key(|pdu| pdu.host == Host::Far);
    script.write(dir.path());
    let diagram = collect(dir.path(), 0, 10_000).unwrap().unwrap();
    assert_eq!(diagram.pdus.len(), 150);
    assert!(diagram.arrows.iter().all(|arrow| arrow.kind != Kind::Unrecorded));
}

#[test]
fn a_retransmission_is_told_from_the_first_time_and_a_lost_packet_does_not_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let mut script = reads(3);
    let data: Vec<usize> = (0..script.packets.len())
        .filter(|n| script.packets[*n].tcp.is_some_and(|tcp| tcp.payload_bytes == 1448))
        .collect();
    let mut copy = script.packets[data[7]];
    script.packets[data[7]].fate = Fate::Lost;
    copy.ingress = Instant::from_nanos(1_060 * MS);
    copy.egress = Instant::from_nanos(1_064 * MS);
    script.packets.push(copy);
    script.write(dir.path());
    let diagram = collect(dir.path(), 0, 10_000).unwrap().unwrap();
    let lost: Vec<_> = diagram.arrows.iter().filter(|arrow| arrow.received_ns.is_none()).collect();
    let again: Vec<_> = diagram.arrows.iter().filter(|arrow| arrow.again).collect();
    assert_eq!((lost.len(), again.len()), (1, 1));
    assert_eq!(lost[0].bytes, again[0].bytes);
}

#[test]
fn packets_are_counted_in_a_window() {
    let dir = tempfile::tempdir().unwrap();
    reads(50).write(dir.path());
    let window = Span { start_ns: 1_100 * MS, end_ns: 1_300 * MS };
    let count = diagram::count(dir.path(), FIRST, window).unwrap().unwrap();
    assert_eq!(count, 20 * 9);
    assert_eq!(diagram::count(tempfile::tempdir().unwrap().path(), FIRST, window).unwrap(), None);
}

#[test]
fn competing_traffic_is_not_the_loads() {
    let dir = tempfile::tempdir().unwrap();
    let mut script = reads(50);
    // The same again between the next hosts, with ten times the bytes, and copies that the path made.
    let mut beside = script.packets.clone();
    for packet in &mut beside {
        (packet.src_host, packet.dst_host) = (packet.src_host + 1, packet.dst_host + 1);
        packet.tcp = packet.tcp.map(|tcp| Tcp { payload_bytes: tcp.payload_bytes * 10, ..tcp });
    }
    let copy = |packet: &Packet| Packet { fate: Fate::Duplicate, ..*packet };
    let copies: Vec<Packet> = script.packets.iter().map(copy).collect();
    script.packets.extend(beside);
    script.packets.extend(copies);
    script.write(dir.path());
    let diagram = collect(dir.path(), 0, 10_000).unwrap().unwrap();
    assert_eq!((diagram.flow.near_host, diagram.flow.far_host, diagram.pdus.len()), (0, 100, 150));
    let window = Span { start_ns: 1_100 * MS, end_ns: 1_300 * MS };
    let segments = |between| diagram::count(dir.path(), between, window).unwrap().unwrap();
    assert_eq!(segments(FIRST), 20 * 9);
    assert_eq!(segments(Hosts { near: 2, far: 2 }), 2 * 20 * 9);
}
