//! Interrupt coalescing: a card that waits a little after a packet before it says that packets have come.
//!
//! The time counts from the first packet that waits (`rx-usecs` of ethtool: how long an interrupt is held back after a
//! packet arrives); all that came meanwhile is then seen at once. Groups so begin that time and a bit apart, the bit
//! being how long the next packet took to come, and they keep no clock ([`Tick`](crate::Tick) does).

use std::collections::VecDeque;

use core::time::Duration;

use event::Instant;

use crate::{Dropped, Packet, Stage};

/// Shows packets in groups.
#[derive(Debug)]
pub struct Coalesce {
    hold: Duration,
    /// When the last group is seen that has begun.
    seen_at: Instant,
    /// With the time at which each is seen.
    waiting: VecDeque<(Instant, Packet)>,
}

impl Coalesce {
    /// A card that waits for `hold` after the first packet.
    pub fn new(hold: Duration) -> Coalesce {
        assert!(!hold.is_zero(), "a card that waits takes time");
        Coalesce { hold, seen_at: Instant::ZERO, waiting: VecDeque::new() }
    }
}

impl Stage for Coalesce {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        // What comes at the very moment of the interrupt is too late for it.
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
