//! The interface of all stages, and two of them in series.

use core::time::Duration;

use event::{Fate, Instant};

use crate::Packet;

/// A packet that was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// The packet, so that its owner can free the bytes.
    pub packet: Packet,
    /// Reason of the drop.
    pub fate: Fate,
}

/// A part of a path that packets go through. Times given to one stage never run backwards.
pub trait Stage {
    /// Takes a packet at `now`, or hands it back: the stage dropped it.
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped>;

    /// Departure of the next packet, or an earlier instant at which to call again; `None` while it is empty.
    fn next_at(&self) -> Option<Instant>;

    /// The next packet that has left by `now`, with the instant at which it left.
    fn pop(&mut self, now: Instant) -> Option<(Instant, Packet)>;

    /// Smallest crossing time. A caller of several stages need not wake for the inner ones before it has passed.
    fn shortest(&self) -> Duration;
}

/// Two stages in series: a packet that leaves `first` enters `second` at that instant.
///
/// `second` must never drop: its caller cannot report it. Stages that drop come first.
#[derive(Debug)]
pub struct Then<A, B> {
    first: A,
    second: B,
}

impl<A: Stage, B: Stage> Then<A, B> {
    /// `first`, then `second`.
    pub const fn new(first: A, second: B) -> Then<A, B> {
        Then { first, second }
    }

    /// The stage that packets enter.
    pub const fn first(&self) -> &A {
        &self.first
    }

    fn hand_over(&mut self, now: Instant) {
        while let Some((left, packet)) = self.first.pop(now) {
            let taken = self.second.push(left, packet);
            assert!(taken.is_ok(), "a stage behind another one dropped a packet");
        }
    }
}

impl<A: Stage, B: Stage> Stage for Then<A, B> {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        self.first.push(now, packet)
    }

    fn next_at(&self) -> Option<Instant> {
        let through_both = self.first.next_at().map(|left| left + self.second.shortest());
        match (self.second.next_at(), through_both) {
            (Some(inside), Some(coming)) => Some(inside.min(coming)),
            (inside, coming) => inside.or(coming),
        }
    }

    fn pop(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        self.hand_over(now);
        self.second.pop(now)
    }

    fn shortest(&self) -> Duration {
        self.first.shortest() + self.second.shortest()
    }
}

/// A stage chosen at run time.
impl<S: Stage + ?Sized> Stage for Box<S> {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        (**self).push(now, packet)
    }

    fn next_at(&self) -> Option<Instant> {
        (**self).next_at()
    }

    fn pop(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        (**self).pop(now)
    }

    fn shortest(&self) -> Duration {
        (**self).shortest()
    }
}
