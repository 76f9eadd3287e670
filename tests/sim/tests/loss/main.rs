//! Random loss and congestion loss in virtual time: the marks of each cause at the sender, and the rates that it leaves.
//!
//! Lines of 100 Mb/s: queues and bounds are times, so that a faster line changes the number of packets alone. A few seeds by
//! default, 50 with `FARLUN_LONG=1`.

mod answer;
mod choice;
mod episode;
mod scene;

use core::time::Duration;

use event::{BitRate, Instant};
use sim::tcp::Kind;
use sim::tcp::NO_THRESHOLD;
use sim::tcp::network::{Flow, Load};

use episode::{Seen, watch};
use scene::{Scene, at, seeds, shares};

/// Length of a scene, in seconds.
const LONG_S: u64 = 30;

/// Episodes of the first connection on `scene`, with so many raw ones beside it.
fn seen(scene: &Scene, is_ours: bool, raw: u64, seed: u64) -> Seen {
    let mut network = scene.alone(Kind::Cubic, is_ours, seed);
    for other in 0..raw {
        let starts = Instant::ZERO + Duration::from_millis(100 * other + 7 * seed);
        network.add(Flow::new(Kind::Cubic, Load::Bulk, starts, seed + 100 * other));
    }
    watch(&mut network, at(LONG_S))
}

#[test]
fn cubic_fills_a_line_that_loses_by_its_queue_alone() {
    for is_ours in [false, true] {
        for delay_ms in [8, 50] {
            let mut network = Scene::new(delay_ms).alone(Kind::Cubic, is_ours, 1);
            let (share, resent) = shares(&mut network, 10, LONG_S)[0];
            assert!(share > 0.97 && resent < 0.001, "{delay_ms} ms, ours {is_ours}: {share:.2}, {resent:.4}");
        }
        // Where losses come by chance it is held far below, paced or not.
        for (delay_ms, loss, most) in [(50, "0.01%", 0.6), (50, "0.1%", 0.2), (50, "1%", 0.04)] {
            for seed in seeds(3) {
                let scene = Scene::new(delay_ms).with("loss", loss);
                let (share, _) = shares(&mut scene.alone(Kind::Cubic, is_ours, seed), 10, LONG_S)[0];
                assert!(share < most, "{loss}, ours {is_ours}, seed {seed}: {share:.2}");
            }
        }
    }
}

#[test]
fn our_cap_leaves_bbr_its_rate_under_random_loss() {
    for (delay_ms, loss) in [(50, "1%"), (50, "2%"), (250, "2%"), (250, "5%")] {
        let scene = Scene::new(delay_ms).with("loss", loss);
        for seed in seeds(1) {
            let share = |is_ours| shares(&mut scene.alone(Kind::Bbr, is_ours, seed), 20, 40)[0].0;
            let (raw, ours) = (share(false), share(true));
            assert!(raw > 0.7, "{delay_ms} ms, {loss}, seed {seed}: {raw:.2} raw");
            assert!(ours > 0.9 * raw, "{delay_ms} ms, {loss}, seed {seed}: {ours:.2} of {raw:.2} raw");
        }
    }
}

#[test]
fn random_losses_come_without_a_queue_and_are_told_by_the_second() {
    for (delay_ms, loss) in [
        (10, "0.1%"),
        (50, "0.01%"),
        (50, "0.1%"),
        (50, "1%"),
        (50, "burst:1%/8"),
        (100, "2%"),
        (250, "0.1%"),
        (250, "2%"),
    ] {
        let scene = Scene::new(delay_ms).with("loss", loss);
        let (mut share, mut count, mut late) = (0.0, 0.0, 0.0);
        for seed in seeds(4) {
            let seen = seen(&scene, true, 0, seed);
            share += seen.unqueued_share();
            count += 1.0;
            let second = seen.second().expect("two unqueued episodes");
            // One of them at a flight that the path has exceeded.
            let decided = seen.decided().map(|decided| decided.since(second));
            let most = Duration::from_secs(if delay_ms == 250 { 5 } else { 3 });
            late += f64::from(decided.is_none_or(|late| late > most));
        }
        // At 500 ms and 2 % four of 50 are.
        let most = if (delay_ms, loss) == (250, "2%") { 0.1 } else { 0.05 };
        assert!(late <= most * count, "{delay_ms} ms, {loss}: {late} of {count} are late");
        assert!(share / count > 0.65, "{delay_ms} ms, {loss}: {:.2} unqueued", share / count);
    }
}

