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
    /// Serialised packets that were not popped yet, with the end of their serialisation.
    left: VecDeque<(Instant, Packet)>,
}

impl Bottleneck {
    /// A wire of `rate` behind a queue that holds up to `limit`.
    pub fn new(rate: BitRate, limit: Limit) -> Bottleneck {
        Bottleneck { queue: DropTail::new(limit), wire: Serialiser::new(rate), left: VecDeque::new() }
    }

    /// Bytes on the wire of the packets that wait.
    pub const fn waiting_bytes(&self) -> u64 {
        self.queue.waiting_bytes()
    }

    /// End of the serialisation in progress; `None` while the wire is idle.
    pub fn busy_until(&self) -> Option<Instant> {
        self.wire.done_at()
    }

    /// Departure of the next packet to pop, if it lies at or before `now`.
    pub(crate) fn left_at(&mut self, now: Instant) -> Option<Instant> {
        self.advance(now);
        self.left.front().map(|(done, _)| *done)
    }

    /// Starts the next packet at the end of the last one, not at the time of the call.
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
