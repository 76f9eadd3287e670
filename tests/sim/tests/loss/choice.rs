//! The choice of the congestion control, end to end: a sender under the policy `auto` that may choose BBR.

use core::time::Duration;

use event::{BitRate, Instant, LossReason};
use sim::tcp::Kind;
use sim::tcp::network::{Flow, Load, Network};

use super::scene::{Scene, at, seeds};

/// Time between two looks at the sender.
const STEP: Duration = Duration::from_millis(1);

/// Course of a choice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Course {
    /// The first retransmission, and the first of another round trip.
    pub(crate) first: Option<Instant>,
    pub(crate) second: Option<Instant>,
    /// The first change to BBR.
    pub(crate) chosen: Option<Instant>,
    /// Changes in both directions.
    pub(crate) changes: u32,
    pub(crate) reason: LossReason,
}

/// A sender that may choose, as the first connection.
pub(crate) fn network(scene: &Scene, seed: u64) -> Network {
    let mut network = scene.network(seed);
    network.add(Flow::new(Kind::Cubic, scene.load, Instant::ZERO, seed).choosing(Kind::Cubic));
    network
}

/// Adds so many raw CUBIC streams that begin within seconds.
pub(crate) fn beside(network: &mut Network, raw: u64, from: Duration, seed: u64) {
    for other in 0..raw {
        let starts = Instant::ZERO + from + Duration::from_millis(100 * other + 7 * seed);
        network.add(Flow::new(Kind::Cubic, Load::Bulk, starts, seed + 100 * (1 + other)));
    }
}

/// Follows the first connection until `end`, or until the choice falls if `is_first` is all that matters.
pub(crate) fn follow(network: &mut Network, end: Instant, is_first: bool) -> Course {
    let mut course = Course::default();
    let (mut resent, mut was_rate_based) = (0, false);
    while network.now() < end {
        let next = (network.now() + STEP).min(end);
        network.run_until(next);
        let flow = &network.flows()[0];
        let info = flow.sender.info();
        if info.counts.resent > resent {
            let first = *course.first.get_or_insert(next);
            if next >= first + info.min_rtt.unwrap_or_default() {
                course.second.get_or_insert(next);
            }
            resent = info.counts.resent;
        }
        let is_rate_based = flow.sender.paces_itself();
        if is_rate_based != was_rate_based {
            was_rate_based = is_rate_based;
            course.changes += 1;
            course.chosen.get_or_insert(next);
            if is_first {
                break;
            }
        }
    }
    if let Some(steering) = &network.flows()[0].steering {
        course.reason = steering.decision().reason;
    }
    course
}

/// Rate of the lines of the table.
pub(crate) const GIGABIT: BitRate = BitRate(1_000_000_000);

/// Cells: delay one way in milliseconds, loss, and of a hundred seeds those that recognise it in time.
const CELLS: [(u64, &str, u32); 13] = [
    // Some 10 000 packets lie between two losses: 6 round trips of a line that is full, and twice as many after two cuts.
    (10, "0.01%", 10),
    (10, "0.1%", 70),
    (10, "1%", 70),
    (50, "0.01%", 70),
    (50, "0.1%", 80),
    (50, "1%", 75),
    (50, "burst:1%/8", 85),
    (100, "0.01%", 70),
    (100, "0.1%", 80),
    (100, "2%", 75),
    (250, "0.1%", 80),
    (250, "2%", 80),
    (250, "5%", 80),
];

/// Time from losses in two separate round trips to the choice: 3 s or 20 round trips, whichever is shorter; 5 s at 500 ms.
fn limit(delay_ms: u64) -> Duration {
    match delay_ms {
        250 => Duration::from_secs(5),
        _ => Duration::from_millis(40 * delay_ms).min(Duration::from_secs(3)),
    }
}

#[test]
fn random_loss_is_recognised_in_time_and_never_before_two_round_trips_with_losses() {
    for (delay_ms, loss, percent) in CELLS {
        let scene = Scene::new(delay_ms).rate(GIGABIT).with("loss", loss);
        let (mut times, mut lost) = (Vec::new(), 0);
        for seed in seeds(10) {
            let course = follow(&mut network(&scene, seed), at(12), true);
            lost += u32::from(course.second.is_some());
            if let Some(chosen) = course.chosen {
                let second = course.second.filter(|second| *second <= chosen);
                assert!(second.is_some(), "{delay_ms} ms, {loss}, seed {seed}: {course:?}");
                times.extend(second.map(|second| chosen.since(second)));
            }
        }
        times.sort_unstable();
        let in_time = times.iter().filter(|time| **time <= limit(delay_ms)).count() as u32;
        let (median, last) = (times[times.len() / 2], times[times.len() - 1]);
        println!(
            "{delay_ms:3} ms {loss:>10}: of {lost} in time {in_time} ({:?}), at all {}, median {median:.2?}, last {last:.2?}",
            limit(delay_ms),
            times.len(),
        );
        assert!(in_time * 100 >= percent * lost, "{delay_ms} ms, {loss}: {times:?}");
        // A line that is full although it loses something has nothing to gain.
        assert!(times.len() as u32 * 10 >= lost * 9, "{delay_ms} ms, {loss}: {} of {lost}", times.len());
    }
}

/// Connections that chose BBR, by their seeds, where nothing is lost but by the queue.
fn misjudged(scene: &Scene, raw: u64, few: u64, end_s: u64) -> Vec<u64> {
    let is_wrong = |seed: &u64| {
        let mut network = network(scene, *seed);
        beside(&mut network, raw, Duration::ZERO, *seed);
        follow(&mut network, at(end_s), true).chosen.is_some()
    };
    seeds(few).filter(is_wrong).collect()
}

#[test]
fn a_line_that_loses_by_its_queue_keeps_the_hosts() {
    for (delay_ms, products) in [(8, 1.0), (8, 0.1), (50, 1.0), (50, 0.1)] {
        for raw in [0, 1] {
            let wrong = misjudged(&Scene::new(delay_ms).queue(products), raw, 6, 20);
            println!("{delay_ms} ms, {products} products, {raw} beside: wrong {wrong:?}");
            // Of 50.
            assert!(
                wrong.len() <= usize::from(seeds(6).count() >= 50),
                "{delay_ms} ms, {products}, {raw}: {wrong:?}"
            );
        }
    }
}

#[test]
fn a_gigabit_that_loses_by_its_queue_keeps_the_hosts() {
    for (delay_ms, products) in [(8, 1.0), (8, 0.1), (50, 1.0), (50, 0.1)] {
        let wrong = misjudged(&Scene::new(delay_ms).rate(GIGABIT).queue(products), 1, 1, 4);
        println!("{delay_ms} ms, {products} products: wrong {wrong:?}");
        assert!(wrong.len() <= usize::from(seeds(1).count() >= 50), "{delay_ms} ms, {products}: {wrong:?}");
    }
}
