//! What the claim of a sender is made of: how much of its data arrives, and whether a queue stands on their way, or did of
//! late. Who looks at it, the sender itself or who receives from it, knows what has arrived and what a queue is.

use core::time::Duration;

use event::Instant;

use crate::counter::Counter;
use crate::share::{Claim, QUEUE_LASTS};

/// See the file's beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claimant {
    counter: Counter,
    rate_bytes_per_s: Option<u64>,
    has_queue: bool,
    had_queue_until: Instant,
    had_queue: bool,
}

impl Claimant {
    /// Takes what has arrived in all, whose rate is that of `least` and more, a round trip at least: a small window comes at
    /// one go in each. The rate, whenever it is known anew.
    pub(crate) fn observe(
        &mut self,
        now: Instant,
        arrived_bytes: u64,
        least: Duration,
        has_queue: bool,
    ) -> Option<u64> {
        self.has_queue = has_queue;
        if has_queue {
            self.had_queue_until = now + QUEUE_LASTS;
        }
        self.had_queue = now < self.had_queue_until;
        let rate = self.counter.rate(now, arrived_bytes, least);
        self.rate_bytes_per_s = rate.or(self.rate_bytes_per_s);
        rate
    }

    /// What it claims.
    pub(crate) fn claim(&self) -> Claim {
        Claim {
            weight: 1,
            rate_bytes_per_s: self.rate_bytes_per_s,
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
            claimant.observe(now, arrived_bytes(10 * look), RTT, false);
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

    #[test]
    fn one_that_has_stalled_is_counted_and_has_nothing() {
        let rates = claimed(|ms| ms.min(300) * 1_000);
        assert_eq!((rates[10], rates[99]), (Some(1_000_000), Some(0)));
        assert!(rates[10..].iter().all(Option::is_some), "{rates:?}");
    }
}
