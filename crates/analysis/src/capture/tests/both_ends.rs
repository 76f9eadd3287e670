//! One load as it is seen beside its initiator and beside its target: what limits it is the same at both.

use crate::doctor::{Diagnosis, Limiter};

use super::*;

/// From one end to the other.
const WAY_NS: u64 = 4 * MS;

/// Reads, `batch` of them at a time and the next ones when all are answered, of a target that allows `window` commands.
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

/// What is told of it at one of the ends.
fn seen(tap: &Tap, beside_the_initiator: bool) -> Connection {
    let (mut analyzer, mut passed_ns, mut last) = (Analyzer::new(), WAY_NS, 0);
    for (t_ns, frame) in &tap.frames {
        let direction = usize::from(frame[14 + 15]);
        if (last, direction) == (1, 0) {
            // What the target has said goes to the initiator, and what that says then comes back.
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
        analyzer.packet(&packet, "", &mut ());
    }
    analyzer.finish(0, None).connections.into_iter().next().expect("a connection")
}

fn diagnosis(connection: &Connection) -> &Diagnosis {
    connection.diagnosis.as_ref().expect("commands")
}

#[test]
fn the_verdict_is_the_same_at_both_ends() {
    for (batch, window, expected) in
        [(1, 32, Limiter::RoundTrip), (4, 32, Limiter::CallerDepth), (4, 4, Limiter::CommandWindow)]
    {
        let tap = load(batch, window);
        let [near, far] = [true, false].map(|near| seen(&tap, near));
        for connection in [&near, &far] {
            let found = diagnosis(connection).first().map(|verdict| verdict.limiter);
            assert_eq!(found, Some(expected), "{batch} of {window}: {connection:?}");
        }
        let [near_s, far_s] = [&near, &far].map(|connection| diagnosis(connection).current.latency_s);
        assert!(
            (near_s / far_s - 1.0).abs() < 0.05,
            "{near_s} s beside the initiator, {far_s} s beside the target"
        );
    }
}

#[test]
fn a_tap_beside_the_target_says_what_it_cannot_know() {
    let tap = load(1, 32);
    let away = |connection: &Connection| {
        diagnosis(connection).cannot_know.iter().any(|text| text.starts_with("the initiator is a way off"))
    };
    assert!(away(&seen(&tap, false)));
    assert!(!away(&seen(&tap, true)));
}
