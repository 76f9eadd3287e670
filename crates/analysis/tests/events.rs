//! Events of a capture: in the document, and in the verdict.

#[path = "../../dissect/tests/events/scene.rs"]
mod scene;
#[path = "../../dissect/tests/tap/mod.rs"]
mod tap;

use analysis::capture::DiagnosedCapture;
use diagnosis::{Certainty, Limiter, Verdict};
use dissect::Dissector;
use serde_json::Value;
use wire::pcap::Packet;

use scene::{BUSY, SECOND, TASK_SET_FULL, ask, begun, frames, login, respond};
use tap::{MS, Tap};

fn capture(frames: &[(u64, Vec<u8>)]) -> DiagnosedCapture {
    let mut dissector = Dissector::new();
    for (t_ns, bytes) in frames {
        let packet = Packet { t_ns: *t_ns, link: 1, interface: 0, len: bytes.len(), bytes };
        dissector.packet(&packet, "", &mut ());
    }
    DiagnosedCapture::new(dissector.finish(0, None, &mut ()))
}

/// First verdict on the first connection.
#[track_caller]
fn first(capture: &DiagnosedCapture) -> &Verdict {
    let connection = capture.connections().next().expect("a connection");
    let diagnosis = connection.diagnosis.unwrap_or_else(|| panic!("{:?}", connection.shortage));
    diagnosis.first().expect("a verdict")
}

#[track_caller]
fn number(verdict: &Verdict, what: &str) -> f64 {
    let found = verdict.evidence.iter().find(|evidence| evidence.what == what);
    found.unwrap_or_else(|| panic!("{what} is none of {:?}", verdict.evidence)).value
}

#[test]
fn the_document_has_every_kind_with_an_example() {
    let capture = capture(&frames());
    let document = serde_json::to_value(&capture).expect("a document");
    let events = document["events"].as_array().expect("events");
    let kinds = [
        "busy",
        "task-set-full",
        "reservation-conflict",
        "check-condition",
        "status",
        "response-code",
        "task-management",
        "async-message",
        "reject",
        "nop-timeout",
        "logout",
        "reset",
        "packet-too-big",
        "unreachable",
        "login-refused",
        "redirect",
        "connection-refused",
    ];
    for kind in kinds {
        let event = events.iter().find(|event| event["kind"] == kind);
        let event = event.unwrap_or_else(|| panic!("{kind} is none of {events:#?}"));
        let example = &event["example"];
        let connection = example["connection"].as_u64().expect("a number") as usize - 1;
        let of_it = document["connections"][connection]["events"].as_array().expect("events");
        assert!(of_it.iter().any(|one| one["kind"] == kind && one["packet"] == example["packet"]), "{event}");
        assert_eq!(
            (&event["first_s"], event["count"].as_u64() > Some(0)),
            (&example["t_s"], true),
            "{event}"
        );
        assert!(event["last_s"].as_f64() >= event["first_s"].as_f64(), "{event}");
    }
    let of = |kind| events.iter().find(|event| event["kind"] == kind).expect("it is there");
    assert_eq!(of("task-set-full")["outstanding"]["least"], 7);
    assert_eq!(of("check-condition")["sense"], serde_json::json!({"key": 3, "asc": 17, "ascq": 0}));
    assert_eq!(of("redirect")["address"], "192.0.2.7:3260,1");
    assert_eq!(
        (&of("packet-too-big")["mtu_bytes"], &of("reset")["side"]),
        (&Value::from(1_400), &"initiator".into())
    );
}

#[test]
fn the_same_kind_of_several_connections_is_one_row() {
    let mut all = Vec::new();
    for n in 0..5 {
        let mut tap = begun(40_000 + n, u64::from(n) * SECOND);
        login(&mut tap, [2, 3], [b"", b""]);
        all.extend(tap.frames);
    }
    let capture = capture(&all);
    let [event] = capture.events() else { panic!("{:?}", capture.events()) };
    assert_eq!((event.count, event.connections, event.example.connection), (5, 5, 1));
    assert!(event.last_s > 4.0 && event.first_s < 1.0, "{event:?}");
}

