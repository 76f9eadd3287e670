//! Predicted gains against an intervention: one stack, one path, with and without the limiter.

mod scene;

use analysis::capture::DiagnosedCapture;
use diagnosis::{Certainty, Diagnosis, Limiter, Verdict};
use dissect::Dissector;
use wire::pcap::Packet;

use scene::{MS, Played, Scene};

/// Ratios of a figure to the gain that follows.
const RATIO: std::ops::RangeInclusive<f64> = 0.8..=1.25;

fn diagnosis(played: &Played) -> Diagnosis {
    let mut frames: Vec<_> = played.frames.iter().collect();
    frames.sort_by_key(|(t_ns, _)| *t_ns);
    let mut dissector = Dissector::new();
    for (t_ns, frame) in frames {
        let packet = Packet { t_ns: *t_ns, link: 1, interface: 0, len: frame.len(), bytes: frame };
        dissector.packet(&packet, "", &mut ());
    }
    let capture = DiagnosedCapture::new(dissector.finish(0, None, &mut ()));
    let connection = capture.connections().next().expect("a connection");
    assert_eq!(connection.shortage, None);
    connection.diagnosis.expect("commands").clone()
}

/// Limiters with their shares of the time and gains.
fn brief(diagnosis: &Diagnosis) -> String {
    let one = |verdict: &Verdict| {
        let gain = verdict.gain(diagnosis.current);
        format!("{:?} {:.2}: {gain:.2} {:?}", verdict.limiter, verdict.share, verdict.certainty)
    };
    diagnosis.verdicts.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The first verdict on a scene, and the gain without its limiter: as predicted, and as it follows in `without`.
#[track_caller]
fn gains(limited: Scene, without: Scene, limiter: Limiter) -> (Verdict, f64, f64) {
    let (played, free) = (limited.play(), without.play());
    let diagnosis = diagnosis(&played);
    let first = diagnosis.first().expect("a verdict").clone();
    assert_eq!(first.limiter, limiter, "{}", brief(&diagnosis));
    let now = diagnosis.current.bytes_per_s;
    assert!((now / played.bytes_per_s - 1.0).abs() < 0.05, "{now} of {}", played.bytes_per_s);
    let predicted = first.gain(diagnosis.current);
    // Little's law: rate × latency is the number outstanding, and at most that of all requests.
    let outstanding = first.predicted.bytes_per_s * first.predicted.latency_s;
    let most = (256 * limited.block) as f64;
    assert!(outstanding <= most * 1.3, "{outstanding} bytes of {most}: {first:?}");
    (first, predicted, free.bytes_per_s / played.bytes_per_s)
}

/// A figure that is right.
#[track_caller]
fn check(limited: Scene, without: Scene, limiter: Limiter) {
    let (first, predicted, follows) = gains(limited, without, limiter);
    assert!(follows > 1.25, "{follows}: nothing to gain");
    assert_eq!(first.certainty, Certainty::Figure, "{first:?}");
    assert!(RATIO.contains(&(predicted / follows)), "{predicted} is predicted, {follows} follows: {first:?}");
}

/// Paths of 100 Mb/s and 10 ms, 1 Gb/s and 20 ms, 200 Mb/s and 100 ms.
fn paths() -> [Scene; 3] {
    [(10, 12_500_000), (20, 125_000_000), (100, 25_000_000)].map(|(ms, line_bytes_per_s)| Scene {
        rtt_ns: ms * MS,
        line_bytes_per_s,
        ..Scene::default()
    })
}

#[test]
fn a_receive_window() {
    for path in paths() {
        let free = Scene { commands: 64, depth: 24, ..path };
        check(Scene { receive_window: 32 << 10, ..free }, free, Limiter::ReceiveWindow);
    }
}

#[test]
fn a_send_buffer() {
    for path in paths() {
        let free = Scene { commands: 64, depth: 24, ..path };
        check(Scene { send_buffer: 32 << 10, ..free }, free, Limiter::SendBuffer);
    }
}

#[test]
fn nagle_against_delayed_acknowledgements() {
    for path in paths() {
        let limited = Scene { block: 1024, depth: 1, commands: 40, nagle: true, ..path };
        check(limited, Scene { nagle: false, ..limited }, Limiter::Nagle);
    }
}

#[test]
fn one_request_at_a_time_and_a_few() {
    for path in paths() {
        let one = Scene { block: 64 << 10, depth: 1, commands: 40, ..path };
        let many = |scene: Scene| Scene { depth: 256, commands: 400, ..scene };
        check(one, many(one), Limiter::RoundTrip);
        let two = Scene { depth: 2, ..one };
        check(two, many(two), Limiter::QueueDepth);
    }
}

/// Requests of one packet show nothing of the line: no figure is given, and the bounds hold.
#[test]
fn requests_of_a_packet_bound_no_line() {
    for path in paths() {
        let one = Scene { block: 1024, depth: 1, commands: 40, ..path };
        let (first, predicted, follows) =
            gains(one, Scene { depth: 128, commands: 4_000, ..one }, Limiter::RoundTrip);
        assert_ne!(first.certainty, Certainty::Figure, "{first:?}");
        assert!(predicted <= follows * 1.05, "{predicted} is said at least, {follows} follows");
    }
}

#[test]
fn a_command_window_promises_one_more_command() {
    for path in paths() {
        let free = Scene { block: 16 << 10, depth: 16, commands: 200, ..path };
        let limited = Scene { command_window: 4, ..free };
        let (first, predicted, follows) = gains(limited, free, Limiter::CommandWindow);
        assert_eq!(first.certainty, Certainty::AtLeast, "{first:?}");
        assert!((1.2..=follows).contains(&predicted), "{predicted} is said at least, {follows} follows");
    }
}

#[test]
fn a_slow_store() {
    for path in paths() {
        for (depth, block) in [(1, 4096), (2, 16 << 10), (4, 16 << 10)] {
            let limited = Scene { depth, block, commands: 80, service_ns: 150 * MS, ..path };
            check(limited, Scene { service_ns: 50_000, ..limited }, Limiter::StoreLatency);
        }
    }
}

#[test]
fn slow_starts_after_pauses() {
    // The store takes its time for each request, and every answer begins with ten segments.
    let [_, _, path] = paths();
    let even = Scene { block: 1 << 20, depth: 1, commands: 8, service_ns: 320 * MS, ..path };
    check(Scene { slow_start: true, restarts: true, ..even }, even, Limiter::CongestionWindow);
}

/// The slow start of a long connection is a part of its time, and not the limiter.
#[test]
fn a_slow_start_at_the_beginning_does_not_decide() {
    for path in paths() {
        let load = Scene { block: 64 << 10, depth: 2, commands: 400, slow_start: true, ..path };
        let found = diagnosis(&load.play());
        assert_eq!(found.first().map(|first| first.limiter), Some(Limiter::QueueDepth), "{}", brief(&found));
        let starts = found.verdicts.iter().filter(|verdict| verdict.limiter == Limiter::CongestionWindow);
        assert!(starts.map(|verdict| verdict.share).sum::<f64>() < 0.1, "{}", brief(&found));
    }
}

#[test]
fn a_full_line_has_no_gain() {
    for path in paths() {
        let full = Scene { depth: 32, commands: 96, ..path };
        let found = diagnosis(&full.play());
        let first = found.first().expect("a verdict");
        assert_eq!((first.limiter, first.gain(found.current)), (Limiter::LinkRate, 1.0), "{}", brief(&found));
    }
}
