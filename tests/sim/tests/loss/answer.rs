//! Consequences of a choice: the rate on lines that lose by chance, none where it would harm, and the way back.

use core::time::Duration;

use event::{BitRate, LossReason};
use sim::tcp::network::Load;

use super::choice::{GIGABIT, beside, follow, network};
use super::scene::{RATE, Scene, at, seeds, shares_of};

#[test]
fn a_line_that_loses_by_chance_is_filled() {
    // Delay one way in milliseconds, loss, least share of the line's goodput.
    for (delay_ms, loss, least) in [
        (10, "0.01%", 0.95),
        (10, "0.1%", 0.93),
        (10, "1%", 0.88),
        (50, "0.01%", 0.93),
        (50, "0.1%", 0.90),
        (50, "1%", 0.85),
        (50, "burst:1%/8", 0.75),
        (100, "2%", 0.75),
        (250, "0.1%", 0.80),
        (250, "2%", 0.60),
        (250, "5%", 0.30),
    ] {
        let scene = Scene::new(delay_ms).rate(GIGABIT).with("loss", loss);
        let (from_s, to_s) = if delay_ms == 250 { (20, 30) } else { (10, 20) };
        let model: link::LossModel = loss.parse().expect(loss);
        let random = model.share().expect(loss);
        for seed in seeds(1).take(5) {
            let mut network = network(&scene, seed);
            let course = follow(&mut network, at(from_s), false);
            let (share, resent) = shares_of(GIGABIT, &mut network, from_s, to_s)[0];
            println!(
                "{delay_ms:3} ms {loss:>10}: {share:.2}, {resent:.4} resent, {} changes",
                course.changes
            );
            assert!(share >= least, "{delay_ms} ms, {loss}, seed {seed}: {share:.2} {course:?}");
            assert!(resent <= 2.0 * random, "{delay_ms} ms, {loss}, seed {seed}: {resent:.4} {course:?}");
        }
    }
}

#[test]
fn a_policer_keeps_the_hosts() {
    for (rate, few) in [(GIGABIT, 1), (RATE, 3)] {
        for (delay_ms, burst_bytes) in [(8, 1_000_000), (50, 1_000_000), (50, 10_000_000), (50, 64_000)] {
            let scene = Scene::new(delay_ms).rate(rate).policed(BitRate(rate.0 / 2), burst_bytes);
            for seed in seeds(few).take(5) {
                let mut network = network(&scene, seed);
                let course = follow(&mut network, at(10), false);
                let (share, resent) = shares_of(rate, &mut network, 10, 30)[0];
                let share = 2.0 * share;
                println!("{rate} {delay_ms} ms {burst_bytes} bytes: {share:.2}, {resent:.4} resent");
                assert_eq!(course.changes, 0, "{rate}, {delay_ms} ms, {burst_bytes} bytes: {course:?}");
                // CUBIC alone has no more behind a bucket of half a millisecond.
                let least = if burst_bytes == 64_000 { 0.8 } else { 0.85 };
                assert!(
                    share >= least && resent <= 0.02,
                    "{rate}, {delay_ms} ms, {burst_bytes} bytes: {share:.2}"
                );
            }
        }
    }
}

#[test]
fn a_ring_lost_tails_and_reordering_keep_the_hosts() {
    let load = Load::Bursts { packets: 10, every: Duration::from_millis(300) };
    let tails = Scene { load, ..Scene::new(50).with("loss", "2%") };
    let ring = Scene { ring_bytes: Some(100_000), ..Scene::new(50) };
    let reordered = Scene::new(50).with("reorder", "1%").with("reorder-hold", "10ms");
    for (name, scene) in [("tails", tails), ("ring", ring), ("reordered", reordered)] {
        let mut has_met = false;
        for seed in seeds(4) {
            let mut network = network(&scene, seed);
            let course = follow(&mut network, at(20), false);
            assert_eq!(
                (course.changes, course.reason),
                (0, LossReason::None),
                "{name}, seed {seed}: {course:?}"
            );
            let info = network.flows()[0].sender.info();
            has_met |= if name == "ring" { info.ssthresh < 1 << 30 } else { course.first.is_some() };
        }
        assert!(has_met, "{name}: nothing happened");
    }
}

/// Losses of one packet in `each` on the average among the first `packets`, and none later.
fn ending(each: u64, packets: u64, seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut numbers = Vec::new();
    let mut at = random.u64(1..2 * each);
    while at <= packets {
        numbers.push(at.to_string());
        at += random.u64(1..2 * each);
    }
    format!("packets:{}", numbers.join("/"))
}

#[test]
fn a_queue_of_others_brings_the_hosts_back() {
    for (delay_ms, raw) in [(10, 1), (50, 1), (10, 4), (50, 4)] {
        for seed in seeds(2).take(10) {
            // 0.1 % for about ten seconds, then others fill the queue.
            let scene = Scene::new(delay_ms).with("loss", &ending(1000, 80_000, seed));
            let mut network = network(&scene, seed);
            beside(&mut network, raw, Duration::from_secs(15), seed);
            let before = follow(&mut network, at(15), false);
            assert!(
                network.flows()[0].sender.paces_itself(),
                "{delay_ms} ms, {raw}, seed {seed}: {before:?}"
            );
            let after = follow(&mut network, at(60), false);
            assert!(
                !network.flows()[0].sender.paces_itself(),
                "{delay_ms} ms, {raw}, seed {seed}: {after:?}"
            );
            assert_eq!(after.reason, LossReason::CongestionLoss, "{delay_ms} ms, {raw}, seed {seed}");
            let shares = shares_of(RATE, &mut network, 60, 80);
            let fair = 1.0 / (raw + 1) as f64;
            let others = shares[1..].iter().map(|(share, _)| share).sum::<f64>() / raw as f64;
            println!("{delay_ms} ms, {raw} beside, seed {seed}: {shares:.2?}");
            assert!(others >= 0.5 * fair, "{delay_ms} ms, {raw}, seed {seed}: {shares:.2?}");
            assert!(shares[0].0 >= 0.6 * fair, "{delay_ms} ms, {raw}, seed {seed}: {shares:.2?}");
        }
    }
}