/// An initiator that sends eight at a time to a target with room for four.
fn refused(refusal: u8) -> Tap {
    let mut tap = Tap::new((false, false));
    let mut cmd_sn = 1;
    for _ in 0..30 {
        (0..8).for_each(|n| ask(&mut tap, cmd_sn + n));
        (4..8).for_each(|n| respond(&mut tap, cmd_sn + n, [0, refusal], None));
        tap.t_ns += 30 * MS;
        for n in 0..4 {
            let answer = tap.answer(cmd_sn + n, 1);
            tap.pdus(1, &answer);
        }
        cmd_sn += 8;
    }
    tap
}

#[test]
fn a_target_that_refuses_commands_is_the_limiter() {
    for refusal in [BUSY, TASK_SET_FULL] {
        let capture = capture(&refused(refusal).frames);
        let verdict = first(&capture);
        assert_eq!(
            (verdict.limiter, verdict.certainty),
            (Limiter::TargetQueue, Certainty::Unknown),
            "{verdict:?}"
        );
        assert_eq!(number(verdict, "commands refused, BUSY or TASK SET FULL"), 120.0);
        assert_eq!(number(verdict, "share of those in all commands"), 0.5);
        assert_eq!(number(verdict, "commands outstanding when one was refused, fewest"), 5.0);
        let commands: String = verdict.remedies.iter().map(|remedy| remedy.commands.as_str()).collect();
        assert!(commands.contains("node.session.queue_depth -v 4\n"), "{commands}");
        assert!(commands.contains("MaxQueueCmd --value 4"), "{commands}");
        let diagnosis = capture.connections().next().and_then(|one| one.diagnosis).expect("a diagnosis");
        let others = diagnosis.verdicts.iter().filter(|verdict| verdict.limiter == Limiter::StoreLatency);
        let mut others = others.flat_map(|verdict| &verdict.remedies);
        assert!(others.all(|remedy| !remedy.commands.contains("MaxQueueCmd")), "against refusals alone");
    }
}

/// A few refusals beside a slow target do not stand in for it.
#[test]
fn a_few_refusals_are_not_the_limiter() {
    let mut tap = Tap::new((false, false));
    for cmd_sn in 1..=200 {
        ask(&mut tap, cmd_sn);
        tap.t_ns += 10 * MS;
        if cmd_sn % 20 == 0 {
            respond(&mut tap, cmd_sn, [0, BUSY], None);
        } else {
            let answer = tap.answer(cmd_sn, 1);
            tap.pdus(1, &answer);
        }
    }
    let capture = capture(&tap.frames);
    assert_eq!(first(&capture).limiter, Limiter::StoreLatency, "{:?}", first(&capture));
}

#[test]
fn a_hung_target_is_the_limiter_whatever_came_before() {
    let mut tap = Tap::new((false, false));
    for cmd_sn in 1..=50 {
        ask(&mut tap, cmd_sn);
        let answer = tap.answer(cmd_sn, 1);
        tap.pdus(1, &answer);
        tap.t_ns += 20 * MS;
    }
    ask(&mut tap, 51);
    let mut other = begun(41_000, tap.t_ns + 60 * SECOND);
    login(&mut other, [2, 3], [b"", b""]);
    let busy = capture(&tap.frames);
    assert_eq!(first(&busy).limiter, Limiter::QueueDepth, "its caller pauses");
    let mut frames = tap.frames;
    frames.extend(other.frames);
    let hung = capture(&frames);
    let verdict = first(&hung);
    assert_eq!(verdict.limiter, Limiter::StoreLatency);
    assert!(verdict.share > 0.95, "{verdict:?}");
    assert!(number(verdict, "wait of the oldest command without an answer at the end") > 59.0);
}
