//! The transmit ring of a host's network card: read as fast as the card's wire takes packets.

use std::time::Duration;

use event::{BitRate, Instant};

use crate::namespaces::READ_AHEAD_PACKETS;

/// Largest backlog of the line behind a card, after any interval without a poll.
const BEHIND_MAX: Duration = Duration::from_millis(4);

/// Transmit ring of a host's card.
pub(crate) struct Ring {
    rate: BitRate,
    /// Serialisation time of the packets that are read ahead of the wire.
    ahead: Duration,
    /// Largest backlog of the line after a late read of the ring: the time of a full ring.
    behind: Duration,
    /// End of the wire's work on the packets taken so far.
    through: Instant,
    /// When to read again.
    resume: Option<Instant>,
}

impl Ring {
    pub(crate) fn new(rate: BitRate, packets: u32, packet_bytes: u64) -> Ring {
        let time = |packets: u32| rate.time_for(u64::from(packets) * packet_bytes);
        Ring {
            rate,
            ahead: time(READ_AHEAD_PACKETS),
            behind: time(packets).min(BEHIND_MAX),
            through: Instant::ZERO,
            resume: None,
        }
    }

    /// Accounts for a packet of `wire_bytes` on the card's wire. It may have left the ring at any time since the last
    /// poll, at `looked`.
    pub(crate) fn takes(&mut self, looked: Instant, wire_bytes: u64) {
        self.through = self.through.max(looked) + self.rate.time_for(wire_bytes);
    }

    /// Time at which the wire runs idle without a further read.
    pub(crate) const fn wants_at(&self) -> Instant {
        self.through
    }

    /// True if the wire has so much work that the ring is not to be read. `line_through` is the end of the line's
    /// work, if it has no other host's packets.
    pub(crate) fn is_closed(&mut self, now: Instant, line_through: Option<Instant>) -> bool {
        if self.resume.is_some_and(|resume| now < resume) {
            return true;
        }
        let through = line_through.map_or(self.through, |line| self.through.max(line - self.behind));
        // The ring opens again when half of that is gone.
        self.resume = (through.since(now) >= self.ahead).then(|| through - self.ahead / 2);
        self.resume.is_some()
    }

    /// Time of the next read, if the ring waits.
    pub(crate) const fn resumes_at(&self) -> Option<Instant> {
        self.resume
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const RATE: BitRate = BitRate(1_000_000_000);
    pub(crate) const PACKET: u64 = 1538;

    pub(crate) fn ring() -> Ring {
        Ring::new(RATE, 80, PACKET)
    }

    #[test]
    fn a_ring_is_read_at_the_rate_of_its_wire() {
        let mut ring = ring();
        let mut now = Instant::from_nanos(1_000_000);
        let (mut taken, began) = (0u32, now);
        while taken < 10_000 {
            if ring.is_closed(now, None) {
                now = ring.resume.expect("it says when it opens");
                continue;
            }
            ring.takes(now, PACKET);
            taken += 1;
        }
        let wire = RATE.time_for(PACKET * 10_000);
        let ahead = ring.ahead;
        assert!(
            now.since(began) <= wire && wire - now.since(began) <= ahead,
            "{:?} of {wire:?}",
            now.since(began)
        );
    }

    #[test]
    fn what_would_have_gone_out_while_nobody_looked_is_read_at_once() {
        let mut ring = ring();
        let now = Instant::from_nanos(10_000_000);
        let unseen = 20 * RATE.time_for(PACKET);
        let mut taken = 0;
        while !ring.is_closed(now, None) {
            ring.takes(now - unseen, PACKET);
            taken += 1;
        }
        assert_eq!(taken, 20 + READ_AHEAD_PACKETS);
        assert!(!ring.is_closed(now + ring.ahead / 2, None), "and no more than that is made up for");
        ring.takes(now + 4 * ring.ahead, PACKET);
        assert_eq!(ring.through, now + 4 * ring.ahead + RATE.time_for(PACKET));
    }

    #[test]
    fn a_line_that_is_the_hosts_alone_is_not_far_behind_its_wire() {
        let mut ring = ring();
        let (ahead, behind) = (ring.ahead, ring.behind);
        let now = Instant::from_nanos(10_000_000);
        assert!(!ring.is_closed(now, Some(now)), "an idle line");
        assert!(!ring.is_closed(now, Some(now + behind)), "what was read late is on it");
        assert!(ring.is_closed(now, Some(now + behind + ahead)), "a line that has enough");
        assert!(ring.is_closed(now + ahead / 4, Some(now)), "it stays so for a while");
        assert!(!ring.is_closed(now + ahead / 2, Some(now + ahead)));
    }
}
