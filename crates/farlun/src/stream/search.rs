//! Golden-section search for the best of a row of places, of which each is better than its neighbour on the far side of
//! the best one. Only comparisons of two places are asked for, since figures of trials are good for nothing else.

/// Where the best place still may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Search {
    low: u32,
    high: u32,
}

impl Search {
    /// From `low` to `high`, which are among the places.
    pub(super) fn new(low: u32, high: u32) -> Search {
        Search { low, high: high.max(low) }
    }

    /// The two places to compare next, the lower one first; `None` when only one is left.
    pub(super) fn pair(self) -> Option<(u32, u32)> {
        let length = self.high - self.low;
        // The golden section, 0.382; never so much that both would be the same.
        let inset = length * 382 / 1000;
        (length > 0).then_some((self.low + inset, self.high - inset))
    }

    /// Leaves out what lies beyond the worse one of the pair; where neither is better, the lower one is taken for it.
    pub(super) fn answer(self, higher_is_better: bool) -> Search {
        let Some((lower, higher)) = self.pair() else { return self };
        match higher_is_better {
            true => Search { low: lower + 1, ..self },
            false => Search { high: higher - 1, ..self },
        }
    }

    /// The best place, as far as it is known.
    pub(super) fn found(self) -> u32 {
        self.low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place that is found among `low..=high`, and the comparisons that took.
    fn find(low: u32, high: u32, value: impl Fn(u32) -> u32) -> (u32, u32) {
        let (mut search, mut comparisons) = (Search::new(low, high), 0);
        while let Some((lower, higher)) = search.pair() {
            assert!(low <= lower && lower < higher && higher <= high, "{search:?}");
            search = search.answer(value(higher) > value(lower));
            comparisons += 1;
        }
        (search.found(), comparisons)
    }

    #[test]
    fn every_peak_is_found() {
        for high in 14..=30 {
            for peak in 14..=high {
                let (found, comparisons) = find(14, high, |place| 100 - place.abs_diff(peak));
                assert_eq!(found, peak, "14 to {high}");
                assert!(comparisons <= 6, "{comparisons} for 14 to {high}");
            }
        }
    }

    #[test]
    fn of_what_is_alike_the_smallest_is_taken() {
        assert_eq!(find(14, 22, |_| 1).0, 14);
        assert_eq!(find(14, 22, |place| place.min(17)).0, 17);
        assert_eq!(find(5, 5, |_| 1), (5, 0));
        assert_eq!(find(5, 4, |_| 1), (5, 0));
    }
}
