//! Propagation: the same delay for every packet, without a limit on those under way.

use core::time::Duration;
use std::collections::VecDeque;

use event::Instant;

use crate::{Dropped, Packet, Stage};

/// A constant delay. The number of packets under way is unlimited.
#[derive(Debug)]
pub struct Propagation {
    delay: Duration,
    under_way: VecDeque<(Instant, Packet)>,
}

impl Propagation {
    /// Each packet arrives `delay` after it left.
    pub const fn new(delay: Duration) -> Propagation {
        Propagation { delay, under_way: VecDeque::new() }
    }
}

impl Stage for Propagation {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        self.under_way.push_back((now + self.delay, packet));
        Ok(())
    }

    fn next_at(&self) -> Option<Instant> {
        self.under_way.front().map(|(arrival, _)| *arrival)
    }

    fn pop(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        self.under_way.pop_front_if(|(arrival, _)| *arrival <= now)
    }

    fn shortest(&self) -> Duration {
        self.delay
    }
}
