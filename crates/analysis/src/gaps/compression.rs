//! ACK compression, and the reaction of the data's sender.
//!
//! The compression of a pair is its spacing at the sender divided by its spacing at the receiver. A run is a sequence
//! of acknowledgements that arrive at no more than a quarter of the spacing with which they were sent; the data that
//! leave before the next acknowledgement arrives are the burst behind it.

use serde::Serialize;

use super::packet::{LEAST, Passage};
use super::train::TOGETHER_NS;

/// A pair that comes at no more than this part of its spacing belongs to a run.
const PRESSED: u64 = 4;
/// Least number of runs for a statement about their bursts.
const RUNS_MIN: usize = 16;

/// Change of the acknowledgements' spacing between the taps.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Compression {
    /// Median compression: spacing at the sender ÷ spacing at the receiver.
    pub p50: f64,
    /// 90th percentile of the compression, at most 1000.
    pub p90: f64,
    /// Share of acknowledgements that arrived in runs.
    pub in_runs: f64,
    /// Runs.
    pub runs: u64,
    /// Acknowledgements of a run, on average.
    pub acks_per_run: f64,
    /// Acknowledgements of the longest run.
    pub acks_per_run_max: u64,
    /// Bursts behind runs; `None` if no burst was seen whole.
    pub bursts: Option<Bursts>,
}

/// Bursts behind runs, where the whole burst was seen.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Bursts {
    /// Number of runs.
    pub runs: u64,
    /// Bytes that a run acknowledges, on average.
    pub acked_bytes: f64,
    /// Bytes that are sent behind a run before the next acknowledgement comes, on average.
    pub sent_bytes: f64,
    /// Correlation of a burst's size with the bytes that its run acknowledges: 1 if proportional, 0 if unrelated.
    pub correlation: Option<f64>,
}

/// A run of compressed acknowledgements.
struct Run {
    end_ns: u64,
    acks: u64,
    acked_bytes: u64,
    next_ns: u64,
}

/// ACK compression of a connection; `None` without two taps or with few acknowledgements.
pub(super) fn of(data: &[Passage], acks: &[Passage]) -> Option<Compression> {
    let mut way: Vec<(u64, u64, u32)> = acks
        .iter()
        .filter_map(|ack| ack.arrived_ns.map(|(due_ns, _)| (due_ns, ack.sent_ns, ack.bytes)))
        .collect();
    if way.len() < LEAST {
        return None;
    }
    way.sort_unstable();
    let mut ratios: Vec<f64> = way.windows(2).map(ratio).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let runs = runs(&way);
    let pressed: u64 = runs.iter().map(|run| run.acks).sum();
    Some(Compression {
        p50: ratios[ratios.len() / 2],
        p90: ratios[ratios.len() * 9 / 10],
        in_runs: pressed as f64 / way.len() as f64,
        runs: runs.len() as u64,
        acks_per_run: if runs.is_empty() { 0.0 } else { pressed as f64 / runs.len() as f64 },
        acks_per_run_max: runs.iter().map(|run| run.acks).max().unwrap_or(0),
        bursts: bursts(&runs, data),
    })
}

/// Bytes sent behind each run. Data and acknowledgements end at different times: bursts behind the last recorded data
/// are unknown, so a run with a later burst is left out.
fn bursts(runs: &[Run], data: &[Passage]) -> Option<Bursts> {
    let mut sent: Vec<(u64, u32)> = data.iter().map(|passage| (passage.sent_ns, passage.bytes)).collect();
    sent.sort_unstable();
    let (last_ns, _) = *sent.last()?;
    let burst = |run: &Run| {
        let from = sent.partition_point(|(t_ns, _)| *t_ns < run.end_ns);
        let until = sent.partition_point(|(t_ns, _)| *t_ns < run.next_ns).max(from);
        sent[from..until].iter().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>()
    };
    let whole = runs.iter().filter(|run| run.next_ns <= last_ns);
    let pairs: Vec<(f64, f64)> = whole.map(|run| (run.acked_bytes as f64, burst(run) as f64)).collect();
    let mean = |sum: f64| sum / pairs.len() as f64;
    (!pairs.is_empty()).then(|| Bursts {
        runs: pairs.len() as u64,
        acked_bytes: mean(pairs.iter().map(|(acked, _)| acked).sum()),
        sent_bytes: mean(pairs.iter().map(|(_, sent)| sent).sum()),
        correlation: correlation(&pairs),
    })
}

