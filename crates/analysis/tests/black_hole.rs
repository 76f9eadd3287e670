//! A path that drops large packets: the verdict on a capture of it, and its remedies.

use std::fs::File;
use std::path::Path;

use analysis::capture::DiagnosedCapture;
use diagnosis::{Certainty, Limiter};
use dissect::Dissector;

#[test]
fn large_packets_that_never_arrive_are_the_verdict() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dissect/tests/captures/mtu-black-hole.pcap");
    let file = File::open(file).expect("a capture of this tree");
    let capture = DiagnosedCapture::new(Dissector::new().read(file, &mut (), |_| {}).expect("a capture"));
    let connection = capture.connections().next().expect("a connection");
    let hole = connection.summary.directions[1].black_hole.expect("a black hole");
    // Of 39 transmissions of 8 948 bytes the first one is in a super-packet.
    assert_eq!((hole.segment_bytes, hole.retransmissions, hole.resolved), (8_948, 38, false));
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
