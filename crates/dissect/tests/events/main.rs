//! Events of every kind, by construction: each is counted once, and only where its bytes are visible.

mod scene;
mod stray;
#[path = "../tap/mod.rs"]
mod tap;

use dissect::{ConnectionEvent, Count, Dissection, Dissector, EventSummary, SenseCodes};
use wire::pcap::Packet;
use wire::scsi::Sense;

use scene::{BUSY, CHECK_CONDITION, SECOND, TASK_SET_FULL};
use scene::{ask, begun, frames, header, icmp, login, respond, send};
use tap::{BLOCK, MS, Tap, command};

fn dissect(frames: &[(u64, Vec<u8>)], keep: usize) -> Dissection {
    let mut dissector = Dissector::new();
    for (t_ns, frame) in frames {
        let bytes = &frame[..keep.min(frame.len())];
        let packet = Packet { t_ns: *t_ns, link: 1, interface: 0, len: frame.len(), bytes };
        dissector.packet(&packet, "", &mut ());
    }
    dissector.finish(0, None, &mut ())
}

/// Events of a connection of which there is one.
#[track_caller]
fn only(capture: &Dissection) -> &[EventSummary] {
    let [connection] = &capture.connections[..] else { panic!("{:?}", capture.connections) };
    &connection.events
}

#[track_caller]
fn find(events: &[EventSummary], wanted: ConnectionEvent) -> &EventSummary {
    let found = events.iter().find(|event| event.event == wanted);
    found.unwrap_or_else(|| panic!("{wanted:?} is none of {events:#?}"))
}

#[test]
fn every_kind_is_counted() {
    let frames = frames();
    let capture = dissect(&frames, usize::MAX);
    let of = |connection: usize, event| find(&capture.connections[connection].events, event);
    let sense = |key, asc, ascq| ConnectionEvent::CheckCondition {
        sense: Some(SenseCodes { key, asc, ascq }),
        is_captured: true,
    };
    let session = [
        (ConnectionEvent::Busy, 1, Some("target")),
        (ConnectionEvent::TaskSetFull, 2, Some("target")),
        (ConnectionEvent::ReservationConflict, 1, Some("target")),
        (sense(3, 0x11, 0), 1, Some("target")),
        (ConnectionEvent::Status { status: 0x40 }, 1, Some("target")),
        (ConnectionEvent::ResponseCode { response: 1 }, 1, Some("target")),
        (ConnectionEvent::TaskManagement { function: Some(1), response: Some(0) }, 1, Some("initiator")),
        (ConnectionEvent::TaskManagement { function: Some(5), response: None }, 1, Some("initiator")),
        (ConnectionEvent::AsyncMessage { event: 1 }, 1, Some("target")),
        (ConnectionEvent::Reject { reason: 4, opcode: Some(1) }, 1, Some("target")),
        (ConnectionEvent::Logout { reason: Some(0), response: Some(0) }, 1, Some("initiator")),
        (ConnectionEvent::Reset, 1, Some("initiator")),
        (ConnectionEvent::PacketTooBig { mtu_bytes: Some(1_400) }, 1, Some("target")),
        (ConnectionEvent::Unreachable { ip_version: 4, code: 13 }, 1, Some("target")),
    ];
    for (event, count, side) in session {
        let found = of(0, event);
        assert_eq!((found.count, found.side), (count, side), "{found:?}");
    }
    let events = &capture.connections[0].events;
    let pings = events.iter().filter(|event| event.event == ConnectionEvent::NopTimeout);
    let pings: Vec<_> = pings.map(|event| (event.side, event.count)).collect();
    assert_eq!(pings, [(Some("target"), 1), (Some("initiator"), 1)]);
    assert_eq!(events.len(), session.len() + 2, "{events:#?}");
    // The connections of the refused and redirected logins, and of the refused SYN.
    of(1, ConnectionEvent::LoginRefused { class: 2, detail: 3 });
    let redirect = of(2, ConnectionEvent::Redirect { detail: 2 });
    assert_eq!(redirect.address.as_deref(), Some("192.0.2.7:3260,1"));
    let refused = of(3, ConnectionEvent::LoginRefused { class: 3, detail: 1 });
    assert_eq!(refused.name, "login refused: service unavailable (0301h)");
    let refused = of(4, ConnectionEvent::ConnectionRefused);
    assert_eq!((refused.from.as_str(), refused.side), ("10.0.0.1:3260", None), "not iSCSI yet");
}

