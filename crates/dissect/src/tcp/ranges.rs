//! Sets of byte ranges of a stream: selectively acknowledged ones, missing ones.

/// Disjoint ranges in ascending order; their number is limited.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    ranges: Vec<(u64, u64)>,
}

/// Limit of ranges. The lowest are kept: the next retransmissions fill them.
pub(super) const RANGES_MAX: usize = 256;
/// Heap memory of a set in bytes; a vector may be half empty.
pub(crate) const RANGES_HELD: usize = 2 * RANGES_MAX * size_of::<(u64, u64)>();

impl Ranges {
    /// Adds a range and joins it with those it touches.
    pub(super) fn add(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let first = self.ranges.partition_point(|range| range.1 < start);
        let last = self.ranges.partition_point(|range| range.0 <= end);
        let joined = self.ranges[first..last].iter().fold((start, end), |a, b| (a.0.min(b.0), a.1.max(b.1)));
        self.ranges.splice(first..last, [joined]);
        self.ranges.truncate(RANGES_MAX);
    }

    /// Removes a range; true if any byte of it was present.
    pub(super) fn remove(&mut self, start: u64, end: u64) -> bool {
        let first = self.ranges.partition_point(|range| range.1 <= start);
        let last = self.ranges.partition_point(|range| range.0 < end);
        if first >= last || start >= end {
            return false;
        }
        let (low, high) = (self.ranges[first].0, self.ranges[last - 1].1);
        let rest = [(low, start), (end, high)].into_iter().filter(|range| range.0 < range.1);
        self.ranges.splice(first..last, rest.collect::<Vec<_>>());
        true
    }

    /// Removes everything before `end`.
    pub(super) fn forget_before(&mut self, end: u64) {
        self.remove(0, end);
    }

    /// Bytes of all ranges.
    pub(super) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.1 - range.0).sum()
    }

    /// Bytes of all ranges before `end`.
    pub(super) fn bytes_before(&self, end: u64) -> u64 {
        let before = self.ranges.iter().take_while(|range| range.0 < end);
        before.map(|range| range.1.min(end) - range.0).sum()
    }

    /// Highest end.
    pub(super) fn highest(&self) -> Option<u64> {
        self.ranges.last().map(|range| range.1)
    }

    /// True if one range contains all of `start` to `end`.
    pub(super) fn covers(&self, start: u64, end: u64) -> bool {
        self.ranges.iter().any(|range| range.0 <= start && end <= range.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_and_split() {
        let mut ranges = Ranges::default();
        for (start, end) in [(10, 20), (30, 40), (20, 25), (5, 5), (24, 31)] {
            ranges.add(start, end);
        }
        assert_eq!(ranges.ranges, [(10, 40)]);
        assert!(ranges.covers(12, 40) && !ranges.covers(9, 12));
        assert!(ranges.remove(15, 20) && !ranges.remove(16, 19));
        assert_eq!((ranges.bytes(), ranges.highest()), (25, Some(40)));
        assert_eq!([10, 12, 17, 25].map(|end| ranges.bytes_before(end)), [0, 2, 5, 10]);
        ranges.forget_before(30);
        assert_eq!(ranges.ranges, [(30, 40)]);
    }

    #[test]
    fn are_limited() {
        let mut ranges = Ranges::default();
        (0..10_000).for_each(|n| ranges.add(n * 2, n * 2 + 1));
        assert_eq!(ranges.ranges.len(), RANGES_MAX);
    }
}
