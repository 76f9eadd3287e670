//! Interrupt coalescing: the receiving card delays the interrupt after a packet and then delivers several at once.
//!
//! The hold time counts from the first waiting packet (`rx-usecs` of ethtool); all that arrive meanwhile are
//! delivered with it. Groups therefore begin one hold time plus the gap to the next packet apart and follow no clock
//! ([`Tick`](crate::Tick) does).

use std::collections::VecDeque;

use core::time::Duration;

use event::Instant;

use crate::{Dropped, Packet, Stage};

/// Delivers packets in groups.
#[derive(Debug)]
pub struct Coalesce {
    hold: Duration,
    /// Delivery time of the last group.
    seen_at: Instant,
    /// Packets with their delivery times.
    waiting: VecDeque<(Instant, Packet)>,
}

impl Coalesce {
    /// A card that delays the interrupt by `hold` after the first packet.
    pub fn new(hold: Duration) -> Coalesce {
        assert!(!hold.is_zero(), "a card that waits takes time");
        Coalesce { hold, seen_at: Instant::ZERO, waiting: VecDeque::new() }
    }
}

impl Stage for Coalesce {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        // A packet that arrives at the instant of the interrupt belongs to the next group.
        if now >= self.seen_at {
            self.seen_at = now + self.hold;
        }
        self.waiting.push_back((self.seen_at, packet));
        Ok(())
    }

    fn next_at(&self) -> Option<Instant> {
        self.waiting.front().map(|(seen, _)| *seen)
    }

    fn pop(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        self.waiting.pop_front_if(|(seen, _)| *seen <= now)
    }

    fn shortest(&self) -> Duration {
        // The last packet of a group need not wait.
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Handle;

    #[test]
    fn a_group_is_seen_so_long_after_its_first_packet() {
        let mut coalesce = Coalesce::new(Duration::from_micros(100));
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        for us in [10, 60, 109, 110, 150, 500] {
            coalesce
                .push(at(us), Packet::new(Handle(us), at(us), 1500, 1538, 1))
                .expect("no stage drops here");
        }
        assert_eq!((coalesce.next_at(), coalesce.pop(at(109))), (Some(at(110)), None));
        let seen: Vec<_> = std::iter::from_fn(|| coalesce.pop(at(1_000))).map(|(seen, _)| seen).collect();
        assert_eq!(seen, [at(110), at(110), at(110), at(210), at(210), at(600)]);
    }
}
