//! Every limiter alone, and pairs of them, in made-up numbers: a line of 117.7 MB/s and 16 ms, requests of 64 KiB.

use super::*;
use crate::facts::{Concurrency, LoopFacts, Negotiated, PathFacts, PerEnd, StageTimes, TcpSender};
use crate::limiter::Instrument;

pub(super) const RTT_S: f64 = 0.016;
const LINE: f64 = 117.7e6;
pub(super) const KIB: f64 = 1024.0;

/// `sender` after a change.
pub(super) fn with(mut sender: TcpSender, change: impl FnOnce(&mut TcpSender)) -> TcpSender {
    change(&mut sender);
    sender
}

/// A closed system: requests called, queued and granted, each with a latency of `request_s` once granted.
pub(super) fn closed(outstanding: [f64; 3], request_s: f64, request_bytes: f64) -> Facts {
    let [called, queued, granted] = outstanding;
    let rate = granted / request_s;
    Facts {
        requests: 1000,
        request_bytes,
        current: Performance { bytes_per_s: rate * request_bytes, latency_s: called / rate },
        path: PathFacts {
            rtt_s: Some(RTT_S),
            line_bytes_per_s: Some(LINE),
            line_busy: Some(0.3),
            ..PathFacts::default()
        },
        sessions: 1.0,
        connections: 1.0,
        outstanding: Concurrency {
            called,
            queued,
            granted,
            caller_most: Some(called),
            ..Concurrency::default()
        },
        sender: Some(with(TcpSender::default(), |s| {
            s.traffic.mss_bytes = 1448.0;
            s.traffic.packets = 1e5;
            s.socket.has_nagle = Some(false);
        })),
        loops: LoopFacts { idle: PerEnd { near: Some(0.7), far: Some(0.7) }, ..LoopFacts::default() },
        ..Facts::default()
    }
}

pub(super) fn unknown_line(mut facts: Facts) -> Facts {
    facts.path.line_bytes_per_s = None;
    facts
}

/// Enough requests to fill the line, held at 30 MB/s by TCP.
pub(super) fn bulk(sender: TcpSender) -> Facts {
    let facts = closed([128.0; 3], 128.0 * 64.0 * KIB / 30e6, 64.0 * KIB);
    let base = facts.sender.unwrap();
    Facts {
        sender: Some(with(sender, |s| {
            s.traffic.mss_bytes = base.traffic.mss_bytes;
            s.traffic.packets = base.traffic.packets;
        })),
        ..facts
    }
}

/// First verdict, its gain within a twentieth, and the next limiter.
fn check(facts: &Facts, expected: Limiter, gain: f64, next: Limiter) {
    let diagnosis = judge(facts);
    let first = &diagnosis.verdicts[0];
    assert_eq!(first.limiter, expected, "{diagnosis:#?}");
    let found = first.gain(facts.current);
    assert!((found / gain - 1.0).abs() < 0.05, "{found}, expected {gain}: {diagnosis:#?}");
    assert_eq!(first.next, next, "{diagnosis:#?}");
    assert!(first.share > 0.0 && first.share <= 1.0, "{first:?}");
    assert!(first.evidence.iter().all(|e| e.value.is_finite() && !e.seen.is_empty()), "{first:?}");
    assert_eq!(first.remedies.is_empty(), expected.is_final());
    for verdict in &diagnosis.verdicts {
        assert!(verdict.limiter.seen_by().contains(&Instrument::Doctor), "{verdict:?}");
    }
}

#[test]
fn bounds_on_concurrency() {
    let line = |facts: &Facts| LINE / facts.current.bytes_per_s;
    let caller = closed([2.0; 3], 0.0166, 64.0 * KIB);
    check(&caller, Limiter::QueueDepth, line(&caller), Limiter::LinkRate);
    let queue = closed([128.0, 8.0, 8.0], 0.0166, 64.0 * KIB);
    check(&queue, Limiter::QueueLimit, line(&queue), Limiter::LinkRate);
    let window = closed([128.0, 128.0, 8.0], 0.0166, 64.0 * KIB);
    check(&window, Limiter::CommandWindow, line(&window), Limiter::LinkRate);
}

#[test]
fn longer_requests_are_what_remains_when_no_more_of_them_may_be_added() {
    let caller = closed([2.0; 3], 0.0166, 4.0 * KIB);
    let second = &judge(&caller).verdicts[1];
    assert_eq!((second.limiter, second.next), (Limiter::BlockSize, Limiter::LinkRate));
}

