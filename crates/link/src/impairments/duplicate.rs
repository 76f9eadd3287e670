//! Duplication: some packets arrive twice, the copy right behind the original.
//!
//! The last stage of a path: whoever keeps the bytes learns from [`Packet::again`] that they are needed once more,
//! and nothing can come between the two.

use std::collections::VecDeque;

use core::time::Duration;

use event::Instant;

use crate::{Dice, Dropped, Packet, Share, Stage};

/// Doubles packets by chance.
#[derive(Debug)]
pub struct Duplicate {
    share: Share,
    dice: Dice,
    leaving: VecDeque<(Instant, Packet)>,
}

impl Duplicate {
    /// Doubles `share` of the packets.
    pub const fn new(share: Share, dice: Dice) -> Duplicate {
        Duplicate { share, dice, leaving: VecDeque::new() }
    }
}

impl Stage for Duplicate {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        if self.dice.hits(packet.number, self.share) {
            self.leaving.push_back((now, Packet { again: true, ..packet }));
        }
        self.leaving.push_back((now, packet));
        Ok(())
    }

    fn next_at(&self) -> Option<Instant> {
        self.leaving.front().map(|(left, _)| *left)
    }

    fn pop(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        self.leaving.pop_front_if(|(left, _)| *left <= now)
    }

    fn shortest(&self) -> Duration {
        Duration::ZERO
    }
}
