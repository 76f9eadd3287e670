//! The receiver: cumulative acknowledgements, SACK (RFC 2018), DSACK (RFC 2883), delayed acknowledgements.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use event::Instant;

use super::ranges::Ranges;

/// Blocks that fit beside timestamps.
const BLOCKS: usize = 3;
/// Linux's shortest delay of an acknowledgement.
const DELAY: Duration = Duration::from_millis(40);
/// Blocks that may be reported again.
const RECENT: usize = 8;

/// An acknowledgement.
#[derive(Clone, Default, Debug)]
pub(crate) struct Ack {
    /// Every packet below has arrived.
    pub(crate) next: u64,
    /// Blocks above, the latest first.
    pub(crate) blocks: Vec<Range<u64>>,
    /// A packet that came twice.
    pub(crate) duplicate: Option<u64>,
    /// Timestamp echo (RFC 7323): when the packet was sent that came in order.
    pub(crate) echo: Instant,
}

/// The receiving end of a connection.
#[derive(Clone, Default, Debug)]
pub(crate) struct Receiver {
    next: u64,
    ahead: Ranges,
    /// Numbers that came out of order, the latest first.
    recent: VecDeque<u64>,
    unacknowledged: u32,
    delayed_until: Option<Instant>,
    echo: Instant,
}

impl Receiver {
    /// Packets that have arrived in order.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Time of the delayed acknowledgement.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.delayed_until
    }

    /// Takes a packet that was sent at `sent_at` and returns the acknowledgement that it causes.
    pub(crate) fn take(&mut self, now: Instant, seq: u64, sent_at: Instant) -> Option<Ack> {
        if seq < self.next || self.ahead.around(seq).is_some() {
            return Some(self.acknowledge(Some(seq)));
        }
        let had_gap = !self.ahead.is_empty();
        if seq > self.next {
            self.ahead.insert(seq..seq + 1, |_| {});
            self.recent.push_front(seq);
            self.recent.truncate(RECENT);
            return Some(self.acknowledge(None));
        }
        if self.unacknowledged == 0 {
            self.echo = sent_at;
        }
        self.next += 1;
        if let Some(joined) = self.ahead.around(self.next) {
            self.next = joined.end;
        }
        self.ahead.remove_below(self.next);
        self.unacknowledged += 1;
        if had_gap || self.unacknowledged >= 2 {
            return Some(self.acknowledge(None));
        }
        self.delayed_until = Some(now + DELAY);
        None
    }

    /// Returns the delayed acknowledgement if it is due.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Ack> {
        self.delayed_until.is_some_and(|due| due <= now).then(|| self.acknowledge(None))
    }

    fn acknowledge(&mut self, duplicate: Option<u64>) -> Ack {
        (self.unacknowledged, self.delayed_until) = (0, None);
        let most = BLOCKS - usize::from(duplicate.is_some());
        let mut blocks: Vec<Range<u64>> = Vec::new();
        if self.ahead.is_empty() {
            self.recent.clear();
        }
        for seq in &self.recent {
            if blocks.len() < most
                && let Some(block) = self.ahead.around(*seq)
                && !blocks.contains(&block)
            {
                blocks.push(block);
            }
        }
        Ack { next: self.next, blocks, duplicate, echo: self.echo }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_reported_at_once_and_the_latest_block_first() {
        let mut receiver = Receiver::default();
        let now = Instant::ZERO;
        assert!(receiver.take(now, 0, now).is_none(), "every second packet is acknowledged");
        assert_eq!(receiver.take(now, 1, now).map(|ack| ack.next), Some(2));
        let mut last = Ack::default();
        for seq in [3, 4, 6, 8, 10] {
            last = receiver.take(now, seq, now).expect("a gap");
        }
        assert_eq!((last.next, last.blocks), (2, vec![10..11, 8..9, 6..7]));
        let again = receiver.take(now, 4, now).expect("a duplicate");
        assert_eq!((again.duplicate, again.blocks), (Some(4), vec![10..11, 8..9]));
        assert_eq!(receiver.take(now, 2, now).map(|ack| ack.next), Some(5));
        assert_eq!((receiver.take(now, 5, now).map(|ack| ack.next), receiver.next()), (Some(7), 7));
    }

    #[test]
    fn a_lone_packet_is_acknowledged_late() {
        let mut receiver = Receiver::default();
        assert!(receiver.take(Instant::ZERO, 0, Instant::ZERO).is_none());
        let due = receiver.due_at().expect("one is owed");
        assert!(receiver.due(due - Duration::from_millis(1)).is_none());
        assert_eq!(receiver.due(due).map(|ack| ack.next), Some(1));
        assert!(receiver.due_at().is_none());
    }
}
