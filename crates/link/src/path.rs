//! One direction of a path: a bottleneck, then propagation.

use core::time::Duration;

use event::{BitRate, Instant};

use crate::{Bottleneck, Packet, Propagation, Stage, Then};

/// What a path is like, the same in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Propagation one way.
    pub delay: Duration,
    /// Rate of the bottleneck, in bits on the wire.
    pub rate: BitRate,
    /// Bytes on the wire that may wait for the bottleneck.
    pub queue_bytes: u64,
}

/// One direction of a path.
#[derive(Debug)]
pub struct Path {
    stages: Then<Bottleneck, Propagation>,
}

impl Shape {
    /// The round-trip time of a packet that never waits and takes no time on the wire.
    pub const fn base_rtt(&self) -> Duration {
        Duration::from_nanos(2 * self.delay.as_nanos() as u64)
    }

    /// Time that a full queue needs to drain.
    pub fn drain_time(&self) -> Duration {
        self.rate.time_for(self.queue_bytes)
    }

    /// The queue to take if none was named: one bandwidth-delay product of the round trip, at least 1 MB.
    pub fn usual_queue_bytes(delay: Duration, rate: BitRate) -> u64 {
        rate.bytes_in(2 * delay).max(1_000_000)
    }
}

impl Path {
    /// An empty path.
    pub fn new(shape: &Shape) -> Path {
        let bottleneck = Bottleneck::new(shape.rate, shape.queue_bytes);
        Path { stages: Then::new(bottleneck, Propagation::new(shape.delay)) }
    }

    /// Bytes on the wire of the packets that wait for the bottleneck.
    pub const fn waiting_bytes(&self) -> u64 {
        self.stages.first().waiting_bytes()
    }
}

impl Stage for Path {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Packet> {
        self.stages.push(now, packet)
    }

    fn next_at(&self) -> Option<Instant> {
        self.stages.next_at()
    }

    fn pop(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        self.stages.pop(now)
    }

    fn shortest(&self) -> Duration {
        self.stages.shortest()
    }
}
