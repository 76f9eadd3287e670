//! Holes in a direction's sequence space: ranges that no packet of the capture has carried yet.

use std::collections::VecDeque;

use crate::tcp::ranges::{RANGES_HELD, RANGES_MAX, Ranges};

/// Holes of a direction. A new hole lies above all known ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holes {
    ranges: Ranges,
    /// End of each hole when it was detected, and the time of detection in ns.
    since: VecDeque<(u64, u64)>,
}

/// Heap memory of the holes in bytes; a queue may be half empty.
pub(crate) const HOLES_HELD: usize = RANGES_HELD + 2 * RANGES_MAX * size_of::<(u64, u64)>();

impl Holes {
    /// Adds a hole, detected at `t_ns`.
    pub(super) fn add(&mut self, start: u64, end: u64, t_ns: u64) {
        self.ranges.add(start, end);
        if self.since.len() < RANGES_MAX {
            self.since.push_back((end, t_ns));
        }
    }

    /// Fills a range; returns the time of detection of its first hole, if it had one.
    pub(super) fn fill(&mut self, start: u64, end: u64) -> Option<u64> {
        let first = self.since.partition_point(|(end, _)| *end <= start);
        let since = self.since.get(first).map(|(_, t_ns)| *t_ns);
        self.ranges.remove(start, end).then_some(since.unwrap_or(0))
    }

    /// Removes everything before `end`.
    pub(super) fn forget_before(&mut self, end: u64) {
        self.ranges.forget_before(end);
        while self.since.front().is_some_and(|(hole_end, _)| *hole_end <= end) {
            self.since.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hole_has_its_own_age() {
        let mut holes = Holes::default();
        holes.add(10, 20, 100);
        holes.add(40, 50, 200);
        assert_eq!(holes.fill(20, 40), None);
        assert_eq!(holes.fill(10, 15), Some(100));
        assert_eq!(holes.fill(10, 15), None, "it has come");
        assert_eq!(holes.fill(45, 50), Some(200));
        holes.forget_before(20);
        assert_eq!(holes.fill(15, 20), None);
        assert_eq!(holes.fill(40, 45), Some(200));
    }

    #[test]
    fn no_more_holes_have_an_age_than_memory_was_reserved_for() {
        let mut holes = Holes::default();
        (0..2 * RANGES_MAX as u64).for_each(|n| holes.add(20 * n, 20 * n + 10, n));
        assert_eq!(holes.since.len(), RANGES_MAX);
        assert_eq!(holes.fill(0, 10), Some(0), "the first ones are known");
    }
}
