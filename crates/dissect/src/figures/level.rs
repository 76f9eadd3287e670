//! Time-weighted mean and maximum of a level.

use serde::Serialize;

/// A level that changes stepwise.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level {
    now: u64,
    max: u64,
    since_ns: Option<u64>,
    length_ns: u64,
    /// Integral of the level over time, in level · ns.
    area: u128,
}

/// Mean and maximum of a level.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LevelSummary {
    /// Mean over time.
    pub mean: f64,
    /// Maximum.
    pub max: u64,
}

impl Level {
    /// Changes the level. A time before the last change counts as the time of that change.
    pub(crate) fn set(&mut self, t_ns: u64, level: u64) {
        let passed = t_ns.saturating_sub(self.since_ns.unwrap_or(t_ns));
        self.area += u128::from(self.now) * u128::from(passed);
        self.length_ns += passed;
        self.since_ns = Some(self.since_ns.map_or(t_ns, |since| since.max(t_ns)));
        self.now = level;
        self.max = self.max.max(level);
    }

    /// Leaves out the time between two moments, which nobody watched.
    pub(crate) fn skip(&mut self, from_ns: u64, to_ns: u64) {
        if self.since_ns.is_some() {
            self.set(from_ns, self.now);
            self.since_ns = self.since_ns.max(Some(to_ns));
        }
    }

    /// Present level.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Mean over `length_ns`, a part of the time outside of which the level was zero.
    pub(crate) fn mean_over(&self, length_ns: u64) -> f64 {
        if length_ns == 0 { self.now as f64 } else { self.area as f64 / length_ns as f64 }
    }

    /// Summary; `None` if the level was never set.
    pub(crate) fn summary(&self) -> Option<LevelSummary> {
        self.since_ns?;
        let mean =
            if self.length_ns == 0 { self.now as f64 } else { self.area as f64 / self.length_ns as f64 };
        Some(LevelSummary { mean, max: self.max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_is_over_time() {
        let mut level = Level::default();
        assert_eq!(level.summary(), None);
        level.set(100, 4);
        level.set(110, 1);
        level.set(105, 0);
        level.set(130, 0);
        let summary = level.summary().unwrap();
        assert_eq!((summary.max, summary.mean), (4, 4.0 / 3.0));
        assert_eq!(level.mean_over(10), 4.0);
        level.set(140, 2);
        level.skip(150, 9_000);
        level.set(9_010, 0);
        assert_eq!(level.summary().unwrap().mean, 80.0 / 60.0, "40 and 40 in 30 and 30 ns");
    }
}
