//! A policer: it drops packets above a rate and holds none back.
//!
//! One token bucket, the committed rate and burst of RFC 2697 (section 3) with the packets that exceed them dropped. It is
//! the usual way in which a provider holds a customer to a contract: losses come without a queue before them.

use core::fmt;
use core::str::FromStr;

use event::{BitRate, Bytes, Fate, Instant};

use crate::{FRAMING_BYTES, Gate, Packet};

/// Bits of a token bucket are counted in parts, so that no rate and no time is rounded.
const PARTS_PER_BIT: u128 = 1_000_000_000;
/// Smallest burst: a packet of 1 500 bytes of IP with its framing.
const BURST_MIN_BYTES: u64 = 1_500 + FRAMING_BYTES as u64;
/// Largest burst, 1 GiB: a direction of a path holds no more packets.
const BURST_MAX_BYTES: u64 = 1 << 30;

/// Contract of a policer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contract {
    /// Committed information rate, in bits on the wire.
    pub rate: BitRate,
    /// Committed burst size, in bytes on the wire.
    pub burst_bytes: u64,
}

/// A token bucket that drops packets for which it has no tokens.
#[derive(Clone, Debug)]
pub struct Policer {
    contract: Contract,
    /// Tokens, in parts of a bit.
    tokens: u128,
    filled: Option<Instant>,
}

impl Policer {
    /// A policer with a full bucket.
    pub const fn new(contract: Contract) -> Policer {
        Policer { contract, tokens: parts(contract.burst_bytes), filled: None }
    }
}

const fn parts(bytes: u64) -> u128 {
    bytes as u128 * 8 * PARTS_PER_BIT
}

impl Gate for Policer {
    fn admit(&mut self, now: Instant, packet: &Packet) -> Result<(), Fate> {
        let elapsed_ns = self.filled.map_or(0, |filled| now.since(filled).as_nanos());
        self.filled = Some(now);
        // A bit per second is a part per nanosecond.
        let filled = self.tokens + u128::from(self.contract.rate.0) * elapsed_ns;
        self.tokens = filled.min(parts(self.contract.burst_bytes));
        match self.tokens.checked_sub(parts(packet.wire_bytes.into())) {
            Some(left) => {
                self.tokens = left;
                Ok(())
            }
            None => Err(Fate::Policed),
        }
    }
}

impl FromStr for Contract {
    type Err = String;

    /// `RATE/BURST`, as in `500mbit/1MB`
    fn from_str(s: &str) -> Result<Contract, String> {
        let wrong = || format!("'{s}' is not a policer such as 500mbit/1MB (rate, and bytes of a burst)");
        let (rate, burst) = s.split_once('/').ok_or_else(wrong)?;
        let rate = rate.parse().map_err(|_| wrong())?;
        let Bytes(burst_bytes) = burst.parse().map_err(|_| wrong())?;
        if !(BURST_MIN_BYTES..=BURST_MAX_BYTES).contains(&burst_bytes) {
            return Err(format!(
                "'{s}': a burst of {burst_bytes} bytes, expected {BURST_MIN_BYTES}B to {}",
                Bytes(BURST_MAX_BYTES)
            ));
        }
        Ok(Contract { rate, burst_bytes })
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}B", self.rate, self.burst_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Handle;

    fn packet(wire_bytes: u32) -> Packet {
        Packet::new(Handle(0), Instant::ZERO, wire_bytes, wire_bytes, 1)
    }

    /// Bytes that pass of packets of 1 000 bytes which come every `gap_ns`.
    fn passed(contract: &str, gap_ns: u64, packets: u64) -> u64 {
        let mut policer = Policer::new(contract.parse().expect(contract));
        let mut admits = |n: u64| policer.admit(Instant::from_nanos(n * gap_ns), &packet(1_000)).is_ok();
        1_000 * (0..packets).filter(|n| admits(*n)).count() as u64
    }

    #[test]
    fn the_rate_and_one_burst_pass() {
        // 80 Mb/s for a second against 8 Mb/s with 10 kB: 1 MB and the burst.
        assert_eq!(passed("8mbit/10KB", 100_000, 10_000), 1_000_000 + 9_000);
        // Packets at the committed rate all pass.
        assert_eq!(passed("8mbit/2KB", 1_000_000, 1_000), 1_000_000);
    }

    #[test]
    fn a_pause_fills_no_more_than_a_burst() {
        let mut policer = Policer::new("8mbit/3KB".parse().expect("a contract"));
        let mut at = |second: u64| {
            let now = Instant::from_nanos(second * 1_000_000_000);
            (0..10).filter(|_| policer.admit(now, &packet(1_000)).is_ok()).count()
        };
        assert_eq!((at(0), at(0), at(60)), (3, 0, 3));
    }

    #[test]
    fn a_packet_without_tokens_takes_none() {
        let mut policer = Policer::new("8mbit/2KB".parse().expect("a contract"));
        let now = Instant::ZERO;
        assert_eq!(policer.admit(now, &packet(1_500)), Ok(()));
        assert_eq!(policer.admit(now, &packet(1_500)), Err(Fate::Policed));
        assert_eq!(policer.admit(now, &packet(500)), Ok(()), "what was left of the burst");
    }

    #[test]
    fn contracts_are_written_as_they_are_read() {
        for (text, written) in [("500mbit/1MB", "500mbit/1000000B"), ("1gbit/64KiB", "1gbit/65536B")] {
            let contract: Contract = text.parse().expect(text);
            assert_eq!(contract.to_string(), written);
            assert_eq!(written.parse(), Ok(contract));
        }
        for (text, said) in [
            ("500mbit", "is not a policer such as 500mbit/1MB"),
            ("fast/1MB", "is not a policer such as"),
            ("500mbit/much", "is not a policer such as"),
            ("500mbit/1KB", "a burst of 1000 bytes, expected 1538B to 1GiB"),
            ("500mbit/2GiB", "expected 1538B to 1GiB"),
        ] {
            let error = text.parse::<Contract>().expect_err(text);
            assert!(error.contains(said), "{error}");
        }
    }
}
