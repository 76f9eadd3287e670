//! The rate of something that is only counted. What is seen at one go after a pause was not carried that fast, so each
//! rate is that of a whole stretch of time, whose length is the caller's business.

use core::time::Duration;

use event::Instant;

/// See the file's beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counter {
    since: Option<(Instant, u64)>,
}

impl Counter {
    /// Takes how much there has been in all; how much it was per second, once `least` has gone by since the last rate.
    pub(crate) fn rate(&mut self, now: Instant, total: u64, least: Duration) -> Option<u64> {
        let (since, base) = *self.since.get_or_insert((now, total));
        let elapsed = now.since(since);
        if elapsed < least {
            return None;
        }
        self.since = Some((now, total));
        let more = u128::from(total.saturating_sub(base)) * 1_000_000_000;
        Some(u64::try_from(more / elapsed.as_nanos().max(1)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_a_whole_stretch() {
        let (mut counter, least) = (Counter::default(), Duration::from_millis(100));
        let mut rate = |ms, total| counter.rate(Instant::ZERO + Duration::from_millis(ms), total, least);
        assert_eq!([rate(10, 500), rate(109, 900), rate(110, 1_500)], [None, None, Some(10_000)]);
        assert_eq!([rate(200, 9_000), rate(310, 1_700)], [None, Some(1_000)], "from the last rate on");
        assert_eq!(rate(410, 0), Some(0), "what is counted anew is no rate");
        assert_eq!(Counter::default().rate(Instant::ZERO, 1, Duration::ZERO), Some(0));
    }
}
