//! Synthetic captures: every read in them is found, and memory stays bounded whatever they contain.

mod tapped;

use dissect::{Count, Dissection, Dissector};
use wire::iscsi::{BHS_LEN, Pdu};
use wire::pcap::Packet;

/// Limit of docs/reference/analyze.md; it includes the memory of the test and its harness.
const MOST_BYTES: u64 = 512 << 20;

/// Reads of one connection with one segment in `lost_one_in` lost and `keep` bytes of each packet kept.
fn reads(turns: u32, lost_one_in: u64, keep: usize) -> Dissection {
    let (mut bytes, mut t_ns) = (tapped::FILE_HEADER.to_vec(), 0);
    let mut connection = tapped::Reads::new(40_000, lost_one_in);
    for _ in 0..turns {
        let made = connection.turn(|frame| {
            t_ns += 1_000;
            tapped::record(&mut bytes, t_ns, frame, keep)
        });
        made.expect("room in memory");
    }
    Dissector::new().read(&bytes[..], &mut (), |_| {}).expect("a capture")
}

#[test]
fn every_read_is_found_with_loss_and_with_headers_alone() {
    for (lost_one_in, keep) in [(u64::MAX, usize::MAX), (50, usize::MAX), (u64::MAX, 128), (50, 128)] {
        let capture = reads(100, lost_one_in, keep);
        let connection = &capture.connections[0];
        let iscsi = connection.iscsi.as_ref().expect("iSCSI");
        let about = format!("one lost in {lost_one_in}, {keep} kept: {iscsi:?}");
        assert_eq!(iscsi.commands.sent, Count::Exact(100), "{about}");
        let completed = iscsi.commands.completed;
        assert!(completed.allows(100) && completed.estimate().is_some(), "{about}");
        assert_eq!(completed.exact().is_some(), keep > 1_000, "{about}");
        assert_eq!(iscsi.commands.inferred > 0, keep < 1_000, "{about}");
        assert_eq!(connection.directions[1].kinds.fast > 0, lost_one_in < 1_000, "{connection:?}");
    }
}

/// Each of 40 connections has 65 536 outstanding commands, more than the memory budget allows.
#[test]
fn commands_without_answers_are_bounded() {
    let mut dissector = Dissector::new();
    let (mut frame, mut cmd_sn) = (Vec::new(), 1);
    for port in 0..40_u16 {
        let mut seq = 1_u32;
        for _ in 0..65_536 / 1_024 {
            let mut payload = Vec::with_capacity(1_024 * BHS_LEN);
            for _ in 0..1_024 {
                let mut header = [0; BHS_LEN];
                Pdu::from(tapped::read(cmd_sn, 512)).emit(&mut header);
                payload.extend(header);
                cmd_sn += 1;
            }
            frame.clear();
            frame.extend([0x45, 0]);
            frame.extend(((40 + payload.len()) as u16).to_be_bytes());
            frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            frame.extend((1_000 + port).to_be_bytes());
            frame.extend(3260_u16.to_be_bytes());
            frame.extend(seq.to_be_bytes());
            frame.extend([0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
            frame.extend(&payload);
            seq += payload.len() as u32;
            let packet = Packet { t_ns: 1, link: 101, interface: 0, len: frame.len(), bytes: &frame };
            dissector.packet(&packet, "", &mut ());
        }
    }
    let capture = dissector.finish(0, None, &mut ());
    let sent =
        capture.connections.iter().filter_map(|c| c.iscsi.as_ref()?.commands.sent.exact()).sum::<u64>();
    let followed = capture.connections.len() as u64;
    assert_eq!(sent, followed * 65_536, "all of a connection are counted, followed or not");
    assert!(followed < 40, "there is no room for all of them");
    assert_eq!(capture.totals.beyond_packets, (40 - followed) * 64);
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the most memory");
    let kib: u64 = line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number");
    assert!(kib * 1024 < MOST_BYTES, "{kib} KiB");
}
