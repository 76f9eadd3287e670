//! Requests inside a layer over time: issued to it less completed by it.
//!
//! The two kinds of times are counted separately, so they need not come from one host: the requests between the
//! initiator's socket and the target are those sent by the one less those received by the other. All figures are exact;
//! only the drawn line is thinned ([`super::outline`]).

use serde::Serialize;

use super::outline::Outline;
use super::rates::{Rates, Steps};
use crate::{Sample, Span};

/// A level that is exceeded for less than this share of the time is not the layer's own.
const CEILING_SHARE: f64 = 0.99;
/// Points that a step of the counts takes from the budget of a line; then the least and the largest number of steps.
const POINTS_OF_STEP: usize = 5;
const STEPS: [usize; 2] = [20, 120];

/// Requests inside a layer over time.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Flight {
    /// Requests that entered during the window.
    pub issued: u64,
    /// Requests that completed during the window.
    pub completed: u64,
    /// The most that were inside at a time of the window.
    pub max: f64,
    /// Number that is not exceeded in 99 % of the window.
    pub ceiling: f64,
    /// Mean over the window's time.
    pub mean: f64,
    /// Inside when the window begins and when it ends, together.
    #[serde(skip)]
    pub at_edges: f64,
    /// (seconds since the load began, inside from then on): thinned, over the whole load.
    #[serde(skip)]
    pub series: Vec<Sample>,
    /// Arrivals and departures per second, over the whole load.
    #[serde(skip)]
    pub rates: Rates,
}

/// Over which time, and how finely.
#[derive(Clone, Copy, Debug)]
pub(in crate::layers) struct Scope {
    /// The zero of the series' times.
    pub(in crate::layers) origin_ns: u64,
    /// Window of the figures.
    pub(in crate::layers) window: Span,
    /// The round trip of the path; 0 if it is not known.
    pub(in crate::layers) rtt_ns: u64,
    /// Points of the series, about; without any nothing is drawn.
    pub(in crate::layers) points: usize,
}

impl Scope {
    fn steps(self) -> usize {
        let [least, most] = STEPS;
        if self.points == 0 { 0 } else { (self.points / POINTS_OF_STEP).clamp(least, most) }
    }
}

/// Counts. `issued` and `completed` are times in any order; they are sorted here.
pub(in crate::layers) fn of(issued: &mut [u64], completed: &mut [u64], scope: Scope) -> Flight {
    issued.sort_unstable();
    completed.sort_unstable();
    let Span { start_ns, end_ns } = scope.window;
    let first = issued.first().copied().unwrap_or(start_ns).max(scope.origin_ns);
    let last = issued.last().max(completed.last()).copied().unwrap_or(end_ns);
    let mut outline = Outline::new(first, last, scope.points);
    let is_empty = issued.is_empty() && completed.is_empty();
    let mut steps = Steps::new(first, last, scope.rtt_ns, if is_empty { 0 } else { scope.steps() });
    let mut held = Held::default();
    let mut flight = Flight::default();
    let (mut i, mut c, mut level, mut since) = (0, 0, 0_i64, start_ns);
    let (mut at_start, mut at_end) = (None, 0);
    loop {
        let t = match (issued.get(i), completed.get(c)) {
            (None, None) => break,
            (Some(a), Some(b)) => *a.min(b),
            (Some(a), None) => *a,
            (None, Some(b)) => *b,
        };
        if t >= start_ns && at_start.is_none() {
            at_start = Some(level);
        }
        if t >= end_ns && since < end_ns {
            held.add(level, end_ns - since);
            (since, at_end) = (end_ns, level);
        } else if t > since && t < end_ns {
            held.add(level, t - since);
            since = t;
        }
        // Changes at one moment are one change: a request that completes makes room for the next.
        let (came, went) = (run(&issued[i..], t), run(&completed[c..], t));
        (i, c) = (i + came, c + went);
        level += came as i64 - went as i64;
        if (start_ns..end_ns).contains(&t) {
            flight.issued += came as u64;
            flight.completed += went as u64;
        }
        if t >= scope.origin_ns && scope.points > 0 {
            outline.push(t, level);
            steps.add(t, came, went);
        }
    }
    if since < end_ns {
        held.add(level, end_ns - since);
        at_end = level;
    }
    flight.at_edges = (at_start.unwrap_or(level) + at_end) as f64;
    (flight.max, flight.ceiling, flight.mean) = (held.max(), held.ceiling(), held.mean());
    let second = |t: u64| (t - scope.origin_ns) as f64 / 1e9;
    flight.series = outline.finish().into_iter().map(|(t, level)| (second(t), level.max(0) as f64)).collect();
    flight.rates = steps.finish(scope.origin_ns);
    flight
}