#[test]
fn longer_requests_promise_no_rate_that_nobody_has_seen() {
    let mut facts = closed([96.0; 3], 0.032, 4.0 * KIB);
    (facts.path.line_bytes_per_s, facts.path.line_busy) = (None, None);
    // 33 GB/s over the round trip, while 96 requests of 1 MiB are 3.
    facts.receiver.buffer_most_bytes = Some(1024.0 * 1024.0 * KIB);
    let diagnosis = judge(&facts);
    let longer = diagnosis.verdicts.iter().find(|verdict| verdict.limiter == Limiter::BlockSize);
    let gain = longer.expect("short requests").gain(facts.current);
    assert!((gain - 2.0).abs() < 1e-9, "{gain}: {diagnosis:#?}");
}

#[test]
fn a_caller_that_follows_the_path_is_not_what_limits_it() {
    let mut facts = closed([8.0, 8.0, 2.0], 0.0166, 64.0 * KIB);
    facts.outstanding.caller_follows = true;
    check(&facts, Limiter::CommandWindow, LINE / facts.current.bytes_per_s, Limiter::LinkRate);
    facts.outstanding.caller_follows = false;
    check(&facts, Limiter::CommandWindow, 4.0, Limiter::QueueDepth);
}

#[test]
fn latency_of_a_request() {
    let solicited = Facts {
        is_write: true,
        stages: StageTimes { soliciting: Some(4.0 * RTT_S), ..StageTimes::default() },
        agreed: Some(Negotiated {
            immediate_data: true,
            initial_r2t: false,
            first_burst_bytes: 64.0 * KIB,
            max_burst_bytes: 256.0 * KIB,
            max_outstanding_r2t: 1.0,
            segment_bytes: 256.0 * KIB,
        }),
        ..closed([4.0; 3], 5.0 * RTT_S + 0.009, 1024.0 * KIB)
    };
    check(&solicited, Limiter::R2t, LINE / solicited.current.bytes_per_s, Limiter::LinkRate);

    let stages = StageTimes { status_gap: Some(RTT_S), data_spread: Some(0.0), ..StageTimes::default() };
    let late = Facts { stages, ..closed([1.0; 3], 2.0 * RTT_S, 8.0 * KIB) };
    check(&late, Limiter::SeparateStatus, 2.0, Limiter::QueueDepth);
    let mut held = late.clone();
    held.sender = held.sender.map(|sender| with(sender, |s| s.socket.has_nagle = Some(true)));
    check(&held, Limiter::Nagle, 2.0, Limiter::QueueDepth);
    assert_eq!(judge(&held).verdicts[1].limiter, Limiter::SeparateStatus);
}

#[test]
fn latency_at_the_target() {
    let of = |stages: StageTimes| Facts { stages, ..closed([16.0; 3], RTT_S + 0.0206, 64.0 * KIB) };
    let queue = StageTimes { target_wait: Some(0.020), store_inside: Some(4.0), ..StageTimes::default() };
    check(&of(queue), Limiter::TargetQueue, 2.2, Limiter::QueueDepth);
    let slow = StageTimes {
        store: Some(0.020),
        store_least: Some(0.019),
        store_inside: Some(8.0),
        ..StageTimes::default()
    };
    check(&of(slow), Limiter::StoreLatency, 2.2, Limiter::QueueDepth);
    let narrow = StageTimes {
        store: Some(0.25),
        store_least: Some(0.002),
        store_inside: Some(110.0),
        ..StageTimes::default()
    };
    let facts = Facts { stages: narrow, ..bulk(TcpSender::default()) };
    check(&facts, Limiter::StoreBandwidth, LINE / 30e6, Limiter::LinkRate);
}

