//! What the round trip is while no queue stands: the smallest so far, and for some rounds after a rest the smallest since.
//!
//! TCP's round trip is smoothed, an eighth of each acknowledgement's. What it was before a rest leaves it only as
//! acknowledgements come: a login that waited for a processor looks like a queue, and what little had been sent by then
//! like the line. What is left of that falls, and a queue rises from where it has fallen to. Whether a queue stands is not
//! said here (`has_queue` in `cap.rs`).

use core::time::Duration;

use event::Instant;

/// The smallest round trip after a rest counts for so many rounds, and until so many packets have arrived.
const ROUNDS: u32 = 8;
const PACKETS: u32 = 32;

/// See the file's beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unqueued {
    has_begun: bool,
    rest: Option<Rest>,
}

#[derive(Clone, Debug)]
struct Rest {
    ended: Instant,
    /// What had arrived by then; wraps.
    delivered_packets: u32,
    /// The smallest since.
    lowest: Duration,
}

impl Unqueued {
    /// Takes whether anything that tells of the path is under way, how many packets have arrived in all and the round
    /// trips, smoothed and least; what to measure a queue from.
    pub(crate) fn observe(
        &mut self,
        now: Instant,
        is_at_rest: bool,
        delivered_packets: u32,
        (rtt, min_rtt): (Duration, Duration),
    ) -> Duration {
        let has_begun = core::mem::replace(&mut self.has_begun, true);
        if is_at_rest || !has_begun {
            self.rest = Some(Rest { ended: now, delivered_packets, lowest: rtt });
        }
        let Some(rest) = &mut self.rest else { return min_rtt };
        rest.lowest = rest.lowest.min(rtt);
        let has_rounds = now.since(rest.ended) >= min_rtt * ROUNDS;
        if has_rounds && delivered_packets.wrapping_sub(rest.delivered_packets) >= PACKETS {
            self.rest = None;
            return min_rtt;
        }
        rest.lowest.max(min_rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(16);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn what_a_login_left_falls_and_a_queue_rises() {
        let mut unqueued = Unqueued::default();
        let mut base = |at: u64, is_at_rest, packets, rtt: u64| {
            unqueued.observe(Instant::ZERO + ms(at), is_at_rest, packets, (ms(rtt), RTT))
        };
        assert_eq!(base(0, true, 8, 24), ms(24), "all of it is of the login");
        assert_eq!(base(16, false, 18, 20), ms(20));
        assert_eq!(base(32, false, 90, 17), ms(17));
        assert_eq!(base(48, false, 200, 22), ms(17), "a queue");
        assert_eq!(base(127, false, 999, 22), ms(17));
        assert_eq!(base(128, false, 999, 22), RTT, "nothing is left of it");
        assert_eq!(base(140, true, 1_100, 22), ms(22), "after another rest");
    }

    #[test]
    fn who_hears_little_needs_longer() {
        let mut unqueued = Unqueued::default();
        let mut base =
            |at: u64, packets| unqueued.observe(Instant::ZERO + ms(at), at == 0, packets, (ms(24), RTT));
        assert_eq!([base(0, u32::MAX - 3), base(500, 20), base(501, 28)], [ms(24), ms(24), RTT]);
    }

    #[test]
    fn a_connection_begins_after_a_rest() {
        let seen = (ms(24), RTT);
        assert_eq!(Unqueued::default().observe(Instant::ZERO, false, 0, seen), ms(24));
    }
}
