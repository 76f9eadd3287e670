//! Packets besides TCP: ICMP reports at several taps, and wrong stamps.

use dissect::{ConnectionEvent, Dissection, Dissector};
use wire::pcap::Packet;

use crate::scene::{SECOND, ask, icmp, login};
use crate::tap::{MS, Tap};
use crate::{dissect, find};

/// Taps at both ends of a path of 4 ms show a connection, and the report about one of its segments.
#[test]
fn a_report_that_passes_two_taps_counts_once() {
    let mut tap = Tap::new((false, false));
    ask(&mut tap, 1);
    let answer = tap.answer(1, 1);
    tap.pdus(1, &answer);
    let report = icmp(&tap, [3, 4], 1_280);
    tap.frames.push((tap.t_ns + MS, report));
    ask(&mut tap, 2);
    let answer = tap.answer(2, 1);
    tap.pdus(1, &answer);
    let mut both = Vec::new();
    for (t_ns, frame) in &tap.frames {
        // The source of a TCP packet, or of the report, is at the target's side.
        let from_target = frame[29] == 1 || frame[23] == 1;
        let way_ns = 4 * MS;
        let near_ns = if from_target { t_ns + 2 * way_ns } else { *t_ns };
        both.push((near_ns, 0, frame));
        both.push((t_ns + way_ns, 1, frame));
    }
    both.sort_by_key(|(t_ns, ..)| *t_ns);
    let mut dissector = Dissector::new();
    for (t_ns, interface, frame) in both {
        let packet = Packet { t_ns, link: 1, interface, len: frame.len(), bytes: frame };
        dissector.packet(&packet, ["near", "far"][interface as usize], &mut ());
    }
    let capture = dissector.finish(0, None, &mut ());
    let too_big = ConnectionEvent::PacketTooBig { mtu_bytes: Some(1_280) };
    let counts: Vec<u64> = capture.connections.iter().map(|one| find(&one.events, too_big).count).collect();
    assert_eq!(counts, [1]);
}

/// The stamp of a packet that is not TCP.
#[test]
fn one_wrong_stamp_moves_no_time() {
    let mut tap = Tap { t_ns: 1_000_000 * SECOND, ..Tap::begun() };
    login(&mut tap, [0, 0], [b"", b""]);
    for cmd_sn in 1..=50 {
        ask(&mut tap, cmd_sn);
        let answer = tap.answer(cmd_sn, 1);
        tap.pdus(1, &answer);
    }
    ask(&mut tap, 51);
    tap.frames.drain(..3);
    let right = dissect(&tap.frames, usize::MAX);
    let mut arp = vec![0; 60];
    (arp[12], arp[13]) = (8, 6);
    for wrong_ns in [0, 1_000 * SECOND, 2_000_000 * SECOND, u64::MAX] {
        for place in [0, 1, tap.frames.len() / 2, tap.frames.len()] {
            let mut frames = tap.frames.clone();
            frames.insert(place, (wrong_ns, arp.clone()));
            let capture = dissect(&frames, usize::MAX);
            let totals = |capture: &Dissection| (capture.totals.begin_ns, capture.totals.length_s);
            assert_eq!(totals(&capture), totals(&right), "{wrong_ns} at {place}");
            let of = |capture: &Dissection| {
                let iscsi = capture.connections[0].iscsi.as_ref().expect("iSCSI");
                (iscsi.time, capture.connections[0].begin_s, iscsi.commands.waiting_s)
            };
            assert_eq!(of(&capture), of(&right), "{wrong_ns} at {place}");
        }
    }
}
