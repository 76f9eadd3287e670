//! What must hold of any session over any path, whatever the table says.

use std::time::Duration;

use event::BitRate;
use link::Shape;
use sim::pipe::packet;
use sim::{Kind, Load, Outcome, World};

const RATE: BitRate = BitRate(1_000_000_000);
const BLOCK_BYTES: u32 = 1 << 20;

fn shape(delay_ms: u64) -> Shape {
    Shape { delay: Duration::from_millis(delay_ms), rate: RATE, queue_bytes: 64 << 20 }
}

fn load(shape: &Shape, kind: Kind, block_bytes: u32, depth: Option<usize>, rounds: u32) -> Load {
    // Sixteen round trips of slow start open any window.
    let warmup = 16 * shape.base_rtt() + Duration::from_millis(200);
    let time = (rounds * shape.base_rtt()).max(Duration::from_millis(200));
    Load { kind, block_bytes, depth, warmup, time }
}

fn run(shape: &Shape, window: u32, load: Load) -> (Outcome, usize) {
    let mut world = World::new(shape, window, 24 << 20);
    let outcome = world.run(load);
    (outcome, world.far().most_open())
}

/// Time of `len_bytes` of TCP payload on the wire.
fn wire_time(len_bytes: u32) -> Duration {
    let wire_bytes = packet(event::Instant::ZERO, len_bytes).wire_bytes;
    RATE.time_for(u64::from(wire_bytes))
}

#[test]
fn a_lone_write_takes_one_round_trip_and_its_time_on_the_wire() {
    for delay_ms in [0, 1, 8, 50, 250] {
        let shape = shape(delay_ms);
        let (outcome, _) = run(&shape, 4096, load(&shape, Kind::Write, BLOCK_BYTES, Some(1), 8));
        let least = shape.base_rtt() + wire_time(BLOCK_BYTES);
        for latency in outcome.latencies {
            let ratio = latency.as_secs_f64() / least.as_secs_f64();
            assert!((1.0..=1.05).contains(&ratio), "{delay_ms} ms: {latency:?} of {least:?}, {ratio:.4}");
        }
    }
}

#[test]
fn a_session_that_its_depth_limits_obeys_littles_law() {
    for (delay_ms, depth, block_bytes) in
        [(1, 1, 4096), (8, 32, 4096), (50, 7, 65_536), (50, 128, 512), (250, 32, 4096), (8, 1, 1 << 20)]
    {
        for kind in [Kind::Read, Kind::Write] {
            let shape = shape(delay_ms);
            let (outcome, most_open) = run(&shape, 4096, load(&shape, kind, block_bytes, Some(depth), 20));
            assert!(most_open <= depth);
            let outstanding = outcome.requests_per_s(depth) * outcome.mean().as_secs_f64();
            let error = (outstanding / depth as f64 - 1.0).abs();
            let case = format!("{kind:?} {block_bytes} × {depth} at {delay_ms} ms");
            assert!(error < 0.01, "{case}: rate × latency is {outstanding:.3}");
            // And the latency is that of the path: so the path limits it, and nothing of ours.
            let together = depth as u32 * (block_bytes + 48 * (1 + block_bytes.div_ceil(1 << 18)));
            let most = shape.base_rtt() + 2 * wire_time(together);
            assert!(outcome.mean() <= most, "{case}: {:?} of at most {most:?}", outcome.mean());
        }
    }
}

#[test]
fn a_session_that_the_command_window_limits_obeys_it_and_littles_law() {
    for (delay_ms, window) in [(8, 1), (8, 5), (8, 31), (50, 16), (0, 3)] {
        for kind in [Kind::Read, Kind::Write] {
            let shape = shape(delay_ms);
            let depth = 4 * window as usize;
            let (outcome, most_open) = run(&shape, window, load(&shape, kind, 4096, Some(depth), 40));
            let case = format!("{kind:?} with a window of {window} at {delay_ms} ms");
            assert!(most_open <= window as usize, "{case}: {most_open} commands were open");
            // Submitted requests wait here for the window, so each takes four rounds of it.
            let outstanding = outcome.requests_per_s(depth) * outcome.mean().as_secs_f64();
            let error = (outstanding / depth as f64 - 1.0).abs();
            assert!(error < 0.01, "{case}: rate × latency is {outstanding:.3} of {depth}");
            let round = shape.base_rtt() + 2 * window * wire_time(4096 + 96);
            let turn = outcome.mean() / 4;
            assert!(turn >= shape.base_rtt() && turn <= round, "{case}: a round is {turn:?} of {round:?}");
        }
    }
}

#[test]
fn the_same_world_twice_is_the_same_to_the_nanosecond() {
    let shape = shape(8);
    let load = load(&shape, Kind::Read, 65_536, None, 4);
    let (first, again) = (run(&shape, 64, load), run(&shape, 64, load));
    assert_eq!(first, again);
}
