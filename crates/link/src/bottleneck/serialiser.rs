//! The serialiser: one packet at a time goes onto the wire, bit by bit.
//!
//! The end of a packet rarely falls on a whole nanosecond. The remainder is carried into the next packet of the same
//! busy period, so that the rate is exact over any time.

use event::{BitRate, Instant};

use crate::Packet;

const NS_PER_S: u64 = 1_000_000_000;

/// Puts packets on a wire of a fixed rate.
#[derive(Debug)]
pub struct Serialiser {
    bits_per_s: u64,
    sending: Option<(Instant, Packet)>,
    /// End of the last packet on the wire, rounded down, and the rest in 1/`bits_per_s` of a nanosecond.
    free_at: Instant,
    leftover: u64,
}

impl Serialiser {
    /// A wire that is idle.
    pub fn new(rate: BitRate) -> Serialiser {
        Serialiser { bits_per_s: rate.0.max(1), sending: None, free_at: Instant::ZERO, leftover: 0 }
    }

    /// End of the serialisation in progress; `None` while the wire is idle.
    pub fn done_at(&self) -> Option<Instant> {
        self.sending.map(|(done, _)| done)
    }

    /// Begins to send `packet` at `at`, which is not before the last one was through. The wire must be idle.
    pub fn start(&mut self, at: Instant, packet: Packet) {
        assert!(self.sending.is_none() && at >= self.free_at, "one packet at a time is on a wire");
        if at > self.free_at {
            self.leftover = 0;
        }
        let work = u128::from(packet.wire_bytes) * 8 * u128::from(NS_PER_S) + u128::from(self.leftover);
        let rate = u128::from(self.bits_per_s);
        // The remainder is smaller than the rate, which is a u64; the quotient is a time of a few seconds.
        self.leftover = (work % rate) as u64;
        self.free_at = Instant::from_nanos(at.as_nanos() + (work / rate) as u64);
        self.sending = Some((self.free_at, packet));
    }

    /// Takes the packet off the wire if it is through by `now`, with the instant at which it was.
    pub fn finish(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        self.sending.take_if(|(done, _)| *done <= now)
    }
}
