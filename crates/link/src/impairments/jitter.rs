//! Jitter: a random extra delay for every packet, uniform from 0 to a maximum.
//!
//! A packet that would overtake its predecessor leaves together with it, as on a path whose delay varies with queues
//! elsewhere, unless reordering is enabled.

use core::time::Duration;

use event::Instant;

use super::departures::Departures;
use crate::{Dice, Dropped, Packet, Stage};

/// Distribution of the extra delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JitterModel {
    /// Largest extra delay; the mean is half of it.
    pub most: Duration,
    /// True if packets may overtake each other.
    pub overtaking: bool,
}

/// Delays packets at random.
#[derive(Debug)]
pub struct Jitter {
    model: JitterModel,
    dice: Dice,
    last: Instant,
    under_way: Departures,
}

impl Jitter {
    /// A stage without packets.
    pub fn new(model: JitterModel, dice: Dice) -> Jitter {
        Jitter { model, dice, last: Instant::ZERO, under_way: Departures::default() }
    }
}

impl Stage for Jitter {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        let extra_ns = self.model.most.as_nanos() as f64 * self.dice.fraction(packet.number);
        let mut due = now + Duration::from_nanos(extra_ns as u64);
        if !self.model.overtaking {
            due = due.max(self.last);
            self.last = due;
        }
        self.under_way.push(due, packet);
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