#[test]
fn an_event_has_its_packet_its_time_and_the_commands_outstanding() {
    let frames = frames();
    let capture = dissect(&frames, usize::MAX);
    let events = &capture.connections[0].events;
    let full = find(events, ConnectionEvent::TaskSetFull);
    let (t_ns, frame) = &frames[full.packet as usize - 1];
    assert_eq!((frame[54], frame[57], full.itt), (0x21, TASK_SET_FULL, Some(0x102)));
    let first_s = (*t_ns - frames[0].0) as f64 / 1e9;
    assert!((full.first_s - first_s).abs() < 1e-9 && full.last_s > full.first_s, "{full:?}");
    // Nine were sent, then one answer after the other.
    let at = full.outstanding.expect("every header is visible");
    assert_eq!((at.least, at.mean, at.most), (7, 7.5, 8));
    assert_eq!(find(events, ConnectionEvent::ReservationConflict).outstanding, None, "no refusal");
    assert!(events.windows(2).all(|pair| pair[0].first_s <= pair[1].first_s));
}

/// Only events whose bytes are visible count.
#[test]
fn cut_packets_have_fewer_events_and_no_others() {
    let frames = frames();
    let whole = dissect(&frames, usize::MAX);
    for keep in 54..180 {
        let capture = dissect(&frames, keep);
        for (connection, all) in capture.connections.iter().zip(&whole.connections) {
            for event in &connection.events {
                let is_cut = |other: &&EventSummary| match (event.event, other.event) {
                    (
                        ConnectionEvent::CheckCondition { sense: None, is_captured },
                        ConnectionEvent::CheckCondition { .. },
                    ) => !is_captured,
                    (ConnectionEvent::Reject { opcode: None, .. }, ConnectionEvent::Reject { .. }) => true,
                    (ConnectionEvent::Redirect { .. }, ConnectionEvent::Redirect { .. }) => true,
                    (ConnectionEvent::Logout { .. }, ConnectionEvent::Logout { .. }) => true,
                    (ConnectionEvent::TaskManagement { .. }, ConnectionEvent::TaskManagement { .. }) => true,
                    (one, other) => one == other,
                };
                assert!(all.events.iter().any(|other| is_cut(&other)), "{keep} kept: {event:?}");
            }
        }
    }
    let sense_at = 54 + 48 + 2 + 14;
    let unknown = ConnectionEvent::CheckCondition { sense: None, is_captured: false };
    let [cut, kept] = [sense_at - 1, sense_at].map(|keep| dissect(&frames, keep));
    assert_eq!(find(&cut.connections[0].events, unknown).name, "CHECK CONDITION: sense not captured");
    assert!(kept.connections[0].events.iter().any(|event| event.name.contains("unrecovered read error")));
    let headers = dissect(&frames, 54 + 48);
    let address = &find(&headers.connections[2].events, ConnectionEvent::Redirect { detail: 2 }).address;
    assert_eq!(*address, None, "not captured");
}

#[test]
fn doubled_and_disordered_packets_have_the_same_events() {
    let frames = frames();
    let whole = dissect(&frames, usize::MAX);
    let counts = |capture: &Dissection| {
        let all = capture.connections.iter().flat_map(|connection| &connection.events);
        all.map(|event| (event.event, event.side, event.count)).collect::<Vec<_>>()
    };
    let doubled: Vec<_> =
        frames.iter().flat_map(|(t_ns, frame)| [(*t_ns, frame.clone()), (t_ns + 5, frame.clone())]).collect();
    assert_eq!(counts(&dissect(&doubled, usize::MAX)), counts(&whole));
    let mut late = frames.clone();
    (10..late.len() - 3).step_by(7).for_each(|n| late.swap(n, n + 2));
    assert_eq!(counts(&dissect(&late, usize::MAX)), counts(&whole));
}

/// Refused commands: from a refusal to the next status of another kind the target has no room.
#[test]
fn the_time_after_refusals_is_that_of_the_targets_queue() {
    let mut tap = Tap::new((false, false));
    let mut cmd_sn = 1;
    for _ in 0..20 {
        ask(&mut tap, cmd_sn);
        respond(&mut tap, cmd_sn, [0, BUSY], None);
        tap.t_ns += 3 * MS;
        ask(&mut tap, cmd_sn + 1);
        let answer = tap.answer(cmd_sn + 1, 1);
        tap.pdus(1, &answer);
        cmd_sn += 2;
    }
    let capture = dissect(&tap.frames, usize::MAX);
    let iscsi = capture.connections[0].iscsi.as_ref().expect("iSCSI");
    let time = iscsi.time.expect("commands");
    // 3 ms of waiting and 2 ms of the command that follows, of 7 ms.
    assert!((0.65..0.8).contains(&(time.refused_s / time.length_s)), "{time:?}");
    let reads = iscsi.commands.read_service.expect("reads");
    assert_eq!(
        (reads.count, iscsi.commands.completed),
        (20, Count::Exact(40)),
        "refused ones are not served"
    );
}

