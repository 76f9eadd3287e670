//! Packets by departure time, which may differ from their order of arrival.

use std::collections::BinaryHeap;

use core::cmp::{Ordering, Reverse};

use event::Instant;

use crate::Packet;

/// Packets by departure time; those of one instant leave in their order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    waiting: BinaryHeap<Reverse<Departure>>,
    came: u64,
}

#[derive(Debug)]
struct Departure {
    due: Instant,
    turn: u64,
    packet: Packet,
}

impl Departures {
    pub(crate) fn push(&mut self, due: Instant, packet: Packet) {
        self.came += 1;
        self.waiting.push(Reverse(Departure { due, turn: self.came, packet }));
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.waiting.peek().map(|Reverse(first)| first.due)
    }

    pub(crate) fn pop(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        self.next_at().filter(|due| *due <= now)?;
        self.waiting.pop().map(|Reverse(first)| (first.due, first.packet))
    }
}

impl Ord for Departure {
    fn cmp(&self, other: &Departure) -> Ordering {
        (self.due, self.turn).cmp(&(other.due, other.turn))
    }
}

impl PartialOrd for Departure {
    fn partial_cmp(&self, other: &Departure) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Departure {
    fn eq(&self, other: &Departure) -> bool {
        self.turn == other.turn
    }
}

impl Eq for Departure {}
