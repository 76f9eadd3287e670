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
    /// Time of the last transmission, and of the one before.
    last_ns: u64,
    before_ns: u64,
    /// End of the last transmission, which may repeat a part; the next part belongs to it.
    last_end: u64,
    /// Payload of the last transmission.
    bytes: u32,
    /// Transmissions after the first one.
    repeats: u32,
}

/// The transmission that a retransmission repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PreviousTransmission {
    /// Its time in ns.
    pub(super) t_ns: u64,
    /// True for the first one.
    pub(super) is_first: bool,
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
            let (last_ns, before_ns) = (t_ns, t_ns);
            let segment = Unacknowledged { end, t_ns, last_ns, before_ns, last_end: end, bytes, repeats: 0 };
            self.segments.push_back(segment);
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
            if segment.end == ack && segment.repeats == 0 {
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
        self.segments.front().filter(|segment| segment.repeats > 0).map(|segment| segment.last_ns)
    }

    /// Marks a range as retransmitted at `t_ns`; returns its previous transmission, if known.
    pub(super) fn retransmit(&mut self, start: u64, end: u64, t_ns: u64) -> Option<PreviousTransmission> {
        let first = self.segments.partition_point(|segment| segment.end <= start);
        let mut before: Option<PreviousTransmission> = None;
        for segment in self.segments.iter_mut().skip(first).take(MARKED_MAX) {
            if segment.repeats == 0 || start < segment.last_end {
                segment.before_ns = segment.last_ns;
                segment.repeats = segment.repeats.saturating_add(1);
            }
            let found = PreviousTransmission { t_ns: segment.before_ns, is_first: segment.repeats == 1 };
            before = before.filter(|known| known.t_ns > found.t_ns).or(Some(found));
            (segment.last_ns, segment.last_end) = (t_ns, end);
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
        assert_eq!(unacked.retransmit(10, 20, 50), Some(PreviousTransmission { t_ns: 2, is_first: true }));
        assert_eq!(unacked.retransmit(10, 20, 60), Some(PreviousTransmission { t_ns: 50, is_first: false }));
        assert_eq!(unacked.acknowledge(5, 100, &budget).rtt_ns, None);
        assert_eq!(unacked.acknowledge(10, 100, &budget).rtt_ns, Some(99));
        assert_eq!(unacked.acknowledge(20, 100, &budget).rtt_ns, None);
        assert_eq!(unacked.acknowledge(35, 100, &budget).rtt_ns, None);
        assert_eq!(unacked.acknowledge(40, 100, &budget).rtt_ns, Some(96));
    }

    #[test]
    fn parts_of_a_segment_repeat_its_first_transmission() {
        let (mut unacked, budget) = (Unacked::default(), MemoryBudget::new(1 << 20));
        unacked.push(100, 100, 7, &budget);
        for (n, start) in (0..100).step_by(20).enumerate() {
            let before = unacked.retransmit(start, start + 20, 50 + n as u64);
            assert_eq!(before, Some(PreviousTransmission { t_ns: 7, is_first: true }), "{start}");
        }
        let before = unacked.retransmit(0, 100, 90);
        assert_eq!(before, Some(PreviousTransmission { t_ns: 54, is_first: false }));
    }

    #[test]
    fn memory_is_reserved_and_released() {
        let (mut unacked, budget) = (Unacked::default(), MemoryBudget::new(16 * CAPACITY_MIN * SEGMENT_LEN));
        for end in 1..=100_000 {
            unacked.push(end, 1, end, &budget);
        }
        assert_eq!(unacked.segments.len(), 16 * CAPACITY_MIN, "the others found no room");
        unacked.acknowledge(15 * CAPACITY_MIN as u64, 0, &budget);
        // Room for a quarter of the burst stays reserved.
        assert!(budget.reserve(12 * CAPACITY_MIN * SEGMENT_LEN), "what a burst took is given back");
        assert!(!budget.reserve(1), "what is still allocated is not given back");
    }
}
