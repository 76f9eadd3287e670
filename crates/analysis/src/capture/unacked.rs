//! Segments that were sent and wait for their acknowledgement: how long it took, and when they were last sent.

use std::collections::VecDeque;

use super::budget::Budget;

/// New data of one direction that is not acknowledged, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Unacked {
    sent: VecDeque<Sent>,
    /// Bytes taken from the budget.
    held: usize,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    end: u64,
    t_ns: u64,
    /// When it was sent last.
    last_ns: u64,
    again: bool,
}

const SENT_LEN: usize = size_of::<Sent>();
/// Segments that there is room for once there is one.
const SENT_LEAST: usize = 64;
/// Segments of one retransmission that are looked at.
const MARKED_MAX: usize = 64;

impl Unacked {
    /// New data up to `end`; without room its round trip is not told.
    pub(super) fn push(&mut self, end: u64, t_ns: u64, budget: &Budget) {
        if self.sent.len() < self.sent.capacity() || self.grow(budget) {
            self.sent.push_back(Sent { end, t_ns, last_ns: t_ns, again: false });
        }
    }

    fn grow(&mut self, budget: &Budget) -> bool {
        let wanted = (self.sent.capacity() * 2).max(SENT_LEAST);
        let room = budget.settle(&mut self.held, wanted * SENT_LEN);
        if room {
            self.sent.reserve_exact(wanted - self.sent.len());
        }
        room
    }

    /// A burst is over: its room is for others.
    fn shrink(&mut self, budget: &Budget) {
        let capacity = self.sent.capacity();
        if capacity > 4 * SENT_LEAST && self.sent.len() < capacity / 8 {
            self.sent.shrink_to(capacity / 4);
            budget.settle(&mut self.held, self.sent.capacity() * SENT_LEN);
        }
    }

    /// Everything before `ack` has arrived. The time since the segment that ends there was sent, if it was sent once
    /// (Karn's rule).
    pub(super) fn acknowledge(&mut self, ack: u64, t_ns: u64, budget: &Budget) -> Option<u64> {
        let mut rtt_ns = None;
        while let Some(sent) = self.sent.front().filter(|sent| sent.end <= ack) {
            if sent.end == ack && !sent.again {
                rtt_ns = t_ns.checked_sub(sent.t_ns);
            }
            self.sent.pop_front();
        }
        self.shrink(budget);
        rtt_ns
    }

    /// A part is sent again; when it was sent last before, if it is known.
    pub(super) fn again(&mut self, start: u64, end: u64, t_ns: u64) -> Option<u64> {
        let first = self.sent.partition_point(|sent| sent.end <= start);
        let mut before = None;
        for sent in self.sent.iter_mut().skip(first).take(MARKED_MAX) {
            before = before.max(Some(sent.last_ns));
            (sent.again, sent.last_ns) = (true, t_ns);
            if sent.end >= end {
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
    fn only_what_was_sent_once_and_is_met_exactly_has_a_round_trip() {
        let (mut unacked, budget) = (Unacked::default(), Budget::new(1 << 20));
        for end in 1..=4 {
            unacked.push(end * 10, end, &budget);
        }
        assert_eq!(unacked.again(10, 20, 50), Some(2));
        assert_eq!(unacked.again(10, 20, 60), Some(50));
        assert_eq!(unacked.acknowledge(5, 100, &budget), None);
        assert_eq!(unacked.acknowledge(10, 100, &budget), Some(99));
        assert_eq!(unacked.acknowledge(20, 100, &budget), None);
        assert_eq!(unacked.acknowledge(35, 100, &budget), None);
        assert_eq!(unacked.acknowledge(40, 100, &budget), Some(96));
    }

    #[test]
    fn room_is_taken_and_given_back() {
        let (mut unacked, budget) = (Unacked::default(), Budget::new(16 * SENT_LEAST * SENT_LEN));
        for end in 1..=100_000 {
            unacked.push(end, end, &budget);
        }
        assert_eq!(unacked.sent.len(), 16 * SENT_LEAST, "the others found no room");
        unacked.acknowledge(15 * SENT_LEAST as u64, 0, &budget);
        assert!(budget.take(8 * SENT_LEAST * SENT_LEN), "what a burst took is given back");
    }
}
