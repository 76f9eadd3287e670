//! Reordering: some packets are held back, so that later ones overtake them.

use core::time::Duration;

use event::Instant;

use super::departures::Departures;
use crate::{Dice, Dropped, Packet, Share, Stage};

/// Share and delay of reordered packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reordering {
    /// Share of packets that are held back.
    pub share: Share,
    /// Extra delay of these packets.
    pub hold: Duration,
}

/// Holds packets back by chance.
#[derive(Debug)]
pub struct Reorder {
    model: Reordering,
    dice: Dice,
    under_way: Departures,
}

impl Reorder {
    /// A part of the path where nothing is held back yet.
    pub fn new(model: Reordering, dice: Dice) -> Reorder {
        Reorder { model, dice, under_way: Departures::default() }
    }
}

impl Stage for Reorder {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        let held = self.dice.hits(packet.number, self.model.share);
        self.under_way.push(if held { now + self.model.hold } else { now }, packet);
        Ok(())
    }

    fn next_at(&self) -> Option<Instant> {
        self.under_way.next_at()
    }

    fn pop(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        self.under_way.pop(now)
    }

    fn shortest(&self) -> Duration {
        Duration::ZERO
    }
}
