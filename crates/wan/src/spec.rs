//! What is emulated: both directions of the path, its MTU, and the addresses at its ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::time::Duration;

use event::BitRate;
use link::{FRAMING_BYTES, Line, Shape};

use crate::WanError;
use crate::arena::limit_bytes;

/// The path of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Spec {
    /// What packets meet that near sends.
    pub near: Line,
    /// What packets meet that far sends.
    pub far: Line,
    /// Largest packet, in bytes of IP.
    pub mtu_bytes: u32,
    /// Decides what is left to chance.
    pub seed: u64,
    /// Packets of MTU size that each host's device holds until the line takes them. `None`: as many as come.
    pub ring_packets: Option<u32>,
    /// Super-packets are cut into packets of MTU size before anything happens to them.
    pub segment: bool,
    /// The ends have no IPv4 addresses.
    pub only_ipv6: bool,
}

/// An end of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Where COMMAND runs.
    Near,
    /// Where the far command runs.
    Far,
}

/// Names and values of the variables that commands find in their environment.
pub type Environment = Vec<(&'static str, String)>;

/// A super-packet may take this long on the wire. It is delivered whole when its last byte is through, so the
/// first byte of a bulk transfer comes that much late, and the queue drops that much at once; a transfer's last
/// byte is exactly on time. 64 KiB would be half a millisecond at 1 Gb/s. Measured there (one CUBIC stream, 8 ms
/// one way, 2 processors): 100 µs cost 0.6 of a processor, 200 µs 0.35, half a millisecond 0.2.
const SUPER_PACKET_TIME: Duration = Duration::from_micros(200);
/// What one read of a TUN device gives at most (and what TCP builds by default).
const SUPER_PACKET_MAX_BYTES: u64 = 65_536;
/// With less than this, TCP would have to send every packet on its own, which costs more than it tells.
const SUPER_PACKET_MIN_SEGMENTS: u64 = 2;

/// Memory for the packets of one direction at most. 400 MB under way between two hosts need less.
const MEMORY_MAX_BYTES: u64 = 1 << 30;

impl Spec {
    /// A path that is the same both ways and does nothing to packets but delay them, with the usual queue unless one is
    /// named.
    pub fn new(delay: Duration, rate: BitRate, queue_bytes: Option<u64>, mtu_bytes: u32) -> Spec {
        let queue_bytes = queue_bytes.unwrap_or_else(|| Shape::usual_queue_bytes(delay, rate));
        let line = Line::plain(Shape { delay, rate, queue_bytes });
        Spec {
            near: line.clone(),
            far: line,
            mtu_bytes,
            seed: 1,
            ring_packets: None,
            segment: false,
            only_ipv6: false,
        }
    }

    /// The largest super-packet TCP may build, in bytes: what the wire takes in 200 µs, or all there can be if it is
    /// cut anyway.
    pub fn gso_max_bytes(&self) -> u32 {
        let least = SUPER_PACKET_MIN_SEGMENTS * u64::from(self.mtu_bytes);
        let rate = self.near.shape.rate.min(self.far.shape.rate);
        let bytes = if self.segment { u64::MAX } else { rate.bytes_in(SUPER_PACKET_TIME).max(least) };
        bytes.min(SUPER_PACKET_MAX_BYTES) as u32
    }

    /// The round trip of a packet that never waits.
    pub fn base_rtt(&self) -> Duration {
        self.near.shape.delay + self.far.shape.delay
    }

    /// Time in which the shorter of the queues drains; a device's ring is one of them.
    pub fn drain_time(&self) -> Duration {
        let ring = self.ring_packets.map(|packets| u64::from(packets) * self.packet_bytes());
        let line = |line: &Line| line.shape.rate.time_for(ring.unwrap_or(line.shape.queue_bytes));
        line(&self.near).min(line(&self.far))
    }

    /// Bytes on the wire of the largest packet.
    pub fn packet_bytes(&self) -> u64 {
        u64::from(self.mtu_bytes) + u64::from(FRAMING_BYTES)
    }

    /// Memory that the packets of both directions may take.
    pub fn memory_bytes(&self) -> u64 {
        limit_bytes(&self.near).saturating_add(limit_bytes(&self.far))
    }

    /// That no direction needs more memory than there is for it.
    pub fn check(&self) -> Result<(), WanError> {
        for (side, line) in [(Side::Near, &self.near), (Side::Far, &self.far)] {
            let needed_bytes = limit_bytes(line);
            if needed_bytes > MEMORY_MAX_BYTES {
                let (side, limit_bytes) = (side.name(), MEMORY_MAX_BYTES);
                return Err(WanError::Memory { side, needed_bytes, limit_bytes });
            }
        }
        Ok(())
    }
}

impl Side {
    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Near => "near",
            Side::Far => "far",
        }
    }

    /// Its number in tables.
    pub(crate) const fn number(self) -> u32 {
        match self {
            Side::Near => 0,
            Side::Far => 100,
        }
    }

    /// Its address in the range for benchmarks (RFC 2544, appendix C.2.2), with the prefix length.
    pub const fn ipv4(self) -> (Ipv4Addr, u8) {
        match self {
            Side::Near => (Ipv4Addr::new(198, 18, 0, 1), 24),
            Side::Far => (Ipv4Addr::new(198, 18, 0, 2), 24),
        }
    }

    /// Its address in the range for benchmarks (RFC 5180, section 8), with the prefix length.
    pub const fn ipv6(self) -> (Ipv6Addr, u8) {
        match self {
            Side::Near => (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1), 64),
            Side::Far => (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2), 64),
        }
    }

    /// Its addresses.
    pub(crate) fn addresses(self, only_ipv6: bool) -> Vec<(IpAddr, u8)> {
        let ((v4, v4_bits), (v6, v6_bits)) = (self.ipv4(), self.ipv6());
        let v4 = (!only_ipv6).then_some((v4.into(), v4_bits));
        v4.into_iter().chain([(v6.into(), v6_bits)]).collect()
    }

    /// What every command in a run finds in its environment, on both sides.
    pub fn environment(only_ipv6: bool) -> Environment {
        let usual = |side: Side| match only_ipv6 {
            true => side.ipv6().0.to_string(),
            false => side.ipv4().0.to_string(),
        };
        vec![
            ("FARLUN_NEAR", usual(Side::Near)),
            ("FARLUN_FAR", usual(Side::Far)),
            ("FARLUN_NEAR6", Side::Near.ipv6().0.to_string()),
            ("FARLUN_FAR6", Side::Far.ipv6().0.to_string()),
        ]
    }
}

