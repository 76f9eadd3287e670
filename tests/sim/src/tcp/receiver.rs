//! The receiver: cumulative acknowledgements, SACK (RFC 2018), DSACK (RFC 2883), delayed acknowledgements, and SACKs that
//! Linux compresses (`__tcp_ack_snd_check` in net/ipv4/tcp_input.c).

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use event::Instant;

use super::ranges::Ranges;

/// Blocks that fit beside timestamps.
const BLOCKS: usize = 3;
/// Linux's shortest delay of an acknowledgement.
const DELAY: Duration = Duration::from_millis(40);
/// SACKs that go out at once after each progress, as duplicate acknowledgements (TCP_FASTRETRANS_THRESH).
const PROMPT_SACKS: u32 = 3;
/// SACKs that are compressed into one at most, and for how long (net.ipv4.tcp_comp_sack_nr, tcp_comp_sack_delay_ns): a
/// twentieth of the round trip, a millisecond at most.
const COMPRESSED_SACKS: u32 = 44;
const COMPRESSED_FOR: Duration = Duration::from_millis(1);
const COMPRESSED_PARTS: u32 = 20;
/// Blocks beside which a further one is reported at once (TCP_SACK_BLOCKS_EXPECTED).
const BLOCKS_EXPECTED: usize = 2;
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
    /// One number of each block, the latest first.
    recent: VecDeque<u64>,
    unacknowledged: u32,
    delayed_until: Option<Instant>,
    /// SACKs since the last progress that went out at once, and those that wait in one.
    prompt_sacks: u32,
    compressed_sacks: u32,
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
            // One of each block.
            let block = self.ahead.around(seq).unwrap_or(seq..seq + 1);
            let place = self.recent.iter().position(|recent| block.contains(recent));
            let is_crowded =
                self.recent.len() >= BLOCKS_EXPECTED && place.is_none_or(|place| place >= BLOCKS_EXPECTED);
            self.recent.retain(|recent| !block.contains(recent));
            self.recent.push_front(seq);
            self.recent.truncate(RECENT);
            if is_crowded {
                return Some(self.acknowledge(None));
            }
            return self.compress(now, sent_at);
        }
        if self.unacknowledged == 0 {
            self.echo = sent_at;
        }
        self.next += 1;
        if let Some(joined) = self.ahead.around(self.next) {
            self.next = joined.end;
        }
        self.ahead.remove_below(self.next);
        self.prompt_sacks = 0;
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

    /// A packet beyond a gap has come: returns the acknowledgement, unless it waits for further ones.
    fn compress(&mut self, now: Instant, sent_at: Instant) -> Option<Ack> {
        if self.prompt_sacks < PROMPT_SACKS {
            self.prompt_sacks += 1;
            return Some(self.acknowledge(None));
        }
        self.compressed_sacks += 1;
        if self.compressed_sacks >= COMPRESSED_SACKS {
            return Some(self.acknowledge(None));
        }
        let rtt = now.since(sent_at) * 2;
        let due = now + COMPRESSED_FOR.min(rtt / COMPRESSED_PARTS);
        self.delayed_until = Some(self.delayed_until.map_or(due, |until| until.min(due)));
        None
    }

    fn acknowledge(&mut self, duplicate: Option<u64>) -> Ack {
        (self.unacknowledged, self.delayed_until, self.compressed_sacks) = (0, None, 0);
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
        for seq in [4, 6, 8] {
            last = receiver.take(now, seq, now).expect("a gap");
        }
        assert_eq!((last.next, last.blocks), (2, vec![8..9, 6..7, 4..5]));
        let again = receiver.take(now, 4, now).expect("a duplicate");
        assert_eq!((again.duplicate, again.blocks), (Some(4), vec![8..9, 6..7]));
        assert_eq!(receiver.take(now, 3, now).map(|ack| ack.blocks), Some(vec![3..5, 8..9, 6..7]));
        assert_eq!(receiver.take(now, 2, now).map(|ack| ack.next), Some(5));
        assert_eq!((receiver.take(now, 5, now).map(|ack| ack.next), receiver.next()), (Some(7), 7));
    }

    #[test]
    fn sacks_are_compressed_after_three() {
        let mut receiver = Receiver::default();
        let (sent_at, now) = (Instant::ZERO, Instant::ZERO + Duration::from_millis(50));
        let prompt = (1..=40).filter(|seq| receiver.take(now, *seq, sent_at).is_some()).count();
        assert_eq!((prompt, receiver.due_at()), (3, Some(now + Duration::from_millis(1))));
        let blocks = receiver.due(now + Duration::from_millis(1)).map(|ack| ack.blocks);
        assert_eq!(blocks.as_deref(), Some(std::slice::from_ref(&(1..41))));
        let prompt = (41..=88).filter(|seq| receiver.take(now, *seq, sent_at).is_some()).count();
        assert_eq!(prompt, 1, "the 44th does not wait");
        let near = Instant::ZERO + Duration::from_millis(5);
        let mut receiver = Receiver::default();
        (1..=4).for_each(|seq| drop(receiver.take(near, seq, sent_at)));
        assert_eq!(receiver.due_at(), Some(near + Duration::from_micros(500)));
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