fn ratio(pair: &[(u64, u64, u32)]) -> f64 {
    let sent_ns = pair[1].1.saturating_sub(pair[0].1).max(TOGETHER_NS) as f64;
    let came_ns = (pair[1].0 - pair[0].0).max(TOGETHER_NS) as f64;
    (sent_ns / came_ns).min(1_000.0)
}

fn runs(way: &[(u64, u64, u32)]) -> Vec<Run> {
    let pressed = |a: &(u64, u64, u32), b: &(u64, u64, u32)| {
        let sent_ns = b.1.saturating_sub(a.1);
        sent_ns > TOGETHER_NS && (b.0 - a.0).saturating_mul(PRESSED) <= sent_ns
    };
    let mut runs = Vec::new();
    let mut at = 0;
    for run in way.chunk_by(pressed) {
        at += run.len();
        if run.len() > 1 {
            runs.push(Run {
                end_ns: run[run.len() - 1].0,
                acks: run.len() as u64,
                acked_bytes: run.iter().map(|(_, _, bytes)| u64::from(*bytes)).sum(),
                next_ns: way.get(at).map_or(u64::MAX, |next| next.0),
            });
        }
    }
    runs
}

/// Pearson's.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < RUNS_MIN {
        return None;
    }
    let n = pairs.len() as f64;
    let (x, y) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0 / n, sum.1 + pair.1 / n));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for pair in pairs {
        let (dx, dy) = (pair.0 - x, pair.1 - y);
        (xx, yy, xy) = (xx + dx * dx, yy + dy * dy, xy + dx * dy);
    }
    let both = (xx * yy).sqrt();
    (both > 0.0).then(|| xy / both)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    fn passage(sent_ns: u64, arrived_ns: Option<u64>, bytes: u32) -> Passage {
        let arrived_ns = arrived_ns.map(|t_ns| (t_ns, t_ns));
        Passage { sent_ns, arrived_ns, bytes, segments: 1, unseen_ns: 0 }
    }

    /// Acknowledgements every 20 µs, those of every 100 µs arriving together; a burst of the acknowledged bytes
    /// follows.
    fn pressed() -> (Vec<Passage>, Vec<Passage>) {
        let mut acks = Vec::new();
        let mut data = Vec::new();
        for group in 0..100 {
            let came = 10_000 * US + group * 100 * US;
            let each = 1_000 * (1 + (group % 3) as u32);
            for n in 0..5 {
                acks.push(passage(group * 100 * US + n * 20 * US, Some(came), each));
            }
            data.push(passage(came + 5 * US, None, each * 5));
        }
        (data, acks)
    }

    #[test]
    fn bursts_follow_what_was_pressed_together() {
        let (data, acks) = pressed();
        let found = of(&data, &acks).unwrap();
        assert_eq!(
            (found.runs, found.acks_per_run, found.acks_per_run_max, found.in_runs),
            (100, 5.0, 5, 1.0)
        );
        assert_eq!(found.p50, 20.0);
        let bursts = found.bursts.unwrap();
        assert_eq!(bursts.runs, 99, "the last one has no end");
        assert_eq!(bursts.sent_bytes, bursts.acked_bytes);
        assert!(bursts.correlation.unwrap() > 0.999, "{bursts:?}");
    }

    #[test]
    fn runs_that_come_when_data_are_no_longer_kept_have_no_burst() {
        let (data, acks) = pressed();
        let (found, whole) = (of(&data[..40], &acks).unwrap(), of(&data, &acks).unwrap());
        // The last that are kept are within the burst of run 40, which is not known to be whole.
        let bursts = found.bursts.unwrap();
        assert_eq!((found.runs, bursts.runs), (100, 39));
        assert_eq!(bursts.sent_bytes, bursts.acked_bytes);
        assert!(bursts.correlation.unwrap() > 0.999, "{bursts:?}");
        // Figures of the acknowledgements alone need no data.
        assert_eq!(Compression { bursts: None, ..found }, Compression { bursts: None, ..whole });
        assert_eq!(of(&data[..1], &acks).unwrap().bursts, None);
    }

    #[test]
    fn a_path_that_keeps_the_gaps_presses_nothing() {
        let acks: Vec<Passage> =
            (0..1_000).map(|n| passage(n * 20 * US, Some(n * 20 * US + 7_000 * US), 3_000)).collect();
        let found = of(&[passage(0, None, 1)], &acks).unwrap();
        assert_eq!((found.p50, found.p90, found.runs, found.bursts), (1.0, 1.0, 0, None));
        assert_eq!(of(&[], &acks[..100]), None);
    }
}
