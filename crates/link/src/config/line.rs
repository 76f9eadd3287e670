//! What one direction of a path is like.

use core::time::Duration;

use event::BitRate;

use crate::{Contract, JitterModel, Limit, LossModel, Outage, Reordering, Share};

/// A super-packet may take this long on the wire. It is delivered whole when its last byte is through, so the
/// first byte of a bulk transfer comes that much late, and the queue drops that much at once; a transfer's last
/// byte is exactly on time. 64 KiB would be half a millisecond at 1 Gb/s. Measured there (one CUBIC stream, 8 ms
/// one way, 2 processors): 100 µs cost 0.6 of a processor, 200 µs 0.35, half a millisecond 0.2.
const SUPER_PACKET_TIME: Duration = Duration::from_micros(200);
/// What one read of a TUN device gives at most (and what TCP builds by default).
pub const SUPER_PACKET_MAX_BYTES: u64 = 65_536;
/// With less than this, TCP would have to send every packet on its own, which costs more than it tells.
const SUPER_PACKET_MIN_SEGMENTS: u64 = 2;
/// Super-packets that a queue has room for, or they are cut: a sixteenth of a queue, about, may be dropped at once. So many
/// of the largest ones fit the usual queue.
const QUEUE_LEAST: u64 = 15;
/// The usual queue is no shorter than that, however short the path. A megabyte alone is 0.9 ms at 9 Gb/s, of which an emulator
/// that is late by a third would change what happens.
const USUAL_QUEUE_MIN_BYTES: u64 = 1_000_000;
const USUAL_QUEUE_MIN_TIME: Duration = Duration::from_millis(4);

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
    /// Contract of a policer at the entry.
    pub police: Option<Contract>,
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
    /// Lines that hosts have to themselves.
    pub own: Own,
}

/// Lines that the hosts of the near end have to themselves, instead of one that all share. What they have in common carries what
/// all of them do, so that nothing waits there.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Own {
    /// Their rates, from the first host on; none if all share the line. Together no more than its rate.
    pub rates: Vec<BitRate>,
    /// The hosts of the near end are those that send in this direction.
    pub of_sender: bool,
}

impl Own {
    /// What all of them carry.
    pub fn together(&self) -> BitRate {
        BitRate(self.rates.iter().fold(0, |sum: u64, rate| sum.saturating_add(rate.0)))
    }
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

    /// The queue to take if none was named: one bandwidth-delay product of the round trip, at least 1 MB and what the line
    /// carries in 4 ms.
    pub fn usual_queue_bytes(delay: Duration, rate: BitRate) -> u64 {
        rate.bytes_in((2 * delay).max(USUAL_QUEUE_MIN_TIME)).max(USUAL_QUEUE_MIN_BYTES)
    }
}

impl Line {
    /// A line on which nothing happens but waiting and travelling.
    pub const fn plain(shape: Shape) -> Line {
        Line {
            shape,
            queue_packets: None,
            police: None,
            loss: None,
            jitter: None,
            reorder: None,
            duplicate: None,
            merge: None,
            tick: None,
            coalesce: None,
            outages: Vec::new(),
            own: Own { rates: Vec::new(), of_sender: false },
        }
    }

    /// What may wait for a wire of this rate: what drains as the queue does at the rate of the line.
    pub(crate) fn limit_of(&self, rate: BitRate) -> Limit {
        match self.queue_packets {
            Some(packets) => Limit::Packets(self.part_of(packets, rate).max(1)),
            None => Limit::Bytes(self.part_of(self.shape.queue_bytes, rate)),
        }
    }

    fn part_of(&self, amount: u64, rate: BitRate) -> u64 {
        let part = u128::from(amount) * u128::from(rate.0) / u128::from(self.shape.rate.0.max(1));
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// Bytes that may wait for the slowest wire on it.
    pub fn least_queue_bytes(&self) -> u64 {
        self.part_of(self.shape.queue_bytes, self.slowest())
    }

    /// The rate of the slowest wire on it.
    fn slowest(&self) -> BitRate {
        self.own.rates.iter().copied().min().unwrap_or(self.shape.rate)
    }

    /// The longest that a packet is under way once it has left the wire.
    pub fn longest(&self) -> Duration {
        let jitter = self.jitter.map_or(Duration::ZERO, |jitter| jitter.most);
        let hold = self.reorder.map_or(Duration::ZERO, |reorder| reorder.hold);
        let held = [self.merge, self.tick, self.coalesce].into_iter().flatten().sum::<Duration>();
        self.shape.delay + jitter + hold + held
    }

    /// Whether what happens is meant for packets of MTU size, so that super-packets of this many bytes must be cut first. In
    /// a short queue they would be too coarse: what does not fit is dropped whole.
    fn wants_single_packets(&self, super_packet_bytes: u64) -> bool {
        self.least_queue_bytes() < QUEUE_LEAST * super_packet_bytes
            || self.queue_packets.is_some()
            || self.police.is_some()
            || self.loss.is_some()
            || self.reorder.is_some()
            || self.duplicate.is_some()
            || self.merge.is_some()
            || self.tick.is_some()
            || self.coalesce.is_some()
            || self.jitter.is_some_and(|jitter| jitter.overtaking)
    }
}

/// The largest super-packet that a path of these two lines is to see whole, in bytes.
pub fn super_packet_bytes(lines: [&Line; 2], mtu_bytes: u32) -> u64 {
    let [near, far] = lines.map(Line::slowest);
    let least = SUPER_PACKET_MIN_SEGMENTS * u64::from(mtu_bytes);
    near.min(far).bytes_in(SUPER_PACKET_TIME).max(least).min(SUPER_PACKET_MAX_BYTES)
}

/// Whether one of the lines of a path wants super-packets cut.
pub fn want_single_packets(lines: [&Line; 2], mtu_bytes: u32) -> bool {
    let whole_bytes = super_packet_bytes(lines, mtu_bytes);
    lines.into_iter().any(|line| line.wants_single_packets(whole_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(mbit: u64, queue_bytes: u64) -> Line {
        Line::plain(Shape { delay: Duration::ZERO, rate: BitRate(mbit * 1_000_000), queue_bytes })
    }

    #[test]
    fn super_packets_are_as_long_as_the_wire_takes_200_us_for() {
        for (mbit, mtu_bytes, bytes) in
            [(1_000, 1500, 25_000), (10_000, 1500, 65_536), (10, 1500, 3_000), (100, 9000, 18_000)]
        {
            let line = line(mbit, 1_000_000);
            assert_eq!(super_packet_bytes([&line, &line], mtu_bytes), bytes, "{mbit} Mb/s");
        }
        let (slow, fast) = (line(10, 1_000_000), line(1_000, 1_000_000));
        assert_eq!(super_packet_bytes([&fast, &slow], 1500), 3_000, "both ends send what either line takes");
    }

    #[test]
    fn a_short_queue_is_one_of_single_packets() {
        for (mbit, queue_bytes, expected) in [
            (1_000, 50_000, true),
            (1_000, 374_999, true),
            (1_000, 375_000, false),
            (10, 44_999, true),
            (10, 45_000, false),
            (40_000, 1_000_000, false),
        ] {
            let line = line(mbit, queue_bytes);
            assert_eq!(want_single_packets([&line, &line], 1500), expected, "{mbit} Mb/s, {queue_bytes}");
        }
        let (long, short) = (line(1_000, 2_000_000), line(1_000, 50_000));
        assert!(want_single_packets([&long, &short], 1500));
    }
}
