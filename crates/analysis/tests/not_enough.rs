//! Captures that show too little for a verdict: none is given, and the capture to make is named.

#[path = "../../dissect/tests/tap/mod.rs"]
mod tap;

use analysis::capture::{DiagnosedCapture, Shortage};
use dissect::Dissector;
use wire::pcap::Packet;

use tap::{BLOCK, Tap, command};

/// Reads, one at a time.
fn reads() -> Tap {
    let mut tap = Tap::new((false, false));
    for cmd_sn in 1..60 {
        tap.pdus(0, &[(command(cmd_sn, true, 2 * BLOCK, 0), Vec::new())]);
        let answer = tap.answer(cmd_sn, 2);
        tap.pdus(1, &answer);
    }
    tap
}

/// The capture of the frames for which `seen` holds, given their number and direction, with `keep` bytes of each.
fn capture(keep: usize, seen: impl Fn(usize, usize) -> bool) -> DiagnosedCapture {
    let mut dissector = Dissector::new();
    for (n, (t_ns, frame)) in reads().frames.iter().enumerate() {
        if seen(n, usize::from(frame[14 + 15])) {
            let bytes = &frame[..keep.min(frame.len())];
            let packet = Packet { t_ns: *t_ns, link: 1, interface: 0, len: frame.len(), bytes };
            dissector.packet(&packet, "eth7", &mut ());
        }
    }
    DiagnosedCapture::new(dissector.finish(0, None, &mut ()))
}

/// The shortage of its only connection, which has no verdict.
#[track_caller]
fn shortage(capture: &DiagnosedCapture, reason: &str) -> Shortage {
    let connection = capture.connections().next().expect("a connection");
    assert_eq!(connection.diagnosis, None);
    let shortage = connection.shortage.expect("too little is seen").clone();
    assert!(shortage.reasons.iter().any(|text| text.contains(reason)), "{shortage:?}");
    shortage
}

#[test]
fn a_capture_that_shows_enough_has_a_verdict() {
    for keep in [usize::MAX, 128] {
        let capture = capture(keep, |_, _| true);
        let connection = capture.connections().next().expect("a connection");
        assert_eq!(connection.shortage, None, "{keep} kept: {:?}", connection.summary.iscsi);
        assert!(connection.diagnosis.is_some());
    }
}

#[test]
fn one_direction_alone_has_no_verdict() {
    for direction in [0, 1] {
        let capture = capture(usize::MAX, |_, of| of == direction);
        let shortage = shortage(&capture, "one direction alone");
        assert_eq!(
            shortage.commands,
            [
                "farlun capture -i eth7 -o seen --snap 262144 --filter 'tcp port 3260'",
                "tcpdump -i eth7 -s 0 -B 65536 -w seen.pcap 'tcp port 3260'"
            ]
        );
        let connection = &capture.dissection().connections[0];
        let iscsi = connection.iscsi.as_ref().expect("iSCSI");
        assert_eq!(
            (iscsi.negotiation.agreed, iscsi.negotiation.defaults),
            (None, None),
            "nothing is known of the other side"
        );
        assert!(connection.one_direction);
    }
}

#[test]
fn packets_without_their_headers_are_no_iscsi() {
    let capture = capture(70, |_, _| true);
    assert_eq!(capture.dissection().connections[0].iscsi, None);
    shortage(&capture, "port 3260");
}

#[test]
fn a_capture_without_every_third_packet_has_no_verdict() {
    let capture = capture(usize::MAX, |n, direction| direction == 0 || n % 3 > 0);
    shortage(&capture, "of the bytes are in no packet");
}
