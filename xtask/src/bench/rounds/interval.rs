//! Confidence interval of a median from order statistics: no assumption about the distribution.
//!
//! The k-th smallest and the k-th largest of n independent values enclose the median of their distribution unless fewer
//! than k of them fall on one side of it. Their number on a side has the binomial distribution with p = 1/2, so the
//! coverage is exact and needs no table (Conover, *Practical Nonparametric Statistics*, section 3.2).

use anyhow::{Result, ensure};

/// Least coverage of an interval.
const COVERAGE_MIN: f64 = 0.95;
/// Fewest values with such an interval: of five, smallest and largest cover 93.75 %.
pub(in crate::bench) const VALUES_MIN: usize = 6;
/// Most values; beyond, powers of 1/2 leave the range of `f64`.
pub(in crate::bench) const VALUES_MAX: usize = 1000;

/// A median and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::bench) struct Interval {
    pub(in crate::bench) low: f64,
    pub(in crate::bench) median: f64,
    pub(in crate::bench) high: f64,
}

impl Interval {
    /// Interval of the median of `values`, with a coverage of 95 % or the next that their number allows.
    pub(in crate::bench) fn of(values: impl Iterator<Item = f64>) -> Result<Interval> {
        let mut sorted: Vec<f64> = values.collect();
        let count = sorted.len();
        ensure!(
            (VALUES_MIN..=VALUES_MAX).contains(&count),
            "an interval of {count} values, expected {VALUES_MIN} to {VALUES_MAX}"
        );
        sorted.sort_by(f64::total_cmp);
        let (rank, _) = rank(count);
        let median = f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]);
        Ok(Interval { low: sorted[rank - 1], median, high: sorted[count - rank] })
    }

    /// The figures with `digits` decimals: `median (low..high)`.
    pub(in crate::bench) fn text(&self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$}..{:.digits$})", self.median, self.low, self.high)
    }
}

/// Rank from either end, counted from 1, of the narrowest interval of `count` values, and its coverage.
pub(in crate::bench) fn rank(count: usize) -> (usize, f64) {
    // P(exactly i of them below the median), then P(at most i).
    let mut exactly = 0.5_f64.powi(count as i32);
    let mut at_most = exactly;
    let (mut rank, mut coverage) = (1, 1.0 - 2.0 * at_most);
    while rank < count {
        exactly *= (count + 1 - rank) as f64 / rank as f64;
        at_most += exactly;
        if 1.0 - 2.0 * at_most < COVERAGE_MIN {
            break;
        }
        rank += 1;
        coverage = 1.0 - 2.0 * at_most;
    }
    (rank, coverage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_coverages_are_those_of_the_tables() {
        // Values, rank from either end, coverage in percent.
        for (count, expected, percent) in [
            (6, 1, 96.875),
            (8, 1, 99.219),
            (9, 2, 96.094),
            (15, 4, 96.484),
            (20, 6, 95.861),
            (25, 8, 95.671),
        ] {
            let (rank, coverage) = rank(count);
            assert_eq!(rank, expected, "{count} values");
            assert!((coverage * 100.0 - percent).abs() < 0.001, "{count} values: {coverage}");
        }
    }

    #[test]
    fn of_fifteen_the_fourth_and_the_twelfth() -> Result<()> {
        let values = [9, 3, 15, 1, 12, 6, 8, 2, 14, 4, 11, 5, 10, 7, 13];
        let interval = Interval::of(values.into_iter().map(f64::from))?;
        assert_eq!(interval, Interval { low: 4.0, median: 8.0, high: 12.0 });
        assert_eq!(interval.text(1), "8.0 (4.0..12.0)");
        Ok(())
    }

    #[test]
    fn of_six_the_smallest_and_the_largest() -> Result<()> {
        let interval = Interval::of([4.0, 1.0, 6.0, 2.0, 3.0, 5.0].into_iter())?;
        assert_eq!(interval, Interval { low: 1.0, median: 3.5, high: 6.0 });
        Ok(())
    }

    #[test]
    fn five_values_and_a_thousand_and_one_are_refused() {
        assert!(Interval::of([1.0; 5].into_iter()).is_err());
        assert!(Interval::of([1.0; 1000].into_iter()).is_ok());
        assert!(Interval::of([1.0; 1001].into_iter()).is_err());
    }

    #[test]
    fn the_median_lies_inside_as_often_as_promised() -> Result<()> {
        let mut state = 1_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        // The share's standard deviation is 0.0013; the seed is fixed.
        let tries = 20_000;
        let mut inside = 0;
        for _ in 0..tries {
            // Skewed, so that an interval around a mean would fail; its median is 1/8.
            let interval = Interval::of(std::iter::repeat_with(|| uniform().powi(3)).take(15))?;
            inside += u32::from(interval.low <= 0.125 && 0.125 <= interval.high);
        }
        let share = f64::from(inside) / f64::from(tries);
        assert!((share - 0.9648).abs() < 0.006, "{share}");
        Ok(())
    }
}