#[test]
fn limits_of_tcp() {
    let none = with(TcpSender::default(), |s| s.socket.has_nagle = Some(false));
    for (sender, limiter) in [
        (with(none, |s| s.time.send_buffer = 0.95), Limiter::SendBuffer),
        (
            with(none, |s| {
                s.time.send_buffer = 0.1;
                s.time.starved = 0.9;
                s.traffic.flight_bytes = 72e3;
                s.socket.buffer_most_bytes = Some(92e3);
            }),
            Limiter::SendBuffer,
        ),
        (with(none, |s| s.time.receive_window = 0.95), Limiter::ReceiveWindow),
        (
            with(none, |s| {
                s.time.congestion_window = 0.9;
                s.traffic.retransmitted = 80.0;
            }),
            Limiter::Loss,
        ),
        (
            with(none, |s| {
                s.time.congestion_window = 0.9;
                s.cuts.local = 40.0;
            }),
            Limiter::DeviceQueue,
        ),
        (
            with(none, |s| {
                s.time.pacing = 0.95;
                s.traffic.pacing_bytes_per_s = Some(31e6);
            }),
            Limiter::Pacing,
        ),
    ] {
        let facts = bulk(sender);
        check(&facts, limiter, LINE / 30e6, Limiter::LinkRate);
        let others: Vec<Limiter> = judge(&facts).verdicts.iter().map(|verdict| verdict.limiter).collect();
        let around = others.contains(&Limiter::Connections);
        assert_eq!(around, limiter != Limiter::Pacing, "a way around it: {others:?}");
    }
    let ramp = with(none, |s| {
        s.ramp.share = 0.5;
        s.ramp.plateau_bytes_per_s = 60e6;
    });
    check(&bulk(ramp), Limiter::CongestionWindow, 2.0, Limiter::LinkRate);
    let unpaced = with(none, |s| {
        s.time.pacing = 0.5;
        s.traffic.pacing_bytes_per_s = Some(90e6);
    });
    assert!(judge(&bulk(unpaced)).verdicts.iter().all(|verdict| verdict.limiter != Limiter::Pacing));
}

#[test]
fn capacity_of_hosts_and_line() {
    for (near, far, is_write, limiter) in [
        (0.7, 0.01, false, Limiter::SenderCpu),
        (0.01, 0.7, false, Limiter::ReceiverCpu),
        (0.01, 0.7, true, Limiter::SenderCpu),
    ] {
        let idle = PerEnd { near: Some(near), far: Some(far) };
        let loops = LoopFacts { idle, ..LoopFacts::default() };
        let facts = Facts { loops, is_write, ..bulk(TcpSender::default()) };
        check(&facts, limiter, LINE / 30e6, Limiter::LinkRate);
    }
    let full = closed([128.0; 3], 128.0 * 64.0 * KIB / (0.97 * LINE), 64.0 * KIB);
    check(&full, Limiter::LinkRate, 1.0, Limiter::QueueDepth);
    // A pacing rate that follows the line does not limit it.
    let none = with(TcpSender::default(), |s| s.traffic.pacing_bytes_per_s = Some(0.98 * LINE));
    let lossy = with(none, |s| {
        s.time.congestion_window = 1.0;
        s.traffic.retransmitted = 13.0;
    });
    for sender in [with(none, |s| s.time.pacing = 0.95), with(none, |s| s.time.pacing = 1.0), lossy] {
        let facts = Facts { sender: Some(sender), ..full.clone() };
        let found = judge(&facts);
        assert_eq!(found.verdicts[0].limiter, Limiter::LinkRate, "{found:#?}");
        assert!(found.verdicts.iter().all(|verdict| verdict.gain(facts.current) < 1.1), "{found:#?}");
    }
}

#[test]
fn where_nothing_is_to_be_gained_it_says_so() {
    let facts = unknown_line(closed([1.0; 3], RTT_S, 4.0 * KIB));
    check(&facts, Limiter::RoundTrip, 1.0, Limiter::RoundTrip);
    // More of them at a time get more, at least twice as many for all that is known.
    let two = unknown_line(closed([2.0; 3], RTT_S, 4.0 * KIB));
    check(&two, Limiter::QueueDepth, 2.0, Limiter::RoundTrip);
    let path = PathFacts { rtt_s: Some(0.1), ..PathFacts::default() };
    assert!(!judge(&Facts { path, ..Facts::default() }).verdicts.is_empty());
}

#[test]
fn of_two_the_one_that_holds_comes_first_and_the_other_is_next() {
    let two = closed([128.0, 8.0, 4.0], 0.0166, 64.0 * KIB);
    check(&two, Limiter::CommandWindow, 2.0, Limiter::QueueLimit);

    let mut small = bulk(with(TcpSender::default(), |s| {
        s.time.receive_window = 0.95;
        s.socket.has_nagle = Some(false);
    }));
    small.outstanding.window_most = Some(16.0);
    small.outstanding.granted = 16.0;
    small.outstanding.queued = 16.0;
    small.outstanding.called = 16.0;
    small.outstanding.caller_most = Some(16.0);
    check(
        &small,
        Limiter::ReceiveWindow,
        16.0 * 64.0 * KIB / (RTT_S + 64.0 * KIB / LINE) / 30e6,
        Limiter::QueueDepth,
    );

    let stages = StageTimes { store: Some(0.016), store_least: Some(0.016), ..StageTimes::default() };
    let both = Facts { stages, ..closed([64.0, 64.0, 8.0], 0.0326, 64.0 * KIB) };
    let found = judge(&both);
    assert_eq!(found.verdicts[0].limiter, Limiter::CommandWindow, "{found:#?}");
    assert!(found.verdicts.iter().any(|verdict| verdict.limiter == Limiter::StoreLatency));
}