#[test]
fn overflows_come_with_a_queue() {
    for (delay_ms, products, raw) in
        [(8, 1.0, 0), (8, 0.1, 0), (50, 1.0, 0), (50, 0.1, 0), (8, 1.0, 1), (50, 1.0, 1), (50, 1.0, 8)]
    {
        let scene = Scene::new(delay_ms).queue(products);
        for is_ours in [false, true] {
            for seed in seeds(1) {
                let seen = seen(&scene, is_ours, raw, seed);
                let share = seen.unqueued_share();
                assert!(
                    // A queue of 13 packets cannot hold the first bursts of slow start: one such loss.
                    share < 0.1 && seen.second().is_none(),
                    "{delay_ms} ms, {products} products, {raw} beside, ours {is_ours}, seed {seed}: {share:.2} unqueued"
                );
            }
        }
        let is_raw_cut = !seen(&scene, false, raw, 1).episodes.is_empty();
        assert!(is_raw_cut, "{delay_ms} ms, {products} products, {raw} beside: nothing overflowed");
    }
}

#[test]
fn a_policer_drops_without_a_queue_and_keeps_its_rate() {
    let rate = BitRate(50_000_000);
    for burst_bytes in [64_000, 1_000_000, 10_000_000] {
        let scene = Scene::new(50).policed(rate, burst_bytes);
        let seen = seen(&scene, true, 0, 1);
        assert!(seen.episodes.len() >= 2, "{burst_bytes} bytes: {:?}", seen.episodes);
        // Compressed SACKs make some of them look queued.
        assert!(seen.unqueued_share() > 0.85, "{burst_bytes} bytes: {:.2}", seen.unqueued_share());
        let (share, resent) = shares(&mut scene.alone(Kind::Cubic, true, 1), 10, LONG_S)[0];
        assert!(share > 0.85 * 0.5 && resent < 0.02, "{burst_bytes} bytes: {share:.2}, {resent:.4} resent");
    }
}

#[test]
fn a_device_that_refuses_packets_loses_none() {
    let scene = Scene { ring_bytes: Some(100_000), ..Scene::new(50) };
    for is_ours in [false, true] {
        let mut network = scene.alone(Kind::Cubic, is_ours, 1);
        let seen = watch(&mut network, at(LONG_S));
        let info = network.flows()[0].sender.info();
        assert!(seen.episodes.is_empty(), "ours {is_ours}: {:?}", seen.episodes);
        assert!(info.counts.resent == 0 && info.ssthresh < NO_THRESHOLD, "ours {is_ours}: {info:?}");
    }
}

#[test]
fn reordering_is_no_random_loss() {
    for hold in ["1ms", "10ms"] {
        let scene = Scene::new(50).with("reorder", "1%").with("reorder-hold", hold);
        let (mut unqueued, mut count) = (0, 0);
        for seed in seeds(4) {
            let seen = seen(&scene, true, 0, seed);
            assert_eq!(seen.decided(), None, "{hold}, seed {seed}: {:?}", seen.episodes);
            // RACK learns from the first ones; the others are overflows of its own.
            unqueued += seen.episodes.iter().filter(|episode| seen.is_unqueued(episode)).count();
            count += 1;
        }
        assert!(unqueued <= 2 * count, "{hold}: {unqueued} cuts of {count} connections");
    }
}

#[test]
fn a_tail_is_lost_with_little_behind_it() {
    // A burst is no longer than the initial window.
    let load = Load::Bursts { packets: 10, every: Duration::from_millis(300) };
    let scene = Scene { load, ..Scene::new(50).with("loss", "2%") };
    for seed in seeds(4) {
        let seen = seen(&scene, true, 0, seed);
        assert!(seen.episodes.len() >= 5, "seed {seed}: {:?}", seen.episodes);
        assert!(seen.episodes.iter().all(|episode| !episode.is_bulk), "seed {seed}: {:?}", seen.episodes);
        assert_eq!(seen.decided(), None, "seed {seed}");
    }
}
