//! Early end of a load when requests become slow or the target refuses commands; the measurements until then count.

use std::collections::VecDeque;
use std::time::Duration;

use event::Instant;

/// Minimum number of requests for a mean latency: one slow request does not make a slow target.
const REQUESTS_LEAST: usize = 8;

/// Reason why a load ended before its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// Requests took longer than allowed.
    Slow,
    /// The target refused a command: BUSY or TASK SET FULL.
    Refused,
}

/// Mean latency of the last requests, compared with the maximum.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    most: Duration,
    /// Number of first requests to ignore: their connections are still in slow start.
    first: usize,
    ended: usize,
    last: VecDeque<Duration>,
    sum: Duration,
}

impl Patience {
    /// Limits the mean latency to `most`, with `depth` requests outstanding.
    pub(crate) fn new(most: Duration, depth: usize) -> Patience {
        Patience { most, first: depth, ended: 0, last: VecDeque::new(), sum: Duration::ZERO }
    }

    /// Adds the latency of a completed request; returns `true` if the mean of the last requests exceeds the maximum.
    pub(crate) fn is_over(&mut self, latency: Duration) -> bool {
        self.ended += 1;
        if self.ended <= self.first {
            return false;
        }
        self.last.push_back(latency);
        self.sum += latency;
        let count = REQUESTS_LEAST.max(self.first);
        if self.last.len() > count {
            self.sum -= self.last.pop_front().unwrap_or_default();
        }
        self.last.len() == count && self.sum > self.most * count as u32
    }
}

/// Start and totals of the measurement of a load that is cut, from the end of its first requests on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Early {
    pub(crate) since: Instant,
    pub(crate) bytes: u64,
    pub(crate) ios: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(latencies_ms: impl IntoIterator<Item = u64>, depth: usize) -> Option<usize> {
        let mut patience = Patience::new(Duration::from_millis(40), depth);
        latencies_ms.into_iter().position(|ms| patience.is_over(Duration::from_millis(ms)))
    }

    #[test]
    fn requests_that_become_slow_end_it() {
        assert_eq!(ended([10; 100], 4), None);
        // Eight requests of 50 ms, after the first four.
        assert_eq!(ended([50; 100], 4), Some(11));
        // The first requests meet slow start, and a single slow one has no effect.
        assert_eq!(ended([500, 500, 500, 500].into_iter().chain([10; 50]), 4), None);
        assert_eq!(ended([10; 20].into_iter().chain([200]).chain([10; 20]), 4), None);
        // 350 ms in the last eight, of which three are slow.
        assert_eq!(ended([10; 20].into_iter().chain([100; 20]), 4), Some(22));
    }
}