/// A status that is sent again and never acknowledged has not arrived.
#[test]
fn a_status_without_an_acknowledgement_has_not_arrived() {
    let mut tap = Tap::new((false, false));
    for cmd_sn in 1..=5 {
        ask(&mut tap, cmd_sn);
        respond(&mut tap, cmd_sn, [0, 0], None);
    }
    let answered = dissect(&tap.frames, usize::MAX);
    let count = |capture: &Dissection| {
        let commands = &capture.connections[0].iscsi.as_ref().expect("iSCSI").commands;
        (commands.completed, commands.undelivered)
    };
    assert_eq!(count(&answered), (Count::Exact(5), 0), "sent once: it may be under way");
    let last = tap.frames.last().expect("a status").1.clone();
    tap.t_ns += 200 * MS;
    tap.frames.push((tap.t_ns, last.clone()));
    assert_eq!(
        count(&dissect(&tap.frames, usize::MAX)),
        (Count::Exact(5), 0),
        "an acknowledgement may follow"
    );
    for n in 1..3 {
        tap.t_ns += (200 * MS) << n;
        tap.frames.push((tap.t_ns, last.clone()));
    }
    let lost = dissect(&tap.frames, usize::MAX);
    assert_eq!(count(&lost), (Count::Exact(4), 1));
    let time = lost.connections[0].iscsi.as_ref().expect("iSCSI").time.expect("commands");
    assert!(time.recovery_s > 1.3 && time.recovery_s / time.length_s > 0.9, "{time:?}");
    // Its acknowledgement comes in the end.
    tap.segment(0, 0x10, &[]);
    assert_eq!(count(&dissect(&tap.frames, usize::MAX)), (Count::Exact(5), 0));
}

/// The time in which nothing moves at the end counts, as long as the interface shows other packets.
#[test]
fn a_hung_connection_is_not_judged_by_its_busy_beginning() {
    let mut tap = Tap::new((false, false));
    for cmd_sn in 1..=50 {
        ask(&mut tap, cmd_sn);
        let answer = tap.answer(cmd_sn, 1);
        tap.pdus(1, &answer);
    }
    ask(&mut tap, 51);
    let busy = dissect(&tap.frames, usize::MAX);
    let of = |capture: &Dissection| {
        let iscsi = capture.connections[0].iscsi.as_ref().expect("iSCSI");
        (iscsi.time.expect("commands"), iscsi.commands.waiting_s)
    };
    assert!(of(&busy).0.length_s < 1.0);
    // Another connection, a minute later.
    let mut other = begun(41_000, tap.t_ns + 60 * SECOND);
    login(&mut other, [2, 3], [b"", b""]);
    let mut frames = tap.frames.clone();
    frames.extend(other.frames.clone());
    let (time, waiting_s) = of(&dissect(&frames, usize::MAX));
    assert!(time.target_s > 59.0 && time.length_s > 60.0, "{time:?}");
    assert!(waiting_s.is_some_and(|waiting_s| waiting_s > 59.0), "{waiting_s:?}");
    // Nothing is known of answers in a direction that is not in the capture.
    let own: Vec<_> = frames.iter().filter(|(_, frame)| frame[29] == 0).cloned().collect();
    assert_eq!(of(&dissect(&own, usize::MAX)).1, None);
    // A connection that was closed does not wait.
    tap.segment(0, 0x11, &[]);
    let mut frames = tap.frames.clone();
    frames.extend(other.frames);
    assert!(of(&dissect(&frames, usize::MAX)).0.length_s < 1.0);
}

