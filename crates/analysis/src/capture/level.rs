//! A level over time: how high it was on average and at most.

use serde::Serialize;

/// A level that changes at moments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    now: u64,
    max: u64,
    since_ns: Option<u64>,
    length_ns: u64,
    /// Level times nanoseconds.
    area: u128,
}

/// What is told of a level.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Heights {
    /// Over time.
    pub mean: f64,
    /// The highest.
    pub max: u64,
}

impl Level {
    /// Changes the level; a moment before the last one counts as the last one.
    pub(super) fn set(&mut self, t_ns: u64, level: u64) {
        let passed = t_ns.saturating_sub(self.since_ns.unwrap_or(t_ns));
        self.area += u128::from(self.now) * u128::from(passed);
        self.length_ns += passed;
        self.since_ns = Some(self.since_ns.map_or(t_ns, |since| since.max(t_ns)));
        self.now = level;
        self.max = self.max.max(level);
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Its mean if only so much of the time counts, in ns; it has to have been zero in the rest.
    pub(super) fn mean_over(&self, length_ns: u64) -> f64 {
        if length_ns == 0 { self.now as f64 } else { self.area as f64 / length_ns as f64 }
    }

    /// `None` if nothing ever happened.
    pub(super) fn heights(&self) -> Option<Heights> {
        self.since_ns?;
        let mean =
            if self.length_ns == 0 { self.now as f64 } else { self.area as f64 / self.length_ns as f64 };
        Some(Heights { mean, max: self.max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_is_over_time() {
        let mut level = Level::default();
        assert_eq!(level.heights(), None);
        level.set(100, 4);
        level.set(110, 1);
        level.set(105, 0);
        level.set(130, 0);
        let heights = level.heights().unwrap();
        assert_eq!((heights.max, heights.mean), (4, 4.0 / 3.0));
        assert_eq!(level.mean_over(10), 4.0);
    }
}
