//! What is emulated: the path's shape, its MTU, and the addresses at its ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::time::Duration;

use event::BitRate;
use link::Shape;

/// The path of a run, the same in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spec {
    /// Delay, rate and waiting queue.
    pub shape: Shape,
    /// Largest packet, in bytes of IP.
    pub mtu_bytes: u32,
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
pub type Environment = [(&'static str, String); 4];

/// A super-packet may take this long on the wire. It is delivered whole when its last byte is through, so the
/// first byte of a bulk transfer comes that much late, and the queue drops that much at once; a transfer's last
/// byte is exactly on time. 64 KiB would be half a millisecond at 1 Gb/s. Measured there (one CUBIC stream, 8 ms
/// one way, 2 processors): 100 µs cost 0.6 of a processor, 200 µs 0.35, half a millisecond 0.2.
const SUPER_PACKET_TIME: Duration = Duration::from_micros(200);
/// What one read of a TUN device gives at most (and what TCP builds by default).
const SUPER_PACKET_MAX_BYTES: u64 = 65_536;
/// With less than this, TCP would have to send every packet on its own, which costs more than it tells.
const SUPER_PACKET_MIN_SEGMENTS: u64 = 2;

impl Spec {
    /// A path with the usual queue unless one is named.
    pub fn new(delay: Duration, rate: BitRate, queue_bytes: Option<u64>, mtu_bytes: u32) -> Spec {
        let queue_bytes = queue_bytes.unwrap_or_else(|| Shape::usual_queue_bytes(delay, rate));
        Spec { shape: Shape { delay, rate, queue_bytes }, mtu_bytes }
    }

    /// The largest super-packet TCP may build, in bytes: what the wire takes in 200 µs.
    pub fn gso_max_bytes(&self) -> u32 {
        let least = SUPER_PACKET_MIN_SEGMENTS * u64::from(self.mtu_bytes);
        let bytes = self.shape.rate.bytes_in(SUPER_PACKET_TIME).max(least);
        bytes.min(SUPER_PACKET_MAX_BYTES) as u32
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

    /// Both addresses.
    pub(crate) fn addresses(self) -> [(IpAddr, u8); 2] {
        let ((v4, v4_bits), (v6, v6_bits)) = (self.ipv4(), self.ipv6());
        [(v4.into(), v4_bits), (v6.into(), v6_bits)]
    }

    /// What every command in a run finds in its environment, on both sides.
    pub fn environment() -> Environment {
        [
            ("FARLUN_NEAR", Side::Near.ipv4().0.to_string()),
            ("FARLUN_FAR", Side::Far.ipv4().0.to_string()),
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
    fn the_usual_queue_is_a_bandwidth_delay_product_of_the_round_trip() {
        let gigabit = BitRate(1_000_000_000);
        let queue = |ms| Spec::new(Duration::from_millis(ms), gigabit, None, 1500).shape.queue_bytes;
        assert_eq!((queue(0), queue(8), queue(50)), (1_000_000, 2_000_000, 12_500_000));
    }
}
