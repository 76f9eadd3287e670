//! What one direction of a path is like.

use core::time::Duration;

use event::BitRate;

use crate::{JitterModel, Limit, LossModel, Outage, Reordering, Share};

/// The line that every path has: delay, rate and waiting queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Propagation one way.
    pub delay: Duration,
    /// Rate of the bottleneck, in bits on the wire.
    pub rate: BitRate,
    /// Bytes on the wire that may wait for the bottleneck.
    pub queue_bytes: u64,
}

/// One direction of a path: its shape and what happens on it to packets.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Delay, rate and queue.
    pub shape: Shape,
    /// The queue holds so many packets instead of `queue_bytes`, which is then what they take at most.
    pub queue_packets: Option<u64>,
    /// Packets that are lost.
    pub loss: Option<LossModel>,
    /// Packets that take longer.
    pub jitter: Option<JitterModel>,
    /// Packets that are held back.
    pub reorder: Option<Reordering>,
    /// Packets that arrive twice.
    pub duplicate: Option<Share>,
    /// Period of a line that packs small frames together.
    pub merge: Option<Duration>,
    /// Tick of a receiving host that looks only then.
    pub tick: Option<Duration>,
    /// How long the receiving host's card holds an interrupt back.
    pub coalesce: Option<Duration>,
    /// When the line is down.
    pub outages: Vec<Outage>,
}

impl Shape {
    /// The round-trip time of a packet that never waits and takes no time on the wire, if both directions are
    /// like this one.
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

impl Line {
    /// A line on which nothing happens but waiting and travelling.
    pub const fn plain(shape: Shape) -> Line {
        Line {
            shape,
            queue_packets: None,
            loss: None,
            jitter: None,
            reorder: None,
            duplicate: None,
            merge: None,
            tick: None,
            coalesce: None,
            outages: Vec::new(),
        }
    }

    /// What may wait for the wire.
    pub(crate) const fn limit(&self) -> Limit {
        match self.queue_packets {
            Some(packets) => Limit::Packets(packets),
            None => Limit::Bytes(self.shape.queue_bytes),
        }
    }

    /// The longest that a packet is under way once it has left the wire.
    pub fn longest(&self) -> Duration {
        let jitter = self.jitter.map_or(Duration::ZERO, |jitter| jitter.most);
        let hold = self.reorder.map_or(Duration::ZERO, |reorder| reorder.hold);
        let held = [self.merge, self.tick, self.coalesce].into_iter().flatten().sum::<Duration>();
        self.shape.delay + jitter + hold + held
    }

    /// Whether what happens is meant for packets of MTU size, so that super-packets must be cut first.
    pub fn wants_single_packets(&self) -> bool {
        self.queue_packets.is_some()
            || self.loss.is_some()
            || self.reorder.is_some()
            || self.duplicate.is_some()
            || self.merge.is_some()
            || self.tick.is_some()
            || self.coalesce.is_some()
            || self.jitter.is_some_and(|jitter| jitter.overtaking)
    }
}
