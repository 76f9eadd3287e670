//! Histogram of durations with bins 3 % wide and exact extremes.

use serde::Serialize;

/// Bins of each power of two.
const STEPS: u64 = 32;
const BINS: usize = 44 * STEPS as usize;
/// Heap memory of a distribution, in bytes.
pub(crate) const DISTRIBUTION_HELD: usize = BINS * size_of::<u32>();

/// Histogram of values, mostly durations in ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distribution {
    /// Counts of values; empty until the first value.
    bins: Vec<u32>,
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

/// Summary of many durations, in seconds. Quantiles are accurate to 3 %.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Durations {
    /// Number of durations.
    pub count: u64,
    /// Minimum.
    pub min_s: f64,
    /// Median.
    pub p50_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
    /// Maximum.
    pub max_s: f64,
    /// Mean.
    pub mean_s: f64,
}

impl Distribution {
    pub(crate) fn add(&mut self, ns: u64) {
        self.add_many(ns, 1);
    }

    /// Adds the same value `times` times.
    pub(crate) fn add_many(&mut self, ns: u64, times: u64) {
        if times == 0 {
            return;
        }
        if self.bins.is_empty() {
            self.bins = vec![0; BINS];
            self.min_ns = u64::MAX;
        }
        let bin = &mut self.bins[bin_of(ns)];
        *bin = bin.saturating_add(u32::try_from(times).unwrap_or(u32::MAX));
        self.count += times;
        self.sum_ns += u128::from(ns) * u128::from(times);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Number of values.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Minimum in ns; `None` without a value.
    pub(crate) fn min_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min_ns)
    }

    /// Summary; `None` without a value.
    pub(crate) fn durations(&self) -> Option<Durations> {
        if self.count == 0 {
            return None;
        }
        Some(Durations {
            count: self.count,
            min_s: self.min_ns as f64 / 1e9,
            p50_s: self.quantile(0.5)? as f64 / 1e9,
            p99_s: self.quantile(0.99)? as f64 / 1e9,
            max_s: self.max_ns as f64 / 1e9,
            mean_s: self.sum_ns as f64 / self.count as f64 / 1e9,
        })
    }

    /// Quantile `share` of all values; `None` without a value.
    pub(crate) fn quantile(&self, share: f64) -> Option<u64> {
        let rank = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut below = 0;
        let found = self.bins.iter().position(|count| {
            below += u64::from(*count);
            below >= rank
        });
        (self.count > 0)
            .then(|| found.map_or(self.max_ns, |bin| middle_of(bin).clamp(self.min_ns, self.max_ns)))
    }

    /// Sum of the values from the bin of `least` upwards; accurate to 3 %.
    pub(crate) fn sum_from(&self, least: u64) -> u64 {
        let from = self.bins.iter().enumerate().skip(bin_of(least));
        from.map(|(bin, count)| middle_of(bin).saturating_mul(u64::from(*count))).fold(0, u64::saturating_add)
    }

    /// Share of the values from the bin of `least` upwards.
    pub(crate) fn share_from(&self, least: u64) -> f64 {
        let from = self.bins.iter().skip(bin_of(least)).map(|count| u64::from(*count)).sum::<u64>();
        if self.count == 0 { 0.0 } else { from as f64 / self.count as f64 }
    }
}

/// Bin of a value. Values below [`STEPS`] have a bin each, then every power of two has [`STEPS`] bins.
fn bin_of(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let power = u64::from(ns.ilog2() - STEPS.ilog2());
    let bin = (power + 1) * STEPS + (ns >> power) - STEPS;
    (bin as usize).min(BINS - 1)
}

fn middle_of(bin: usize) -> u64 {
    let bin = bin as u64;
    if bin < STEPS {
        return bin;
    }
    let power = bin / STEPS - 1;
    ((bin % STEPS + STEPS) << power) + ((1 << power) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_three_percent() {
        let mut distribution = Distribution::default();
        assert_eq!(distribution.durations(), None);
        for us in 1..=10_000 {
            distribution.add(us * 1_000);
        }
        let found = distribution.durations().unwrap();
        assert_eq!((found.count, found.min_s, found.max_s), (10_000, 1e-6, 0.01));
        assert!((found.p50_s / 0.005 - 1.0).abs() < 0.03, "{found:?}");
        assert!((found.p99_s / 0.0099 - 1.0).abs() < 0.03, "{found:?}");
        // A bin may begin 3 % below.
        assert!((distribution.sum_from(9_000_000) as f64 / 9.5e9 - 1.0).abs() < 0.1);
        assert!((distribution.share_from(9_000_000) - 0.1).abs() < 0.01);
        assert!((found.mean_s / 0.005_000_5 - 1.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn many_at_once_equal_many_one_by_one() {
        let (mut at_once, mut one_by_one) = (Distribution::default(), Distribution::default());
        at_once.add_many(7_000, 0);
        assert_eq!(at_once.durations(), None);
        at_once.add_many(7_000, 300);
        (0..300).for_each(|_| one_by_one.add(7_000));
        assert_eq!(at_once.durations(), one_by_one.durations());
    }

    #[test]
    fn every_value_has_a_bin_whose_middle_is_near() {
        for shift in 0..47 {
            for ns in [1_u64 << shift, (1 << shift) + 1, (3_u64 << shift) >> 1] {
                let middle = middle_of(bin_of(ns)) as f64;
                assert!((middle / ns as f64 - 1.0).abs() < 0.032, "{ns} {middle}");
            }
        }
        let mut distribution = Distribution::default();
        distribution.add(u64::MAX);
        assert!(distribution.durations().unwrap().p50_s > 1e9);
    }
}
