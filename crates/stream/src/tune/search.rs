//! Golden-section search for the maximum of a unimodal sequence. It asks only for comparisons of two places: figures of
//! trials allow no more.

/// Interval that contains the maximum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Search {
    low: u32,
    high: u32,
}

impl Search {
    /// A search from `low` to `high`, both included.
    pub(super) fn new(low: u32, high: u32) -> Search {
        Search { low, high: high.max(low) }
    }

    /// Next two places to compare, the lower one first; `None` when one place is left.
    pub(super) fn pair(self) -> Option<(u32, u32)> {
        let length = self.high - self.low;
        // The golden section, 0.382; both places differ.
        let inset = length * 382 / 1000;
        (length > 0).then_some((self.low + inset, self.high - inset))
    }

    /// Drops the part beyond the worse place; of two equal places the higher one is worse.
    pub(super) fn answer(self, higher_is_better: bool) -> Search {
        let Some((lower, higher)) = self.pair() else { return self };
        match higher_is_better {
            true => Search { low: lower + 1, ..self },
            false => Search { high: higher - 1, ..self },
        }
    }

    /// Best place so far.
    pub(super) fn found(self) -> u32 {
        self.low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Place found in `low..=high`, and the number of comparisons.
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
