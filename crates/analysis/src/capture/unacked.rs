//! Segments that were sent and wait for their acknowledgement: how long it took, and when they were last sent.

use std::collections::VecDeque;

use super::budget::Budget;

/// New data of one direction that is not acknowledged, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Unacked {
    sent: VecDeque<Sent>,
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
/// Segments of one retransmission that are looked at.
const MARKED_MAX: usize = 64;

impl Unacked {
    /// New data up to `end`; without room its round trip is not told.
    pub(super) fn push(&mut self, end: u64, t_ns: u64, budget: &mut Budget) {
        if budget.take(SENT_LEN) {
            self.sent.push_back(Sent { end, t_ns, last_ns: t_ns, again: false });
        }
    }

    /// Everything before `ack` has arrived. The time since the segment that ends there was sent, if it was sent once
    /// (Karn's rule).
    pub(super) fn acknowledge(&mut self, ack: u64, t_ns: u64, budget: &mut Budget) -> Option<u64> {
        let mut rtt_ns = None;
        while let Some(sent) = self.sent.front().filter(|sent| sent.end <= ack) {
            if sent.end == ack && !sent.again {
                rtt_ns = t_ns.checked_sub(sent.t_ns);
            }
            self.sent.pop_front();
            budget.give(SENT_LEN);
        }
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
        let (mut unacked, mut budget) = (Unacked::default(), Budget::new(3 * SENT_LEN));
        for end in 1..=4 {
            unacked.push(end * 10, end, &mut budget);
        }
        assert_eq!(unacked.again(10, 20, 50), Some(2));
        assert_eq!(unacked.again(10, 20, 60), Some(50));
        assert_eq!(unacked.acknowledge(5, 100, &mut budget), None);
        assert_eq!(unacked.acknowledge(10, 100, &mut budget), Some(99));
        assert_eq!(unacked.acknowledge(20, 100, &mut budget), None);
        assert_eq!(unacked.acknowledge(35, 100, &mut budget), None, "the fourth found no room");
        assert!(budget.take(3 * SENT_LEN), "all room was given back");
    }
}