#[test]
fn a_ping_counts_only_if_its_answer_would_have_been_seen() {
    let ping = |tap: &mut Tap| {
        let mut ping = header(0x40, 0, 0x710);
        ping[20..24].fill(0xff);
        send(tap, 0, ping, &[]);
    };
    let mut tap = Tap::new((false, false));
    ask(&mut tap, 1);
    let answer = tap.answer(1, 1);
    tap.pdus(1, &answer);
    ping(&mut tap);
    assert!(only(&dissect(&tap.frames, usize::MAX)).is_empty(), "the capture ends");
    let timeouts = |wait_ns: u64| {
        let mut reset = Tap { frames: tap.frames.clone(), ..Tap::idle() };
        (reset.seq, reset.t_ns) = (tap.seq, tap.t_ns + wait_ns);
        reset.segment(1, 0x14, &[]);
        let capture = dissect(&reset.frames, usize::MAX);
        let events = only(&capture).iter().filter(|event| event.event == ConnectionEvent::NopTimeout);
        events.map(|event| event.count).sum::<u64>()
    };
    assert_eq!(
        [MS, 4 * SECOND, 6 * SECOND].map(timeouts),
        [0, 0, 1],
        "an answer had no time before the reset"
    );
    // The answer is in a packet that the capture lacks.
    let mut pong = header(0x20, 0, 0x710);
    pong[20..24].fill(0xff);
    send(&mut tap, 1, pong, &[]);
    let hidden = tap.frames.len() - 1;
    tap.t_ns += 8 * SECOND;
    ask(&mut tap, 2);
    let answer = tap.answer(2, 1);
    tap.pdus(1, &answer);
    tap.segment(0, 0x10, &[]);
    assert!(only(&dissect(&tap.frames, usize::MAX)).is_empty(), "answered");
    tap.frames.remove(hidden);
    let events = dissect(&tap.frames, usize::MAX);
    assert!(only(&events).is_empty(), "{:?}", only(&events));
}

/// RFC 5961 section 3.2: the sequence number of a RST is the next one that its receiver expects.
#[test]
fn a_reset_that_its_receiver_refuses_is_none() {
    let resets = |seq_change: u32, is_answered: bool| {
        let mut tap = Tap::new((false, false));
        ask(&mut tap, 1);
        if is_answered {
            let answer = tap.answer(1, 1);
            tap.pdus(1, &answer);
        }
        let seq = tap.seq;
        tap.seq[1] = tap.seq[1].wrapping_add(seq_change);
        tap.segment(1, 0x14, &[]);
        tap.seq = seq;
        ask(&mut tap, 2);
        let capture = dissect(&tap.frames, usize::MAX);
        only(&capture).iter().filter(|event| event.event == ConnectionEvent::Reset).count()
    };
    for is_answered in [false, true] {
        assert_eq!(resets(0, is_answered), 1);
        for change in [1, 1_000, 60_000, 1 << 31, 0_u32.wrapping_sub(20_000)] {
            assert_eq!(resets(change, is_answered), 0, "{change}");
        }
    }
    // Of data under way the receiver may have all or a part.
    assert_eq!(resets(0_u32.wrapping_sub(1_448), true), 1);
    // A SYN is refused by a RST that acknowledges it.
    for (change, expected) in [(0, 1), (1, 0), (u32::MAX, 0)] {
        let mut refused = Tap { port: 40_009, ..Tap::idle() };
        refused.segment(0, 0x02, &[]);
        refused.seq[0] = refused.seq[0].wrapping_add(change);
        refused.segment(1, 0x14, &[]);
        assert_eq!(only(&dissect(&refused.frames, usize::MAX)).len(), expected, "{change}");
    }
}

/// A hidden status is provisional until a visible header follows it.
#[test]
fn a_status_that_is_confirmed_later_has_its_place() {
    let mut tap = Tap::new((false, false));
    for cmd_sn in 1..=3 {
        ask(&mut tap, cmd_sn);
        respond(&mut tap, cmd_sn, [0, 0], None);
    }
    tap.pdus(0, &[(command(4, true, 2 * BLOCK, 0), Vec::new())]);
    ask(&mut tap, 5);
    let answers = tap.frames.len();
    // The header of the second Data-In, with the status, is in the middle of a segment.
    let answer = tap.answer(4, 2);
    tap.pdus(1, &answer);
    respond(&mut tap, 5, [0, 0], None);
    let sent = tap.frames[answers..].to_vec();
    for n in 0..4 {
        tap.t_ns += (200 * MS) << n;
        for (_, frame) in &sent {
            tap.t_ns += 1_000;
            tap.frames.push((tap.t_ns, frame.clone()));
        }
    }
    for keep in [usize::MAX, 54 + 48] {
        let capture = dissect(&tap.frames, keep);
        let commands = &capture.connections[0].iscsi.as_ref().expect("iSCSI").commands;
        assert_eq!(commands.undelivered, 2, "{keep}: {commands:?}");
        assert!(commands.completed.allows(3), "{keep}: {commands:?}");
    }
}

/// Responses without a request are no iSCSI, and no events.
#[test]
fn data_that_looks_like_a_refusal_is_no_event() {
    let mut tap = Tap::begun();
    (1..40).for_each(|cmd_sn| respond(&mut tap, cmd_sn, [0, BUSY], None));
    tap.segment(0, 0x10, b"nothing of the kind");
    tap.segment(1, 0x14, &[]);
    let capture = dissect(&tap.frames, usize::MAX);
    assert_eq!(capture.connections[0].iscsi, None);
    let [event] = only(&capture) else { panic!("{:?}", only(&capture)) };
    assert_eq!((event.event, event.side), (ConnectionEvent::Reset, None));
}

