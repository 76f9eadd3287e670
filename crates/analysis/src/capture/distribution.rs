//! Many durations in little memory: classes 3 % wide, extremes exact.

use serde::Serialize;

/// Classes of each power of two.
const STEPS: u64 = 32;
const CLASSES: usize = 44 * STEPS as usize;
/// Bytes that a distribution holds besides itself.
pub(super) const DISTRIBUTION_HELD: usize = CLASSES * size_of::<u32>();

/// Durations that come one by one.
#[derive(Clone, Debug, Default)]
pub(super) struct Distribution {
    /// Empty until the first value.
    classes: Vec<u32>,
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

/// What is told of many durations, in seconds. Quantiles are good to 3 %.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Durations {
    /// How many.
    pub count: u64,
    /// The shortest.
    pub min_s: f64,
    /// The middle one.
    pub p50_s: f64,
    /// One in a hundred is longer.
    pub p99_s: f64,
    /// The longest.
    pub max_s: f64,
    /// Their mean.
    pub mean_s: f64,
}

impl Distribution {
    pub(super) fn add(&mut self, ns: u64) {
        self.add_many(ns, 1);
    }

    /// The same value so many times.
    pub(super) fn add_many(&mut self, ns: u64, times: u64) {
        if times == 0 {
            return;
        }
        if self.classes.is_empty() {
            self.classes = vec![0; CLASSES];
            self.min_ns = u64::MAX;
        }
        let class = &mut self.classes[class_of(ns)];
        *class = class.saturating_add(u32::try_from(times).unwrap_or(u32::MAX));
        self.count += times;
        self.sum_ns += u128::from(ns) * u128::from(times);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    pub(super) fn min_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min_ns)
    }

    /// `None` if there was none.
    pub(super) fn durations(&self) -> Option<Durations> {
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

    /// The value that `share` of all are not above; `None` if there is none.
    pub(super) fn quantile(&self, share: f64) -> Option<u64> {
        let rank = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut below = 0;
        let found = self.classes.iter().position(|count| {
            below += u64::from(*count);
            below >= rank
        });
        (self.count > 0)
            .then(|| found.map_or(self.max_ns, |class| middle_of(class).clamp(self.min_ns, self.max_ns)))
    }

    /// Sum of the values that are as large as `least`, or in its class; good to 3 %.
    pub(super) fn sum_from(&self, least: u64) -> u64 {
        let from = self.classes.iter().enumerate().skip(class_of(least));
        from.map(|(class, count)| middle_of(class).saturating_mul(u64::from(*count)))
            .fold(0, u64::saturating_add)
    }

    /// Share of values that are as large as `least`, or in its class.
    pub(super) fn share_from(&self, least: u64) -> f64 {
        let from = self.classes.iter().skip(class_of(least)).map(|count| u64::from(*count)).sum::<u64>();
        if self.count == 0 { 0.0 } else { from as f64 / self.count as f64 }
    }
}

/// Values below [`STEPS`] have a class each, then every power of two has as many.
fn class_of(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let power = u64::from(ns.ilog2() - STEPS.ilog2());
    let class = (power + 1) * STEPS + (ns >> power) - STEPS;
    (class as usize).min(CLASSES - 1)
}

fn middle_of(class: usize) -> u64 {
    let class = class as u64;
    if class < STEPS {
        return class;
    }
    let power = class / STEPS - 1;
    ((class % STEPS + STEPS) << power) + ((1 << power) >> 1)
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
        // A class may begin 3 % below.
        assert!((distribution.sum_from(9_000_000) as f64 / 9.5e9 - 1.0).abs() < 0.1);
        assert!((distribution.share_from(9_000_000) - 0.1).abs() < 0.01);
        assert!((found.mean_s / 0.005_000_5 - 1.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn many_at_once_are_as_many_one_by_one() {
        let (mut at_once, mut one_by_one) = (Distribution::default(), Distribution::default());
        at_once.add_many(7_000, 0);
        assert_eq!(at_once.durations(), None);
        at_once.add_many(7_000, 300);
        (0..300).for_each(|_| one_by_one.add(7_000));
        assert_eq!(at_once.durations(), one_by_one.durations());
    }

    #[test]
    fn every_value_has_a_class_whose_middle_is_near() {
        for shift in 0..47 {
            for ns in [1_u64 << shift, (1 << shift) + 1, (3_u64 << shift) >> 1] {
                let middle = middle_of(class_of(ns)) as f64;
                assert!((middle / ns as f64 - 1.0).abs() < 0.032, "{ns} {middle}");
            }
        }
        let mut distribution = Distribution::default();
        distribution.add(u64::MAX);
        assert!(distribution.durations().unwrap().p50_s > 1e9);
    }
}
