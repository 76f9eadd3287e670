//! Unacknowledged segments of a direction: round-trip samples and the time of the last transmission.

use std::collections::VecDeque;

use crate::budget::MemoryBudget;

/// Unacknowledged segments in the order of their sequence numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Unacked {
    segments: VecDeque<Unacknowledged>,
    /// Bytes reserved of the budget.
    held: usize,
}

/// Segments that an acknowledgement removes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Acknowledged {
    /// Round trip in ns of the segment that ends there, if it was sent once (Karn's algorithm).
    pub(super) rtt_ns: Option<u64>,
    /// Payload of the largest one in bytes.
    pub(super) largest_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Unacknowledged {
    end: u64,
    /// Time of the first transmission.
    t_ns: u64,
    /// Time of the last transmission.
    last_ns: u64,
    /// Payload of the last transmission.
    bytes: u32,
    retransmitted: bool,
}

const SEGMENT_LEN: usize = size_of::<Unacknowledged>();
/// Initial capacity, in segments.
const CAPACITY_MIN: usize = 64;
/// Limit of segments that one retransmission marks.
const MARKED_MAX: usize = 64;

impl Unacked {
    /// Adds a segment with new data up to `end`; without memory it yields no round-trip sample.
    pub(super) fn push(&mut self, end: u64, bytes: u32, t_ns: u64, budget: &MemoryBudget) {
        if self.segments.len() < self.segments.capacity() || self.grow(budget) {
            self.segments.push_back(Unacknowledged { end, t_ns, last_ns: t_ns, bytes, retransmitted: false });
        }
    }

    fn grow(&mut self, budget: &MemoryBudget) -> bool {
        let wanted = (self.segments.capacity() * 2).max(CAPACITY_MIN);
        let fits = budget.resize(&mut self.held, wanted * SEGMENT_LEN);
        if fits {
            self.segments.reserve_exact(wanted - self.segments.len());
        }
        fits
    }

    /// Returns the memory of a burst that is over.
    fn shrink(&mut self, budget: &MemoryBudget) {
        let capacity = self.segments.capacity();
        if capacity > 4 * CAPACITY_MIN && self.segments.len() < capacity / 8 {
            self.segments.shrink_to(capacity / 4);
            budget.resize(&mut self.held, self.segments.capacity() * SEGMENT_LEN);
        }
    }

    /// Removes everything before `ack`.
    pub(super) fn acknowledge(&mut self, ack: u64, t_ns: u64, budget: &MemoryBudget) -> Acknowledged {
        let mut acknowledged = Acknowledged::default();
        while let Some(segment) = self.segments.front().filter(|segment| segment.end <= ack) {
            if segment.end == ack && !segment.retransmitted {
                acknowledged.rtt_ns = t_ns.checked_sub(segment.t_ns);
            }
            let bytes = u64::from(segment.bytes);
            acknowledged.largest_bytes = acknowledged.largest_bytes.max(bytes);
            self.segments.pop_front();
        }
        self.shrink(budget);
        acknowledged
    }

    /// Time of the last transmission of the first unacknowledged segment in ns, if it was sent more than once.
    pub(super) fn first_retransmitted_ns(&self) -> Option<u64> {
        self.segments.front().filter(|segment| segment.retransmitted).map(|segment| segment.last_ns)
    }

    /// Marks a range as retransmitted at `t_ns`; returns the time of its previous transmission, if known.
    pub(super) fn retransmit(&mut self, start: u64, end: u64, t_ns: u64) -> Option<u64> {
        let first = self.segments.partition_point(|segment| segment.end <= start);
        let mut before = None;
        for segment in self.segments.iter_mut().skip(first).take(MARKED_MAX) {
            before = before.max(Some(segment.last_ns));
            (segment.retransmitted, segment.last_ns) = (true, t_ns);
            segment.bytes = segment.bytes.min(end.saturating_sub(start) as u32);
            if segment.end >= end {
                break;
            }
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_segment_sent_once_and_acknowledged_exactly_has_a_round_trip() {
        let (mut unacked, budget) = (Unacked::default(), MemoryBudget::new(1 << 20));
        for end in 1..=4 {
            unacked.push(end * 10, 10, end, &budget);
        }
        assert_eq!(unacked.retransmit(10, 20, 50), Some(2));
        assert_eq!(unacked.retransmit(10, 20, 60), Some(50));
        assert_eq!(unacked.acknowledge(5, 100, &budget).rtt_ns, None);
        assert_eq!(unacked.acknowledge(10, 100, &budget).rtt_ns, Some(99));
        assert_eq!(unacked.acknowledge(20, 100, &budget).rtt_ns, None);
        assert_eq!(unacked.acknowledge(35, 100, &budget).rtt_ns, None);
        assert_eq!(unacked.acknowledge(40, 100, &budget).rtt_ns, Some(96));
    }

    #[test]
    fn memory_is_reserved_and_released() {
        let (mut unacked, budget) = (Unacked::default(), MemoryBudget::new(16 * CAPACITY_MIN * SEGMENT_LEN));
        for end in 1..=100_000 {
            unacked.push(end, 1, end, &budget);
        }
        assert_eq!(unacked.segments.len(), 16 * CAPACITY_MIN, "the others found no room");
        unacked.acknowledge(15 * CAPACITY_MIN as u64, 0, &budget);
        assert!(budget.reserve(8 * CAPACITY_MIN * SEGMENT_LEN), "what a burst took is given back");
    }
}