impl Flight {
    /// For a layer of which one request in so many has times.
    pub(in crate::layers) fn scaled(mut self, one_in: f64) -> Flight {
        if one_in != 1.0 {
            let count = |n: u64| (n as f64 * one_in).round() as u64;
            (self.issued, self.completed) = (count(self.issued), count(self.completed));
            self.max *= one_in;
            self.ceiling *= one_in;
            self.mean *= one_in;
            self.at_edges *= one_in;
            self.series.iter_mut().for_each(|(_, level)| *level *= one_in);
            self.rates.scale(one_in);
        }
        self
    }
}

/// Number of leading elements equal to `t`.
fn run(sorted: &[u64], t: u64) -> usize {
    sorted.iter().take_while(|value| **value == t).count()
}

/// For how long each level was held.
#[derive(Default)]
struct Held {
    ns: Vec<u64>,
}

impl Held {
    fn add(&mut self, level: i64, ns: u64) {
        let level = usize::try_from(level).unwrap_or(0);
        if self.ns.len() <= level {
            self.ns.resize(level + 1, 0);
        }
        self.ns[level] += ns;
    }

    fn max(&self) -> f64 {
        self.ns.iter().rposition(|ns| *ns > 0).unwrap_or(0) as f64
    }

    fn total(&self) -> f64 {
        self.ns.iter().map(|ns| *ns as f64).sum()
    }

    fn mean(&self) -> f64 {
        let weighted: f64 = self.ns.iter().enumerate().map(|(level, ns)| level as f64 * *ns as f64).sum();
        if self.total() > 0.0 { weighted / self.total() } else { 0.0 }
    }

    fn ceiling(&self) -> f64 {
        let enough = self.total() * CEILING_SHARE;
        let mut sum = 0.0;
        let reached = self.ns.iter().position(|ns| {
            sum += *ns as f64;
            sum >= enough
        });
        reached.unwrap_or(0) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(start_ns: u64, end_ns: u64) -> Scope {
        Scope { origin_ns: 0, window: Span { start_ns, end_ns }, rtt_ns: 0, points: 300 }
    }

    #[test]
    fn issued_less_completed() {
        let flight = of(&mut [10, 20, 20, 40], &mut [30, 50, 40, 60], scope(0, 100));
        assert_eq!((flight.issued, flight.completed, flight.max), (4, 4, 3.0));
        // 10 ns of 1, 10 of 3, 10 of 2, at 40 one goes and one comes: 10 of 2, then 10 of 1.
        assert!((flight.mean - 0.9).abs() < 1e-9, "{}", flight.mean);
        let levels: Vec<f64> = flight.series.iter().map(|(_, level)| *level).collect();
        assert_eq!(levels, [1.0, 3.0, 2.0, 2.0, 1.0, 0.0]);
        let Rates { start_s, step_s, issued, completed } = flight.rates;
        let count = |rates: &[f64]| rates.iter().sum::<f64>() * step_s;
        assert!((count(&issued) - 4.0).abs() < 1e-9 && (count(&completed) - 4.0).abs() < 1e-9);
        assert_eq!((start_s * 1e9, issued.len()), (10.0, 50));
    }

    #[test]
    fn figures_are_of_the_window_alone() {
        let flight = of(&mut [10, 20, 30], &mut [90], scope(25, 50));
        assert_eq!((flight.issued, flight.completed, flight.max), (1, 0, 3.0));
        assert!((flight.mean - (2.0 * 5.0 + 3.0 * 20.0) / 25.0).abs() < 1e-9, "{}", flight.mean);
        assert_eq!(flight.at_edges, 2.0 + 3.0);
        assert_eq!(of(&mut [], &mut [], scope(0, 10)), Flight::default());
    }

    #[test]
    fn a_level_held_for_a_moment_is_the_maximum_but_not_the_ceiling() {
        let mut issued: Vec<u64> = (0..100).collect();
        let mut completed: Vec<u64> = (100_000..100_100).collect();
        issued.extend([50_000, 50_000]);
        completed.extend([50_010, 50_010]);
        let flight = of(&mut issued, &mut completed, scope(0, 100_000));
        assert_eq!((flight.max, flight.ceiling), (102.0, 100.0));
    }
}
