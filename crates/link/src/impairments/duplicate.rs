//! Duplication: some packets arrive twice, the copy right behind the original.
//!
//! Last stage of a path: [`Packet::again`] tells the owner of the bytes to keep them for the copy, and no other
//! packet comes between the two.

use std::collections::VecDeque;

use core::time::Duration;

use event::Instant;

use crate::{Dice, Dropped, Packet, Share, Stage};

/// Duplicates packets at random.
#[derive(Debug)]
pub struct Duplicate {
    share: Share,
    dice: Dice,
    leaving: VecDeque<(Instant, Packet)>,
}

impl Duplicate {
    /// Duplicates `share` of the packets.
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