#[test]
fn a_report_is_of_the_connection_that_it_quotes() {
    let mut tap = Tap::new((false, false));
    ask(&mut tap, 1);
    let answer = tap.answer(1, 1);
    tap.pdus(1, &answer);
    // In front of all segments in the file, but after the SYN by its stamp.
    let mut report = icmp(&tap, [3, 4], 1_280);
    tap.frames.insert(0, (tap.t_ns, report.clone()));
    let too_big = ConnectionEvent::PacketTooBig { mtu_bytes: Some(1_280) };
    assert_eq!(find(only(&dissect(&tap.frames, usize::MAX)), too_big).count, 1);
    // A sequence number that the connection never had.
    report[14 + 20 + 8 + 24..][..4].copy_from_slice(&0x4000_0000_u32.to_be_bytes());
    tap.frames[0].1 = report;
    let capture = dissect(&tap.frames, usize::MAX);
    assert!(only(&capture).is_empty());
    assert_eq!(capture.totals.others[0].name, "ICMP packet too big");
}

#[test]
fn sense_data_in_a_session_from_the_middle_and_with_digests() {
    for digests in [(false, false), (true, false), (true, true)] {
        let mut tap = Tap::new(digests);
        let begin = tap.frames.len();
        for cmd_sn in 1..=4 {
            ask(&mut tap, cmd_sn);
            let mut header = header(0x21, 0, cmd_sn | 0x100);
            header[3] = CHECK_CONDITION;
            header[7] = 20;
            header[27] = cmd_sn as u8;
            header[31] = cmd_sn as u8 + 1;
            header[35] = cmd_sn as u8 + 32;
            let mut data = Vec::new();
            wire::iscsi::put_sense(&Sense::POWER_ON.emit_fixed(), &mut data);
            tap.pdus(1, &[(wire::iscsi::Pdu::parse(&header).expect("a response"), data)]);
        }
        for skip in [0, begin] {
            let capture = dissect(&tap.frames[skip..], usize::MAX);
            let [event] = only(&capture) else { panic!("{digests:?}: {capture:#?}") };
            assert!(event.name.starts_with("CHECK CONDITION: UNIT ATTENTION, power on"), "{event:?}");
            assert_eq!(event.count, 4, "{digests:?}, {skip} skipped");
        }
    }
}

#[test]
fn keys_of_one_side_are_offered_and_keys_of_both_are_agreed_on() {
    let offer = b"InitialR2T=No\0ImmediateData=Yes\0MaxBurstLength=1048576\0";
    let answer = b"InitialR2T=Yes\0ImmediateData=Yes\0MaxBurstLength=262144\0";
    let mut tap = Tap::begun();
    login(&mut tap, [0, 0], [offer, answer]);
    for cmd_sn in 1..=10 {
        ask(&mut tap, cmd_sn);
        let answer = tap.answer(cmd_sn, 1);
        tap.pdus(1, &answer);
    }
    let of = |frames: &[(u64, Vec<u8>)], keep| {
        let capture = dissect(frames, keep);
        capture.connections[0].iscsi.as_ref().expect("iSCSI").negotiation
    };
    let whole = of(&tap.frames, usize::MAX);
    let agreed = whole.agreed.expect("three keys");
    assert_eq!((agreed.initial_r2t, agreed.max_burst_bytes), (Some(true), Some(262_144)));
    assert_eq!((agreed.first_burst_bytes, whole.offered), (None, None));
    assert_eq!(whole.defaults.and_then(|defaults| defaults.first_burst_bytes), Some(65_536));
    // The values of the third key are cut.
    let cut = of(&tap.frames, 54 + 48 + offer.len() - 4);
    assert_eq!(
        cut.agreed.map(|agreed| (agreed.initial_r2t, agreed.max_burst_bytes)),
        Some((Some(true), None))
    );
    assert_eq!((cut.offered, cut.defaults), (None, None));
    // The initiator alone.
    let own: Vec<_> = tap.frames.iter().filter(|(_, frame)| frame[29] == 0).cloned().collect();
    let alone = of(&own, usize::MAX);
    assert_eq!((alone.agreed, alone.defaults), (None, None));
    assert_eq!(alone.offered.and_then(|offered| offered.max_burst_bytes), Some(1_048_576));
}
