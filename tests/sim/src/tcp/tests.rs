//! The sender against theory and Linux's rules.

use core::time::Duration;

use event::{BitRate, CongestionState, Instant};
use link::{Line, LossModel, Shape, Share};

use super::bbr::Mode;
use super::network::{Flow, Load, Network};
use super::{Kind, NO_THRESHOLD};

const RATE: BitRate = BitRate(100_000_000);
/// Packets per second on the wire.
const LINE: f64 = 1e8 / 8.0 / 1538.0;

fn at(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

/// A line of [`RATE`] with this round trip in ms and a queue of so many products.
fn line(rtt_ms: u64, products: f64) -> Line {
    let delay = Duration::from_millis(rtt_ms) / 2;
    let queue_bytes = (RATE.bytes_in(2 * delay) as f64 * products) as u64;
    Line::plain(Shape { delay, rate: RATE, queue_bytes: queue_bytes.max(20 * 1538) })
}

fn random(share: f64) -> Option<LossModel> {
    Some(LossModel::Random(Share::new(share).expect("a share")))
}

/// One bulk connection on a line that loses as `loss` says, packets only.
fn alone(kind: Kind, line: Line, loss: Option<LossModel>, seed: u64) -> Network {
    let back = Line::plain(line.shape);
    let mut network = Network::new(&Line { loss, ..line }, &back, seed);
    network.add(Flow::new(kind, Load::Bulk, Instant::ZERO, seed));
    network
}

fn cubic(rtt_ms: u64, loss: Option<LossModel>) -> Network {
    alone(Kind::CubicWithoutHystart, line(rtt_ms, 1.0), loss, 1)
}

fn lose(numbers: &[(u64, u64)]) -> Option<LossModel> {
    Some(LossModel::Numbers(numbers.to_vec()))
}

/// Runs in steps of 1 ms until `end` and shows each to `see`.
fn watch(network: &mut Network, end: Instant, mut see: impl FnMut(&Network)) {
    while network.now() < end {
        let next = network.now() + Duration::from_millis(1);
        network.run_until(next);
        see(network);
    }
}

#[test]
fn cubic_has_the_window_of_rfc_9438() {
    // Section 5.1: 1.054 (RTT/p)^(3/4) packets where one in 10 000 is lost, at regular distances.
    let numbers: Vec<_> = (1..70).map(|n| (n * 10_000, n * 10_000)).collect();
    let mut network = cubic(100, lose(&numbers));
    network.run_until(at(50.0));
    let (mut sum, mut count) = (0.0, 0.0);
    watch(&mut network, at(300.0), |network| {
        sum += f64::from(network.flows()[0].sender.info().cwnd);
        count += 1.0;
    });
    let expected = 1.054 * (0.1f64 / 1e-4).powf(0.75);
    let seen = sum / count;
    assert!((seen / expected - 1.0).abs() < 0.2, "{seen:.0} packets, expected {expected:.0}");
}

#[test]
fn losses_of_a_round_cut_the_window_once() {
    let mut network = cubic(100, lose(&[(500, 502), (510, 510), (530, 531)]));
    let mut before = 0;
    watch(&mut network, at(1.0), |network| {
        let info = network.flows()[0].sender.info();
        before = if info.counts.recoveries == 0 { info.cwnd } else { before };
    });
    let info = network.flows()[0].sender.info();
    assert_eq!((info.counts.recoveries, info.counts.resent, info.counts.timeouts), (1, 6, 0));
    let part = f64::from(info.ssthresh) / f64::from(before);
    assert!((part - 0.7).abs() < 0.05, "{} of {before}", info.ssthresh);
}

#[test]
fn a_recovery_sends_in_proportion() {
    // Three of a window are lost: about 0.7 packets go out for each that arrives, and never is there a pause.
    let mut network = cubic(100, lose(&[(1_000, 1_002)]));
    let (mut sent, mut last, mut longest, mut during) = (0, at(0.0), Duration::ZERO, None);
    watch(&mut network, at(2.0), |network| {
        let info = network.flows()[0].sender.info();
        let (from, _) = during.unwrap_or(((info.counts.sent, info.delivered), (0, 0)));
        if info.state == CongestionState::Recovery {
            if during.is_some() && info.counts.sent > sent {
                longest = longest.max(network.now().since(last));
            }
            during = Some((from, (info.counts.sent, info.delivered)));
        }
        if info.counts.sent > sent {
            (sent, last) = (info.counts.sent, network.now());
        }
    });
    let ((sent_from, delivered_from), (sent, delivered)) = during.expect("a recovery");
    let part = (sent - sent_from) as f64 / (delivered - delivered_from) as f64;
    assert!((0.6..0.8).contains(&part), "{part:.2} sent for each that arrived");
    // The acknowledgements of a window that doubles come in bursts, a round trip apart.
    assert!(longest < Duration::from_millis(100), "{longest:?}");
}

#[test]
fn a_retransmission_that_is_lost_is_repaired_without_a_timeout() {
    // Number 1 001 or soon after is the retransmission of number 400.
    let mut network = cubic(50, lose(&[(400, 400)]));
    let mut resent_as = None;
    watch(&mut network, at(2.0), |network| {
        let counts = network.flows()[0].sender.info().counts;
        resent_as = resent_as.or((counts.resent == 1).then_some(counts.sent));
    });
    let around = resent_as.expect("it is sent again");
    let mut network = cubic(50, lose(&[(400, 400), (around - 20, around + 20)]));
    network.run_until(at(2.0));
    let flow = &network.flows()[0];
    let info = flow.sender.info();
    assert_eq!((info.counts.timeouts, info.lost, info.resent_out), (0, 0, 0), "{info:?}");
    assert_eq!(
        u64::from(info.counts.resent),
        flow.dropped(),
        "what was lost is sent again, and nothing else"
    );
}

#[test]
fn a_lost_tail_is_repaired_by_a_probe() {
    let mut network =
        Network::new(&Line { loss: lose(&[(20, 20), (60, 60)]), ..line(50, 1.0) }, &line(50, 1.0), 1);
    let every = Duration::from_secs(1);
    network.add(Flow::new(Kind::Cubic, Load::Bursts { packets: 20, every }, at(0.0), 1));
    network.run_until(at(0.9));
    let flow = &network.flows()[0];
    let info = flow.sender.info();
    assert_eq!((info.counts.timeouts, info.counts.resent, flow.arrived_bytes()), (0, 1, 20 * 1448));
    network.run_until(at(3.9));
    let info = network.flows()[0].sender.info();
    assert_eq!((info.counts.timeouts, info.counts.resent), (0, 2));
    assert!(info.ssthresh < NO_THRESHOLD, "a probe that repairs a loss costs a cut");
}

#[test]
fn a_line_that_is_down_costs_a_timeout() {
    let down = Line { outages: vec!["1s+2s".parse().expect("an outage")], ..line(50, 1.0) };
    let mut network = alone(Kind::Cubic, down, None, 1);
    network.run_until(at(3.0));
    let there = network.flows()[0].arrived_bytes();
    assert!(network.flows()[0].sender.info().counts.timeouts >= 2, "the timeout backs off");
    assert_eq!(network.flows()[0].sender.info().state, CongestionState::Loss);
    network.run_until(at(10.0));
    let arrived = (network.flows()[0].arrived_bytes() - there) as f64 / 1448.0 / 7.0;
    assert!(arrived > 0.6 * LINE, "{arrived:.0} packets per second");
}

#[test]
fn reordering_is_found_and_its_cuts_are_undone() {
    let hold = Duration::from_millis(10);
    let reorder = Some(link::Reordering { share: Share::new(0.01).expect("a share"), hold });
    let mut network = alone(Kind::Cubic, Line { reorder, ..line(100, 1.0) }, None, 1);
    // Half of the line: no queue, no loss.
    network.flows_mut()[0].sender.pace_at_most(4_000 * 1_448);
    network.run_until(at(10.0));
    let flow = &network.flows()[0];
    let counts = flow.sender.info().counts;
    assert_eq!(flow.dropped(), 0);
    assert!(counts.reorderings > 100, "{counts:?}");
    // A quarter of the round trip is longer than it: once it is known, nothing is sent again.
    assert!((1..20).contains(&counts.resent), "{counts:?}");
    assert_eq!(counts.duplicates, counts.resent);
    let rate = flow.arrived_bytes() as f64 / 1448.0 / 10.0;
    assert!(rate > 3_700.0, "{rate:.0} packets per second");
}

#[test]
fn a_paced_sender_keeps_its_rate() {
    let mut network = alone(Kind::Cubic, line(20, 1.0), None, 1);
    network.flows_mut()[0].sender.pace_at_most(1_448_000);
    network.run_until(at(5.0));
    let rate = network.flows()[0].arrived_bytes() as f64 / 1448.0 / 5.0;
    assert!((970.0..=1_001.0).contains(&rate), "{rate:.0} packets per second");
}

#[test]
fn startup_ends_when_the_line_is_full() {
    let mut network = alone(Kind::Bbr, line(100, 2.5), None, 1);
    let (mut left, mut last) = (None, 10.0);
    for round in 1..30 {
        network.run_until(at(0.101 * f64::from(round)));
        let sender = &network.flows()[0].sender;
        let (mode, _) = sender.bbr().expect("it is BBR");
        let cwnd = f64::from(sender.info().cwnd);
        // The receiver owes an acknowledgement of an odd packet for 40 ms, which delays the first rounds.
        if (4..=7).contains(&round) {
            assert!(cwnd > 1.7 * last, "round {round}: from {last} to {cwnd} packets");
        }
        if mode != Mode::Startup {
            left = left.or(Some((round, sender.info().ssthresh)));
        }
        last = cwnd;
    }
    let (round, ssthresh) = left.expect("it ends");
    // 7 doublings from 10 to 813 packets, 3 rounds without growth, which are longer for the queue.
    assert!((10..=18).contains(&round), "after {round} rounds");
    assert!((800..950).contains(&ssthresh), "a product of 813 and three bursts: {ssthresh}");
    assert_eq!(network.flows()[0].dropped(), 0, "a queue of 2.5 products holds 2.89");
}

#[test]
fn gains_cycle_over_eight_phases() {
    let mut network = alone(Kind::Bbr, line(50, 2.5), None, 3);
    network.run_until(at(4.0));
    let mut times = [0u32; 3];
    watch(&mut network, at(9.0), |network| {
        let (mode, gain) = network.flows()[0].sender.bbr().expect("it is BBR");
        assert_eq!(mode, Mode::ProbeBw);
        times[if gain > 1.0 { 0 } else { 1 + usize::from(gain < 1.0) }] += 1;
    });
    let [up, cruise, down] = times.map(|time| f64::from(time) / 5_000.0);
    assert!((0.08..0.2).contains(&up) && (0.02..0.16).contains(&down), "{up} {cruise} {down}");
    assert!((0.68..0.85).contains(&cruise), "{up} {cruise} {down}");
}

#[test]
fn startup_doubles_under_random_loss() {
    for seed in 1..6 {
        let mut network = alone(Kind::Bbr, line(100, 1.0), random(0.02), seed);
        network.run_until(at(5.0));
        let before = network.flows()[0].arrived_bytes();
        network.run_until(at(9.0));
        let rate = (network.flows()[0].arrived_bytes() - before) as f64 / 1448.0 / 4.0;
        assert!(rate > 0.9 * LINE * 0.98, "seed {seed}: {rate:.0} packets per second");
        let mut cubic = alone(Kind::Cubic, line(100, 1.0), random(0.02), seed);
        cubic.run_until(at(9.0));
        assert!(cubic.flows()[0].arrived_bytes() < before / 4, "seed {seed}: where CUBIC does not");
    }
}

#[test]
fn the_pipe_is_emptied_every_ten_seconds() {
    let mut network = alone(Kind::Bbr, line(50, 1.0), None, 1);
    let (mut begins, mut least, mut before) = (Vec::new(), u32::MAX, false);
    let mut time = 0;
    watch(&mut network, at(25.0), |network| {
        let sender = &network.flows()[0].sender;
        let probes = sender.bbr().is_some_and(|(mode, _)| mode == Mode::ProbeRtt);
        if probes && !before {
            begins.push(network.now());
        }
        if probes {
            least = least.min(sender.info().unacked);
            time += 1;
        }
        before = probes;
    });
    assert_eq!(begins.len(), 2, "{begins:?}");
    assert!(least <= 4, "{least} packets");
    assert!((400..700).contains(&time), "{time} ms in two of 200 ms and the way there");
}

#[test]
fn a_change_in_the_middle_keeps_the_window() {
    let mut network = alone(Kind::Cubic, line(100, 1.0), random(0.01), 2);
    network.run_until(at(5.0));
    let now = network.now();
    let sender = &mut network.flows_mut()[0].sender;
    let before = sender.info();
    sender.set_congestion(now, Kind::Bbr);
    let after = sender.info();
    assert_eq!((after.cwnd, after.min_rtt, after.ssthresh), (before.cwnd, before.min_rtt, NO_THRESHOLD));
    network.run_until(at(8.0));
    let rate = network.flows()[0].sender.info().delivery_rate_bytes_per_s as f64 / 1448.0;
    assert!(rate > 0.7 * LINE, "{rate:.0} packets per second");
    let now = network.now();
    let sender = &mut network.flows_mut()[0].sender;
    sender.set_congestion(now, Kind::Cubic);
    assert!(!sender.paces_itself() && sender.info().pacing_bytes_per_s < u64::MAX, "paced for life");
    network.run_until(at(20.0));
    let rate = network.flows()[0].sender.info().delivery_rate_bytes_per_s as f64 / 1448.0;
    assert!(rate < 0.3 * LINE, "{rate:.0} packets per second");
}

#[test]
fn one_seed_one_course() {
    let course = |seed| {
        let mut network = alone(Kind::Bbr, line(50, 1.0), random(0.01), seed);
        network.add(Flow::new(Kind::Cubic, Load::Bulk, at(1.0), seed));
        network.run_until(at(4.0));
        network.flows().iter().map(|flow| format!("{:?}", flow.sender.info())).collect::<Vec<_>>()
    };
    assert_eq!(course(1), course(1));
    assert_ne!(course(1), course(2));
}