#[test]
fn of_two_at_the_present_rate_the_lesser_is_seen_because_of_the_other() {
    // A window in the way all the time, and a store and a ramp that are only as fast as that lets them be.
    let none = with(TcpSender::default(), |s| s.socket.has_nagle = Some(false));
    let both = with(none, |s| {
        s.time.receive_window = 0.95;
        s.time.pacing = 0.3;
        s.traffic.pacing_bytes_per_s = Some(31e6);
    });
    check(&bulk(both), Limiter::ReceiveWindow, LINE / 30e6, Limiter::LinkRate);
    let ramp = with(none, |s| {
        s.time.receive_window = 0.95;
        s.ramp.share = 0.5;
        s.ramp.plateau_bytes_per_s = 40e6;
    });
    check(&bulk(ramp), Limiter::ReceiveWindow, LINE / 30e6, Limiter::LinkRate);
}

#[test]
fn what_does_not_hold_yet_is_next() {
    let none = with(TcpSender::default(), |s| s.socket.has_nagle = Some(false));
    // A cap, and one that follows.
    let shut = with(none, |s| {
        s.time.receive_window = 0.95;
        s.traffic.pacing_bytes_per_s = Some(60e6);
    });
    let capped = with(shut, |s| s.traffic.pacing_cap_bytes_per_s = Some(60e6));
    check(&bulk(capped), Limiter::ReceiveWindow, 2.0, Limiter::Pacing);
    check(&bulk(shut), Limiter::ReceiveWindow, LINE / 30e6, Limiter::LinkRate);
    // A store whose bandwidth showed with the first requests.
    let stages = StageTimes {
        store: Some(0.001),
        store_least: Some(0.001),
        store_inside: Some(1.0),
        store_bytes_per_s: Some(60e6),
        ..StageTimes::default()
    };
    let paced = bulk(with(none, |s| {
        s.time.pacing = 0.95;
        s.traffic.pacing_bytes_per_s = Some(31e6);
    }));
    check(&Facts { stages, ..paced }, Limiter::Pacing, 2.0, Limiter::StoreBandwidth);
    // A receive window that has grown as far as its buffer lets it, and one that has not.
    let mut few = closed([2.0; 3], 0.0166, 64.0 * KIB);
    few.receiver.buffer_most_bytes = Some(1e6);
    few.receiver.window_bytes = Some(0.3e6);
    let to = |facts: &Facts, window: f64| window / RTT_S / facts.current.bytes_per_s;
    check(&few, Limiter::QueueDepth, to(&few, 0.3e6), Limiter::ReceiveWindow);
    few.receiver.window_bytes = Some(0.2e6);
    check(&few, Limiter::QueueDepth, to(&few, 0.5e6), Limiter::ReceiveWindow);
    // A rate below the present one is no bound: a burst of losses, a window of more than half of its buffer, and
    // pauses after which it is as fast as before.
    let current = few.current.bytes_per_s;
    few.receiver.window_bytes = None;
    few.receiver.buffer_most_bytes = Some(0.2e6);
    few.sender = Some(with(none, |s| {
        s.time.congestion_window = 0.05;
        s.traffic.retransmitted = 100.0;
        s.traffic.packets = 1e5;
        s.traffic.mss_bytes = 1448.0;
    }));
    check(&few, Limiter::QueueDepth, LINE / current, Limiter::LinkRate);
    few.sender = Some(with(none, |s| {
        s.cuts.restarts = 3.0;
        s.ramp.plateau_bytes_per_s = 1.05 * current;
    }));
    check(&few, Limiter::QueueDepth, LINE / current, Limiter::LinkRate);
    // A send buffer that was full now and then carries no more than its size in a round trip.
    let mut window = closed([128.0, 128.0, 8.0], 0.0166, 64.0 * KIB);
    let sender = with(none, |s| {
        s.time.send_buffer = 0.24;
        s.socket.buffer_most_bytes = Some(0.8e6);
    });
    window.sender = Some(sender);
    check(&window, Limiter::CommandWindow, to(&window, 0.6e6), Limiter::SendBuffer);
}

