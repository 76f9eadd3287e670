//! Loads that are seen from one end: a limiter is stated only if that end shows it, and a figure only if something bounds it.

use super::tests::{KIB, RTT_S, bulk, closed, unknown_line, with};
use super::*;
use crate::facts::{PathFacts, TcpReceiver, TcpSender};

/// Eight requests of 1 MiB at 23.5 MB/s over 40 ms, seen by their reader alone.
fn reader_alone() -> Facts {
    let mib = 1024.0 * KIB;
    Facts {
        sender: None,
        path: PathFacts { rtt_s: Some(0.04), line_bytes_per_s: Some(24e6), ..PathFacts::default() },
        receiver: TcpReceiver { buffer_most_bytes: Some(1e9), ..TcpReceiver::default() },
        ..closed([8.0; 3], 8.0 * mib / 23.5e6, mib)
    }
}

#[test]
fn one_end_alone_blames_nobody_for_what_it_does_not_see() {
    let open = judge(&reader_alone());
    assert_eq!((open.verdicts[0].limiter, open.verdicts[0].certainty), (Limiter::Path, Certainty::Unknown));
    assert!(open.verdicts.iter().all(|verdict| verdict.limiter != Limiter::QueueDepth), "{open:#?}");
    // Round trips of the reader's commands grow with a queue in front of the line.
    let mut full = reader_alone();
    full.path.loaded_rtt_s = Some(0.2);
    assert_eq!(judge(&full).verdicts[0].limiter, Limiter::LinkRate);
    // Requests that take a round trip are few.
    let few = Facts { request_bytes: 4.0 * KIB, ..reader_alone() };
    let few =
        Facts { current: Performance { bytes_per_s: 8.0 * 4.0 * KIB / 0.041, latency_s: 0.041 }, ..few };
    let few = judge(&few);
    assert_eq!(
        (few.verdicts[0].limiter, few.verdicts[0].certainty),
        (Limiter::QueueDepth, Certainty::Unknown)
    );
}

#[test]
fn a_window_over_a_round_trip_bounds_a_rate_and_promises_none() {
    let mut facts = unknown_line(closed([8.0; 3], RTT_S, 64.0 * KIB));
    facts.path.line_busy = None;
    facts.receiver.buffer_most_bytes = Some(1e9);
    let first = &judge(&facts).verdicts[0];
    assert_eq!((first.limiter, first.certainty), (Limiter::QueueDepth, Certainty::Unknown));
    assert!(first.gain(facts.current) <= 2.0, "{first:#?}");
}

#[test]
fn a_pacing_rate_that_follows_the_path_is_the_paths() {
    let none = with(TcpSender::default(), |s| s.socket.has_nagle = Some(false));
    let mut facts = bulk(with(none, |s| {
        s.time.pacing = 0.95;
        s.traffic.pacing_bytes_per_s = Some(31e6);
    }));
    facts.path.line_busy = None;
    let found = judge(&facts);
    assert!(found.verdicts.iter().all(|verdict| verdict.limiter != Limiter::Pacing), "{found:#?}");
}
