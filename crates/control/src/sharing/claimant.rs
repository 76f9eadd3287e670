//! What the claim of a sender is made of: how much of its data arrives, and whether a queue stands on their way, or did of
//! late. Who looks at it, the sender itself or who receives from it, knows what has arrived and what a queue is.

use core::time::Duration;

use event::Instant;

use crate::measure::counter::Counter;
use crate::sharing::share::{Claim, queue_lasts};

/// A queue that stands for so long, and for a round trip, is one that its senders make together: one of a moment is what a
/// host or a path that stood still has left, and says nothing of what the line carries.
const STANDS: Duration = Duration::from_millis(20);

/// What a look at a path shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Queue {
    Empty,
    Stands,
    Overflowed,
}

/// See the file's beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claimant {
    counter: Counter,
    rate_bytes_per_s: Option<u64>,
    rtt: Duration,
    waits: Duration,
    queue_since: Option<Instant>,
    has_queue: bool,
    had_queue_until: Instant,
    had_queue: bool,
}

impl Claimant {
    /// Takes what has arrived in all, whose rate is that of `least` and more, a round trip at least: a small window comes at
    /// one go in each; and what is seen of the queue, and for how long it makes them wait. The rate, whenever it is known anew.
    pub(crate) fn observe(
        &mut self,
        now: Instant,
        arrived_bytes: u64,
        (rtt, least): (Duration, Duration),
        (queue, waits): (Queue, Duration),
    ) -> Option<u64> {
        (self.rtt, self.waits) = (rtt, waits);
        self.queue_since = (queue != Queue::Empty).then(|| self.queue_since.unwrap_or(now));
        let has_stood = self.queue_since.is_some_and(|since| now >= since + STANDS.max(rtt));
        self.has_queue = has_stood || queue == Queue::Overflowed;
        if self.has_queue {
            self.had_queue_until = now + queue_lasts(rtt);
        }
        self.had_queue = now < self.had_queue_until;
        let rate = self.counter.rate(now, arrived_bytes, least);
        self.rate_bytes_per_s = rate.or(self.rate_bytes_per_s);
        rate
    }

    /// What it claims.
    pub(crate) fn claim(&self) -> Claim {
        Claim {
            owner: 0,
            weight: 1,
            rate_bytes_per_s: self.rate_bytes_per_s,
            rtt: self.rtt,
            waits: self.waits,
            has_queue: self.has_queue,
            had_queue: self.had_queue,
            handed: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// Rates that are claimed by one of which so much has arrived, looked at every ten milliseconds.
    fn claimed(arrived_bytes: impl Fn(u64) -> u64) -> Vec<Option<u64>> {
        let mut claimant = Claimant::default();
        let look = |look: u64| {
            let now = Instant::ZERO + Duration::from_millis(10 * look);
            claimant.observe(now, arrived_bytes(10 * look), (RTT, RTT), (Queue::Empty, Duration::ZERO));
            claimant.claim().rate_bytes_per_s
        };
        (0..100).map(look).collect()
    }

    #[test]
    fn a_small_window_claims_what_it_carries_although_it_comes_at_one_go() {
        let rates = claimed(|ms| ms / 100 * 14_480);
        assert_eq!(rates[..10], [None; 10], "not counted yet");
        assert!(rates[10..].iter().all(|rate| *rate == Some(144_800)), "{rates:?}");
    }

    /// From when on a queue counts that is there from `from_ms` until `until_ms`, and until when it is remembered.
    fn counts(from_ms: u64, until_ms: u64, queue: Queue) -> (Option<u64>, Option<u64>) {
        let mut claimant = Claimant::default();
        let mut look = |ms: u64| {
            let queue = if (from_ms..until_ms).contains(&ms) { queue } else { Queue::Empty };
            claimant.observe(
                Instant::ZERO + Duration::from_millis(ms),
                0,
                (RTT, RTT),
                (queue, Duration::ZERO),
            );
            (ms, claimant.claim())
        };
        let seen: Vec<(u64, Claim)> = (0..5000).step_by(10).map(&mut look).collect();
        let of = |(ms, _): &(u64, Claim)| *ms;
        (
            seen.iter().find(|seen| seen.1.has_queue).map(of),
            seen.iter().rfind(|seen| seen.1.had_queue).map(of),
        )
    }

    #[test]
    fn a_queue_counts_once_it_has_stood_for_a_round_trip_and_an_overflow_at_once() {
        assert_eq!(counts(500, 600, Queue::Stands), (None, None), "a moment's");
        assert_eq!(counts(500, 700, Queue::Stands), (Some(600), Some(2_680)));
        assert_eq!(counts(500, 510, Queue::Overflowed), (Some(500), Some(2_490)));
    }

    #[test]
    fn one_that_has_stalled_is_counted_and_has_nothing() {
        let rates = claimed(|ms| ms.min(300) * 1_000);
        assert_eq!((rates[10], rates[99]), (Some(1_000_000), Some(0)));
        assert!(rates[10..].iter().all(Option::is_some), "{rates:?}");
    }
}
