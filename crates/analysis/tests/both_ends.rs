//! One load at a tap beside its initiator and at one beside its target: the diagnosis is the same at both.

#[path = "../../dissect/tests/tap/mod.rs"]
mod tap;

use analysis::capture::DiagnosedCapture;
use diagnosis::{Diagnosis, Instrument, Limiter, Verdict};
use dissect::Dissector;
use wire::pcap::Packet;

use tap::{BLOCK, MS, Tap, command};

/// One-way delay.
const WAY_NS: u64 = 4 * MS;

/// Reads in batches of `batch`, each after all answers to the one before, with a command window of `window`.
fn load(batch: u32, window: u32) -> Tap {
    let mut tap = Tap::new((false, false));
    tap.window = window;
    for first in (1..).step_by(batch as usize).take(40) {
        let sent = (first..first + batch).map(|cmd_sn| (command(cmd_sn, true, BLOCK, 0), Vec::new()));
        tap.pdus(0, &sent.collect::<Vec<_>>());
        let answers: Vec<_> = (first..first + batch).flat_map(|cmd_sn| tap.answer(cmd_sn, 1)).collect();
        tap.pdus(1, &answers);
    }
    tap
}

/// The diagnosis at a tap beside one of the ends.
fn diagnosis(tap: &Tap, beside_the_initiator: bool) -> Diagnosis {
    let (mut dissector, mut passed_ns, mut last) = (Dissector::new(), WAY_NS, 0);
    for (t_ns, frame) in &tap.frames {
        let direction = usize::from(frame[14 + 15]);
        if (last, direction) == (1, 0) {
            // The answer of the target travels to the initiator, and the next command back.
            passed_ns += 2 * WAY_NS;
        }
        last = direction;
        let far_ns = t_ns + passed_ns;
        let t_ns = match (beside_the_initiator, direction) {
            (false, _) => far_ns,
            (true, 0) => far_ns - WAY_NS,
            (true, _) => far_ns + WAY_NS,
        };
        let packet = Packet { t_ns, link: 1, interface: 0, len: frame.len(), bytes: frame };
        dissector.packet(&packet, "", &mut ());
    }
    let capture = DiagnosedCapture::new(dissector.finish(0, None, &mut ()));
    let found =
        capture.connections().next().and_then(|connection| connection.diagnosis).expect("commands").clone();
    for Verdict { limiter, .. } in &found.verdicts {
        assert!(limiter.seen_by().contains(&Instrument::Analyze), "{limiter:?}");
    }
    found
}

#[test]
fn the_verdict_is_the_same_at_both_ends() {
    for (batch, window, expected) in
        [(1, 32, Limiter::RoundTrip), (4, 32, Limiter::QueueDepth), (4, 4, Limiter::CommandWindow)]
    {
        let tap = load(batch, window);
        let both = [true, false].map(|near| diagnosis(&tap, near));
        for diagnosis in &both {
            let found = diagnosis.first().map(|verdict| verdict.limiter);
            assert_eq!(found, Some(expected), "{batch} of {window}: {diagnosis:?}");
        }
        let [near_s, far_s] = both.map(|diagnosis| diagnosis.current.latency_s);
        assert!(
            (near_s / far_s - 1.0).abs() < 0.05,
            "{near_s} s beside the initiator, {far_s} s beside the target"
        );
    }
}

#[test]
fn a_tap_beside_the_target_says_what_it_cannot_know() {
    let tap = load(1, 32);
    let away = |diagnosis: &Diagnosis| {
        diagnosis.cannot_know.iter().any(|text| text.starts_with("the capture was not made at the initiator"))
    };
    assert!(away(&diagnosis(&tap, false)));
    assert!(!away(&diagnosis(&tap, true)));
}
