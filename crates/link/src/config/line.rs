//! Configuration of one direction of a path.

use core::time::Duration;

use event::BitRate;

use crate::{Contract, JitterModel, Limit, LossModel, Outage, Reordering, Share};

/// Longest serialisation of a super-packet. It is delivered whole when its last byte is through, so the first byte of
/// a bulk transfer arrives that much late, and the queue drops that much together; a transfer's last byte is exactly
/// on time. 64 KiB would be half a millisecond at 1 Gb/s. Measured there (one CUBIC stream, 8 ms one way, 2
/// processors): 100 µs cost 0.6 of a processor, 200 µs 0.35, half a millisecond 0.2.
const SUPER_PACKET_TIME: Duration = Duration::from_micros(200);
/// Largest packet of one read from a TUN device (and TCP's default limit).
pub const SUPER_PACKET_MAX_BYTES: u64 = 65_536;
/// With fewer segments TCP would send every packet on its own, which costs more CPU time than it adds accuracy.
const SUPER_PACKET_MIN_SEGMENTS: u64 = 2;
/// Smallest capacity of a queue in super-packets, or they are cut: so at most about a sixteenth of a queue is dropped
/// at once. The default queue holds as many of the largest ones.
const QUEUE_LEAST: u64 = 15;
/// Smallest default queue, for any delay. A megabyte alone is 0.9 ms at 9 Gb/s: an emulator that is a third of that
/// late would distort the drops.
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

/// One direction of a path: its shape and its impairments.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Delay, rate and queue.
    pub shape: Shape,
    /// Capacity of the queue in packets, instead of `queue_bytes`, which is then their largest size.
    pub queue_packets: Option<u64>,
    /// Contract of a policer at the entry.
    pub police: Option<Contract>,
    /// Packets that are lost.
    pub loss: Option<LossModel>,
    /// Random extra delay.
    pub jitter: Option<JitterModel>,
    /// Packets that are held back, so that later ones overtake them.
    pub reorder: Option<Reordering>,
    /// Packets that arrive twice.
    pub duplicate: Option<Share>,
    /// Period of a line that packs small frames together.
    pub merge: Option<Duration>,
    /// Timer tick of a receiving host that polls only then.
    pub tick: Option<Duration>,
    /// Hold time of interrupt coalescing at the receiving host.
    pub coalesce: Option<Duration>,
    /// Scheduled outages.
    pub outages: Vec<Outage>,
    /// Lines of single hosts.
    pub own: Own,
}

/// Lines of the near hosts, one each, instead of a line that all share. The common part has the sum of their rates,
/// so that nothing waits there.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Own {
    /// Rates by near host; empty if all share the line. Their sum is at most its rate.
    pub rates: Vec<BitRate>,
    /// True in the direction in which the near hosts send.
    pub of_sender: bool,
}

impl Own {
    /// Sum of the rates.
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

    /// The default queue: one bandwidth-delay product of the round trip, at least 1 MB and the bytes that the line
    /// carries in 4 ms.
    pub fn usual_queue_bytes(delay: Duration, rate: BitRate) -> u64 {
        rate.bytes_in((2 * delay).max(USUAL_QUEUE_MIN_TIME)).max(USUAL_QUEUE_MIN_BYTES)
    }
}

impl Line {
    /// A line without impairments.
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

    /// Capacity of the queue before a wire of this rate: its share of the line's queue, so that both drain in the
    /// same time.
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

    /// Capacity in bytes of the queue before the slowest wire.
    pub fn least_queue_bytes(&self) -> u64 {
        self.part_of(self.shape.queue_bytes, self.slowest())
    }

    /// The rate of the slowest wire on it.
    fn slowest(&self) -> BitRate {
        self.own.rates.iter().copied().min().unwrap_or(self.shape.rate)
    }

    /// Longest time from the wire to the delivery of a packet.
    pub fn longest(&self) -> Duration {
        let jitter = self.jitter.map_or(Duration::ZERO, |jitter| jitter.most);
        let hold = self.reorder.map_or(Duration::ZERO, |reorder| reorder.hold);
        let held = [self.merge, self.tick, self.coalesce].into_iter().flatten().sum::<Duration>();
        self.shape.delay + jitter + hold + held
    }

    /// True if an impairment acts on packets of MTU size, so that super-packets of this many bytes must be cut first.
    /// In a short queue they would be too coarse: a super-packet that does not fit is dropped whole.
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

/// Largest super-packet that crosses a path of these two lines whole, in bytes.
pub fn super_packet_bytes(lines: [&Line; 2], mtu_bytes: u32) -> u64 {
    let [near, far] = lines.map(Line::slowest);
    let least = SUPER_PACKET_MIN_SEGMENTS * u64::from(mtu_bytes);
    near.min(far).bytes_in(SUPER_PACKET_TIME).max(least).min(SUPER_PACKET_MAX_BYTES)
}

/// True if one of the lines of a path needs super-packets cut.
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
