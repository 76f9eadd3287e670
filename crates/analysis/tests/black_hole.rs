//! A path that drops large packets: the verdict on a capture of it, and its remedies.

use std::fs::File;
use std::path::{Path, PathBuf};

use analysis::capture::DiagnosedCapture;
use diagnosis::{Certainty, Limiter};
use dissect::{ConnectionEvent, Count, Dissector, read_packets};
use wire::pcap::Packet;

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dissect/tests/captures/mtu-black-hole.pcap")
}

#[test]
fn large_packets_that_never_arrive_are_the_verdict() {
    let file = File::open(path()).expect("a capture of this tree");
    let capture = DiagnosedCapture::new(Dissector::new().read(file, &mut (), |_| {}).expect("a capture"));
    let connection = capture.connections().next().expect("a connection");
    let hole = connection.summary.directions[1].black_hole.expect("a black hole");
    // Of 39 transmissions of 8 948 bytes the first one is in a super-packet.
    assert_eq!((hole.segment_bytes, hole.retransmissions, hole.resolved), (8_948, 38, false));
    let commands = &connection.summary.iscsi.as_ref().expect("iSCSI").commands;
    assert_eq!(
        (commands.completed, commands.undelivered),
        (Count::Exact(12), 1),
        "the last one never arrived"
    );
    let diagnosis = connection.diagnosis.expect("enough is seen");
    let first = diagnosis.first().expect("a verdict");
    assert_eq!((first.limiter, first.certainty), (Limiter::PathMtu, Certainty::Unknown), "{diagnosis:?}");
    assert!(first.share > 0.99, "{first:?}");
    let commands: String = first.remedies.iter().map(|remedy| remedy.commands.as_str()).collect();
    assert!(
        commands.contains("tcp_mtu_probing=1") && commands.contains("maxseg size set rt mtu"),
        "{commands}"
    );
}

/// The same with an ICMP message behind every large segment, which the target does not believe.
#[test]
fn icmp_messages_are_evidence_and_name_the_mtu() {
    let (mut dissector, mut number) = (Dissector::new(), 0);
    let each = |packet: &Packet<'_>, name: &str| {
        dissector.packet(packet, name, &mut ());
        let (link, ip) = packet.bytes.split_at(14);
        if packet.len > 8_000 {
            number += 1;
            let mut report = link.to_vec();
            report.extend([0x45, 0, 0, 56, 0, number, 0, 0, 64, 1, 0, 0, 192, 0, 2, 9]);
            report.extend(&ip[12..16]);
            report.extend([3, 4, 0, 0, 0, 0, 5, 220]);
            report.extend(&ip[..28]);
            let t_ns = packet.t_ns + 1_000_000;
            let packet = Packet { t_ns, bytes: &report, len: report.len(), ..*packet };
            dissector.packet(&packet, name, &mut ());
        }
        false
    };
    read_packets(File::open(path()).expect("a capture of this tree"), each, |_| {}).expect("a capture");
    let capture = DiagnosedCapture::new(dissector.finish(0, None, &mut ()));
    let connection = capture.connections().next().expect("a connection");
    let events = &connection.summary.events;
    let too_big = ConnectionEvent::PacketTooBig { mtu_bytes: Some(1_500) };
    let reports = events.iter().find(|event| event.event == too_big).expect("reports");
    assert_eq!((reports.count, reports.side), (u64::from(number), Some("target")), "{events:?}");
    assert_eq!(reports.address.as_deref(), Some("192.0.2.9"));
    let first = connection.diagnosis.and_then(|diagnosis| diagnosis.first()).expect("a verdict");
    assert_eq!(first.limiter, Limiter::PathMtu);
    let value =
        |what: &str| first.evidence.iter().find(|evidence| evidence.what == what).map(|one| one.value);
    assert_eq!(value("ICMP messages, packet too big"), Some(f64::from(number)), "{:?}", first.evidence);
    assert_eq!(value("MTU of the next hop in them"), Some(1_500.0));
}
