//! Little's law as a check of the records: mean inside = completions per second × mean residence.
//!
//! Mean inside is counted, residence comes from each request's own two times. If the law does not hold over a window,
//! times are missing or wrong, or the window is not a steady state.

use serde::Serialize;

use super::flight::Flight;
use crate::Span;
use crate::layers::table::passage::Pass;

/// The two sides may differ by this share, or by the requests that the edges of the window cut.
const TOLERANCE_SHARE: f64 = 0.05;

/// Residence in a layer, and the law.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Residence {
    /// Mean residence of the requests that completed during the window.
    pub mean_s: f64,
    /// Completions per second × mean residence: how many should be inside.
    pub expected_inside: f64,
    /// True if the counted mean agrees.
    pub holds: bool,
}

/// Total residence of the requests that completed in a window.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(in crate::layers) struct Spent {
    count: u64,
    sum_ns: f64,
}

impl Spent {
    /// Counts a request that has left, if that was in the window.
    pub(in crate::layers) fn add(&mut self, pass: &Pass, window: Span) {
        if pass.has_left && (window.start_ns..window.end_ns).contains(&pass.leave_ns) {
            self.count += 1;
            self.sum_ns += (pass.leave_ns - pass.enter_ns) as f64;
        }
    }
}

/// Compares the counted mean with the residence; `None` if no request completed.
pub(in crate::layers) fn of(spent: Spent, flight: &Flight, window: Span) -> Option<Residence> {
    if spent.count == 0 || window.length_s() <= 0.0 {
        return None;
    }
    let mean_s = spent.sum_ns / spent.count as f64 / 1e9;
    let expected_inside = spent.count as f64 / window.length_s() * mean_s;
    // Of those inside at the beginning some time belongs before the window; of those at the end some is not counted.
    let cut = flight.at_edges * mean_s / window.length_s();
    let allowed = (TOLERANCE_SHARE * flight.mean.max(expected_inside)).max(cut);
    Some(Residence { mean_s, expected_inside, holds: (flight.mean - expected_inside).abs() <= allowed })
}

impl Residence {
    /// For a layer of which one request in so many has times.
    pub(in crate::layers) fn scaled(self, one_in: f64) -> Residence {
        Residence { expected_inside: self.expected_inside * one_in, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::occupancy::flight::{self, Scope};

    /// So many requests, one every 100 ns, each so long inside; every fourth has no time of leaving.
    fn passes(inside_ns: u64, has_gaps: bool) -> Vec<Pass> {
        let one = |i: u64| Pass {
            enter_ns: i * 100,
            leave_ns: i * 100 + inside_ns,
            has_left: !has_gaps || !i.is_multiple_of(4),
            place: 0,
        };
        (1..=1000).map(one).collect()
    }

    fn law(passes: &[Pass], window: Span) -> Option<Residence> {
        let mut enters: Vec<u64> = passes.iter().map(|pass| pass.enter_ns).collect();
        let mut leaves: Vec<u64> = passes.iter().map(|pass| pass.leave_ns).collect();
        let mut spent = Spent::default();
        passes.iter().for_each(|pass| spent.add(pass, window));
        let flight =
            flight::of(&mut enters, &mut leaves, Scope { origin_ns: 0, window, rtt_ns: 0, points: 30 });
        of(spent, &flight, window)
    }

    #[test]
    fn a_steady_layer_obeys_it_and_missing_times_show() {
        let window = Span { start_ns: 10_000, end_ns: 90_000 };
        for inside_ns in [2000, 100, 20] {
            let expected = inside_ns as f64 / 100.0;
            let found = law(&passes(inside_ns, false), window).unwrap();
            assert!((found.mean_s * 1e9 - inside_ns as f64).abs() < 1e-3, "{found:?}");
            assert!((found.expected_inside / expected - 1.0).abs() < 0.01 && found.holds, "{found:?}");
            // However few are inside at a time.
            let found = law(&passes(inside_ns, true), window).unwrap();
            assert!(!found.holds, "{inside_ns}: {found:?}");
        }
        assert_eq!(law(&[], window), None);
    }

    #[test]
    fn what_the_edges_of_a_short_window_cut_is_no_contradiction() {
        // 20 inside, of whom 10 come back during the window.
        let found = law(&passes(2000, false), Span { start_ns: 5_050, end_ns: 6_050 }).unwrap();
        assert!(found.holds, "{found:?}");
        // The load stops within it: the layer is empty at its end.
        let found = law(&passes(2000, false), Span { start_ns: 99_050, end_ns: 104_050 }).unwrap();
        assert!(found.holds, "{found:?}");
    }
}
