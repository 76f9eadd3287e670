//! The bottleneck: a waiting queue in front of a serialiser, one for all hosts or one for each near host.

mod per_host;
mod queue;
mod serialiser;

use core::time::Duration;
use std::collections::VecDeque;

use event::{BitRate, Fate, Instant};

pub use per_host::Bottlenecks;
pub use queue::{DropTail, Limit};
pub use serialiser::Serialiser;

use crate::{Dropped, Packet, Stage};

/// Packets wait for the wire, or are dropped if too many wait already.
#[derive(Debug)]
pub struct Bottleneck {
    queue: DropTail,
    wire: Serialiser,
    /// Through the wire and not yet asked for.
    left: VecDeque<(Instant, Packet)>,
}

impl Bottleneck {
    /// A wire of `rate` behind a queue for what `limit` says.
    pub fn new(rate: BitRate, limit: Limit) -> Bottleneck {
        Bottleneck { queue: DropTail::new(limit), wire: Serialiser::new(rate), left: VecDeque::new() }
    }

    /// Bytes on the wire of the packets that wait.
    pub const fn waiting_bytes(&self) -> u64 {
        self.queue.waiting_bytes()
    }

    /// When the packet that is on the wire is through; `None` while the wire is idle.
    pub fn busy_until(&self) -> Option<Instant> {
        self.wire.done_at()
    }

    /// When the packet left that is to be asked for next, if it has by `now`.
    pub(crate) fn left_at(&mut self, now: Instant) -> Option<Instant> {
        self.advance(now);
        self.left.front().map(|(done, _)| *done)
    }

    /// The wire takes the next packet the moment it is free, not the moment somebody looks.
    fn advance(&mut self, now: Instant) {
        while let Some((done, packet)) = self.wire.finish(now) {
            self.left.push_back((done, packet));
            if let Some(next) = self.queue.pop() {
                self.wire.start(done, next);
            }
        }
    }
}

impl Stage for Bottleneck {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        self.advance(now);
        if self.wire.done_at().is_none() {
            self.wire.start(now, packet);
            return Ok(());
        }
        self.queue.push(packet).map_err(|packet| Dropped { packet, fate: Fate::QueueFull })
    }

    fn next_at(&self) -> Option<Instant> {
        self.left.front().map(|(done, _)| *done).or_else(|| self.wire.done_at())
    }

    fn pop(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        self.advance(now);
        self.left.pop_front()
    }

    fn shortest(&self) -> Duration {
        Duration::ZERO
    }
}
