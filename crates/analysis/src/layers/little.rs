//! Little's law as a check on what was recorded: mean inside = completions per second × mean residence.
//!
//! Mean inside comes from counting, residence from each request's own two times. If the law does not hold
//! over a window, times are missing or wrong, or the window is no steady state.

use serde::Serialize;

use super::flight::Flight;
use crate::Span;

/// The two sides may differ by this share, and by the one request that the window's edge cuts.
const TOLERANCE_SHARE: f64 = 0.05;

/// Residence in a layer, and the law.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Residence {
    /// Mean time inside, of the requests that came back during the window.
    pub mean_s: f64,
    /// Completions per second × mean residence: how many should be inside.
    pub expected_inside: f64,
    /// Whether the mean that was counted agrees.
    pub holds: bool,
}

/// What the requests that came back during a window spent inside, together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Spent {
    count: u64,
    sum_ns: f64,
}

/// Adds up pairs of times of entering and leaving (0: did not happen).
pub(super) fn spent(enters: &[u64], leaves: &[u64], window: Span) -> Spent {
    let back =
        |(enter, leave): &(&u64, &u64)| **enter > 0 && (window.start_ns..window.end_ns).contains(*leave);
    let mut spent = Spent { count: 0, sum_ns: 0.0 };
    for (enter, leave) in enters.iter().zip(leaves).filter(back) {
        spent.count += 1;
        spent.sum_ns += *leave as f64 - *enter as f64;
    }
    spent
}

/// Holds what was counted against what was spent; `None` if no request came back.
pub(super) fn of(spent: Spent, flight: &Flight, window: Span) -> Option<Residence> {
    if spent.count == 0 || window.length_s() <= 0.0 {
        return None;
    }
    let mean_s = spent.sum_ns / spent.count as f64 / 1e9;
    let expected_inside = spent.count as f64 / window.length_s() * mean_s;
    let allowed = (TOLERANCE_SHARE * flight.mean.max(expected_inside)).max(1.0);
    Some(Residence { mean_s, expected_inside, holds: (flight.mean - expected_inside).abs() <= allowed })
}

impl Residence {
    /// For a layer of which one request in so many has times.
    pub(super) fn scaled(self, one_in: f64) -> Residence {
        Residence { expected_inside: self.expected_inside * one_in, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::flight::{self, Scope};

    #[test]
    fn a_steady_layer_obeys_it_and_missing_times_show() {
        let window = Span { start_ns: 10_000, end_ns: 90_000 };
        let scope = Scope { origin_ns: 0, window, points: 30 };
        // One request every 100 ns, each 2000 ns inside: 20 at a time.
        let enters: Vec<u64> = (1..=1000).map(|i| i * 100).collect();
        let mut leaves: Vec<u64> = enters.iter().map(|t| t + 2000).collect();
        let counted = flight::of(&mut enters.clone(), &mut leaves.clone(), scope);
        let law = of(spent(&enters, &leaves, window), &counted, window).unwrap();
        assert!((law.mean_s - 2e-6).abs() < 1e-12 && (law.expected_inside - 20.0).abs() < 0.1, "{law:?}");
        assert!(law.holds);

        leaves.iter_mut().step_by(4).for_each(|t| *t = 0);
        let mut seen: Vec<u64> = leaves.iter().copied().filter(|t| *t > 0).collect();
        let counted = flight::of(&mut enters.clone(), &mut seen, scope);
        assert!(!of(spent(&enters, &leaves, window), &counted, window).unwrap().holds);
        assert_eq!(of(spent(&[], &[], window), &counted, window), None);
    }
}
