//! Artificial latency and rate limit of a LUN, as its options set them.

use block::Delays;
use event::{BitRate, Instant};

use super::options::Options;

/// Times at which reads and writes of a LUN may begin.
#[derive(Debug)]
pub(super) struct ArtificialLimits {
    delays: Delays,
    rate: Option<BitRate>,
    /// End of the last transfer that the rate limit has admitted.
    busy_until: Instant,
    seed: u64,
    /// Commands that were delayed.
    delayed: u64,
}

impl ArtificialLimits {
    /// Creates the limits that the options of a LUN set.
    pub(super) fn from_options(options: &Options) -> ArtificialLimits {
        ArtificialLimits {
            delays: options.delays,
            rate: options.rate,
            busy_until: Instant::ZERO,
            seed: options.seed.unwrap_or_default(),
            delayed: 0,
        }
    }

    /// Returns the time at which the next read or write may begin, from `now` on: after its delay, and after its turn
    /// under the rate limit.
    pub(super) fn begins(&mut self, is_read: bool, len_bytes: u64, now: Instant) -> Instant {
        let delay = if is_read { self.delays.read } else { self.delays.write };
        let mut begins = now;
        if let Some(rate) = self.rate {
            self.busy_until = self.busy_until.max(now) + rate.time_for(len_bytes);
            begins = self.busy_until;
        }
        if !delay.is_none() {
            self.delayed += 1;
            begins += delay.of(self.seed, self.delayed);
        }
        begins
    }
}