#[test]
fn a_window_that_was_cut_before_is_still_that_window() {
    let none = with(TcpSender::default(), |s| {
        s.time.congestion_window = 1.0;
        s.time.backlogged = 1.0;
        s.socket.has_nagle = Some(false);
    });
    let line = LINE / 30e6;
    check(&bulk(with(none, |s| s.cuts.earlier_local = 1.0)), Limiter::DeviceQueue, line, Limiter::LinkRate);
    check(&bulk(with(none, |s| s.cuts.earlier_losses = 2.0)), Limiter::Loss, line, Limiter::LinkRate);
    let since = with(none, |s| {
        s.cuts.earlier_local = 1.0;
        s.traffic.retransmitted = 80.0;
    });
    check(&bulk(since), Limiter::Loss, line, Limiter::LinkRate);
}

#[test]
fn windows_that_still_open_have_no_rate_yet() {
    let sender = with(TcpSender::default(), |s| {
        s.ramp.share = 0.7;
        s.ramp.plateau_bytes_per_s = 50e6;
        s.ramp.is_growing = true;
        s.time.receive_window = 0.3;
        s.socket.has_nagle = Some(false);
    });
    check(&bulk(sender), Limiter::CongestionWindow, LINE / 30e6, Limiter::LinkRate);
    let seen = with(sender, |s| {
        s.ramp.is_growing = false;
        s.time.receive_window = 0.0;
    });
    check(&bulk(seen), Limiter::CongestionWindow, 5.0 / 3.0, Limiter::LinkRate);
}

#[test]
fn nagle_holds_no_more_than_what_comes_late() {
    // Two round trips beyond the first, of which only one is at the end.
    let stages = StageTimes { status_gap: Some(RTT_S), data_spread: Some(0.0), ..StageTimes::default() };
    let mut late = Facts { stages, ..closed([1.0; 3], 4.0 * RTT_S, 8.0 * KIB) };
    late.sender = late.sender.map(|sender| with(sender, |s| s.socket.has_nagle = Some(true)));
    check(&late, Limiter::Nagle, 4.0 / 3.0, Limiter::QueueDepth);
}

#[test]
fn requests_that_take_longer_than_the_distance_are_not_the_distances() {
    // The caller has as many outstanding as ever, and waits for more than the distance: nothing gains.
    let mut facts = closed([8.0; 3], 10.0 * RTT_S, 64.0 * KIB);
    facts.path.line_bytes_per_s = Some(facts.current.bytes_per_s * 1.02);
    let found = judge(&facts);
    assert_eq!(found.verdicts[0].limiter, Limiter::LinkRate, "{found:#?}");
    assert!(found.verdicts.iter().all(|verdict| verdict.limiter != Limiter::RoundTrip), "{found:#?}");
}

#[test]
fn answers_that_wait_for_the_socket_are_no_lack_of_requests() {
    let mut facts = closed([64.0; 3], 0.2, 64.0 * KIB);
    facts.stages.answering = Some(0.15);
    let found = judge(&facts);
    let caller = found.verdicts.iter().find(|verdict| verdict.limiter == Limiter::QueueDepth);
    assert!(caller.is_none(), "{found:#?}");
}

#[test]
fn more_connections_are_four_times_as_many() {
    let mut facts = bulk(with(TcpSender::default(), |s| {
        s.time.receive_window = 0.95;
        s.socket.has_nagle = Some(false);
    }));
    facts.path.line_bytes_per_s = Some(1e9);
    let found = judge(&facts);
    let more = found.verdicts.iter().find(|verdict| verdict.limiter == Limiter::Connections).unwrap();
    assert!((more.gain(facts.current) - 4.0).abs() < 0.01, "{more:#?}");
    assert!(more.remedies[0].commands.ends_with("--connections 4"), "{more:#?}");
}

#[test]
fn where_nothing_gains_and_the_distance_is_short_the_rate_that_holds_most_is_said() {
    // Two that hold for as much of the time each: without one the other does.
    let sender = with(TcpSender::default(), |s| {
        s.time.receive_window = 0.7;
        s.time.pacing = 0.7;
        s.traffic.pacing_bytes_per_s = Some(31e6);
    });
    let found = judge(&Facts { connections: 16.0, ..bulk(sender) });
    let said: Vec<Limiter> = found.verdicts.iter().map(|verdict| verdict.limiter).collect();
    assert!(matches!(said[..], [Limiter::Pacing | Limiter::ReceiveWindow]), "{found:#?}");
}
