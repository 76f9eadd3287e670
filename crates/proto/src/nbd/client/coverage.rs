//! Ranges of a read that have been answered.

use std::collections::BTreeMap;

/// Separate ranges of one read.
const RANGES_MAX: usize = 1 << 16;

/// Answered ranges, neighbours merged: beginning to end.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    ranges: BTreeMap<u32, u32>,
    bytes: u32,
}

impl Coverage {
    /// Adds a range that is not empty. Returns `None`, and adds nothing, if it overlaps another or there are too many.
    pub(super) fn add(&mut self, begin: u32, end: u32) -> Option<()> {
        let before = self.ranges.range(..end).next_back().map(|(begin, end)| (*begin, *end));
        if before.is_some_and(|(_, before_end)| before_end > begin) || self.ranges.len() >= RANGES_MAX {
            return None;
        }
        let merged_end = self.ranges.remove(&end).unwrap_or(end);
        let merged_begin =
            before.filter(|(_, before_end)| *before_end == begin).map_or(begin, |(first, _)| first);
        self.ranges.insert(merged_begin, merged_end);
        self.bytes += end - begin;
        Some(())
    }

    /// Bytes of all ranges.
    pub(super) fn bytes(&self) -> u32 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_merge_and_overlaps_are_refused() {
        let mut coverage = Coverage::default();
        for (begin, end) in [(10, 20), (30, 40), (0, 10), (20, 30)] {
            assert_eq!(coverage.add(begin, end), Some(()), "{begin}..{end}");
        }
        assert_eq!((coverage.ranges.len(), coverage.bytes()), (1, 40));
        for (begin, end) in [(0, 1), (39, 41), (5, 100), (0, 40), (39, 40)] {
            assert_eq!(coverage.add(begin, end), None, "{begin}..{end}");
        }
        assert_eq!((coverage.add(41, 50), coverage.bytes()), (Some(()), 49));
        assert_eq!(coverage.add(38, 45), None);
        assert_eq!(coverage.add(40, 41), Some(()));
        assert_eq!(coverage.ranges, BTreeMap::from([(0, 50)]));
    }
}
