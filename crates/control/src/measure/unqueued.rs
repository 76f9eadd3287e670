//! What the round trip is while no queue stands: the smallest so far, and for some rounds after a rest the smallest since;
//! and what is longer by a queue.
//!
//! Linux says the smallest of the last five minutes (`net.ipv4.tcp_min_rtt_wlen`). A sender that keeps the line busy never lets
//! its own queue go, however short it is, and measured from there the queue grows by a tenth every five minutes. So what was
//! smaller since the last rest counts, unless what Linux says has become longer by a queue: then the path has. A path that has
//! become longer by less without a rest is taken for one with a small queue.
//!
//! TCP's round trip is smoothed, an eighth of each acknowledgement's. What it was before a rest leaves it only as
//! acknowledgements come: a login that waited for a processor looks like a queue, and what little had been sent by then
//! like the line. What is left of that falls, and a queue rises from where it has fallen to.

use core::time::Duration;

use event::Instant;

/// The smallest round trip after a rest counts for so many rounds, and until so many packets have arrived.
const ROUNDS: u32 = 8;
const PACKETS: u32 = 32;
/// A queue that is known to be small stands from here on: a part of the round trip, and a millisecond of noise.
pub(crate) const SMALL_QUEUE_SHARE: u32 = 400;
const SMALL_QUEUE_NOISE: Duration = Duration::from_millis(1);

/// See the file's beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unqueued {
    least: Option<Duration>,
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
    /// trips, smoothed and the least of late; what to measure a queue from.
    pub(crate) fn observe(
        &mut self,
        now: Instant,
        is_at_rest: bool,
        delivered_packets: u32,
        (rtt, min_rtt): (Duration, Duration),
    ) -> Duration {
        let before = self.least.filter(|before| !is_at_rest && !has_queue(min_rtt, *before));
        let has_begun = self.least.is_some();
        let min_rtt = before.map_or(min_rtt, |before| before.min(min_rtt));
        self.least = Some(min_rtt);
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

    /// Value that `observe` returned last; `None` before that.
    pub(crate) fn base_rtt(&self) -> Option<Duration> {
        self.least.map(|least| self.rest.as_ref().map_or(least, |rest| rest.lowest.max(least)))
    }
}

/// Whether a queue stands: a tenth of the path and a millisecond are noise.
pub(crate) fn has_queue(rtt: Duration, min_rtt: Duration) -> bool {
    rtt.saturating_sub(min_rtt) > min_rtt / 10 + Duration::from_millis(1)
}

/// Whether a queue stands that is known to be small.
pub(crate) fn has_small_queue(rtt: Duration, min_rtt: Duration) -> bool {
    rtt.saturating_sub(min_rtt) > small_queue(min_rtt)
}

/// The longest time that packets wait where no small queue is seen.
pub(crate) fn small_queue(min_rtt: Duration) -> Duration {
    min_rtt / SMALL_QUEUE_SHARE + SMALL_QUEUE_NOISE
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
    fn what_the_kernel_forgets_is_kept_unless_the_path_has_become_longer() {
        let mut unqueued = Unqueued::default();
        let mut base = |at_s: u64, min_rtt| {
            unqueued.observe(Instant::ZERO + ms(1000 * at_s), false, 100 * at_s as u32, (ms(40), ms(min_rtt)))
        };
        assert_eq!([base(0, 20), base(10, 20)], [ms(40), ms(20)]);
        assert_eq!([base(300, 22), base(600, 23), base(900, 22)], [ms(20); 3], "its own queue");
        assert_eq!([base(1200, 24), base(1500, 26)], [ms(24); 2], "another way");
        assert_eq!(base(1510, 18), ms(18));
        assert_eq!([base(1520, 19), base(1530, 19)], [ms(18); 2]);
        unqueued.observe(Instant::ZERO + ms(1_540_000), true, 200_000, (ms(19), ms(19)));
        let seen = (ms(40), ms(19));
        assert_eq!(
            unqueued.observe(Instant::ZERO + ms(1_550_000), false, 300_000, seen),
            ms(19),
            "after a rest"
        );
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