impl FromStr for Side {
    type Err = String;

    fn from_str(s: &str) -> Result<Side, String> {
        match s {
            "near" => Ok(Side::Near),
            "far" => Ok(Side::Far),
            _ => Err(format!("'{s}' is not near or far")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn super_packets_are_as_long_as_the_wire_takes_200_us_for() {
        for (rate, mtu, bytes) in [
            (BitRate(1_000_000_000), 1500, 25_000),
            (BitRate(10_000_000_000), 1500, 65_536),
            (BitRate(10_000_000), 1500, 3_000),
            (BitRate(100_000_000), 9000, 18_000),
        ] {
            assert_eq!(Spec::new(Duration::ZERO, rate, None, mtu).gso_max_bytes(), bytes, "{rate}");
        }
    }

    #[test]
    fn more_memory_than_there_may_be_is_refused_with_its_size() {
        let path =
            |ms, mbit: u64| Spec::new(Duration::from_millis(ms), BitRate(mbit * 1_000_000), None, 1500);
        // 400 MB for a round trip of a second.
        assert!(path(500, 3_200).check().is_ok());
        let text = path(500, 10_000).check().expect_err("1.25 GB of queue alone").to_string();
        assert!(text.contains("1.88GiB") && text.contains("at most 1GiB"), "{text}");
    }

    #[test]
    fn the_usual_queue_is_a_bandwidth_delay_product_of_the_round_trip() {
        let gigabit = BitRate(1_000_000_000);
        let queue = |ms| Spec::new(Duration::from_millis(ms), gigabit, None, 1500).near.shape.queue_bytes;
        assert_eq!((queue(0), queue(8), queue(50)), (1_000_000, 2_000_000, 12_500_000));
    }
}
