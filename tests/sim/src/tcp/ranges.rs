//! A set of sequence numbers, kept as ranges.

use std::collections::BTreeMap;

use core::ops::Range;

/// Disjoint ranges that do not touch each other.
#[derive(Clone, Default, Debug)]
pub(crate) struct Ranges {
    /// Start to end.
    ranges: BTreeMap<u64, u64>,
}

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the range that holds `seq`.
    pub(crate) fn around(&self, seq: u64) -> Option<Range<u64>> {
        let (start, end) = self.ranges.range(..=seq).next_back()?;
        (seq < *end).then_some(*start..*end)
    }

    /// One past the highest number.
    pub(crate) fn end(&self) -> Option<u64> {
        self.ranges.last_key_value().map(|(_, end)| *end)
    }

    /// Adds `range` and shows the parts that were missing to `missing`, in order.
    pub(crate) fn insert(&mut self, range: Range<u64>, mut missing: impl FnMut(Range<u64>)) {
        if range.is_empty() || self.around(range.start).is_some_and(|held| range.end <= held.end) {
            return;
        }
        let (mut start, mut end, mut at) = (range.start, range.end, range.start);
        // A range that ends where this one starts is joined.
        if let Some((before, its_end)) = self.ranges.range(..=range.start).next_back()
            && *its_end >= range.start
        {
            (start, at) = (*before, *its_end);
        }
        while let Some((&next, &its_end)) = self.ranges.range(start..=range.end).next() {
            if at < next {
                missing(at..next);
            }
            at = at.max(its_end);
            end = end.max(its_end);
            self.ranges.remove(&next);
        }
        if at < range.end {
            missing(at..range.end);
        }
        self.ranges.insert(start, end);
    }

    /// Removes all numbers below `seq`.
    pub(crate) fn remove_below(&mut self, seq: u64) {
        while let Some(entry) = self.ranges.first_entry() {
            if *entry.key() >= seq {
                break;
            }
            let (_, end) = entry.remove_entry();
            if end > seq {
                self.ranges.insert(seq, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_were_missing_are_shown_once() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut set = Ranges::default();
        let mut held = [false; 64];
        for _ in 0..2_000 {
            let start = rng.u64(0..60);
            let range = start..start + rng.u64(0..5);
            set.insert(range.clone(), |missing| {
                for seq in missing {
                    assert!(range.contains(&seq) && !held[seq as usize], "{seq} of {range:?}");
                    held[seq as usize] = true;
                }
            });
            if rng.u8(..) == 0 {
                set.remove_below(30);
                held[..30].fill(false);
            }
            for seq in 0..64 {
                assert_eq!(set.around(seq).is_some(), held[seq as usize], "{seq}");
            }
        }
        let mut ends: Vec<_> = set.ranges.iter().collect();
        ends.sort();
        assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0), "disjoint: {ends:?}");
    }
}
