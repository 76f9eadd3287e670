//! Rate and window of a stream over time, in intervals; its steady rate, and the time until it was reached.

use std::time::Duration;

use serde::Serialize;

/// Length of an interval.
const INTERVAL: Duration = Duration::from_secs(1);
/// Part of the steady rate from which on a rate is full.
const FULL: f64 = 0.95;
/// Upper limit of intervals: a day.
const INTERVALS_MAX: usize = 86_400;

/// One interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Interval {
    /// Its end, since the stream began.
    pub(crate) end_s: f64,
    /// Payload that arrived, bits per second.
    pub(crate) bits_per_s: f64,
    /// The sender's congestion window at its end; null at a receiver.
    pub(crate) window_bytes: Option<u64>,
    /// Smoothed round-trip time at its end, in seconds.
    pub(crate) rtt_s: f64,
    /// Packets retransmitted in it.
    pub(crate) retransmitted: u64,
}

/// State of a stream at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) elapsed: Duration,
    /// Bytes acknowledged or received since the beginning.
    pub(crate) arrived: u64,
    pub(crate) window_bytes: Option<u64>,
    pub(crate) rtt: Duration,
    pub(crate) retransmitted: u64,
}

/// Intervals of a stream.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct History {
    intervals: Vec<Interval>,
    since: Option<(Duration, u64, u64)>,
}

impl History {
    /// Sum of several histories, interval by interval, as long as the shortest: rates, windows and retransmissions added,
    /// ends and round trips averaged.
    pub(crate) fn together(histories: &[&History]) -> History {
        let shortest = histories.iter().map(|history| history.intervals.len()).min().unwrap_or(0);
        let sum = |n: usize| {
            let all = || histories.iter().map(|history| &history.intervals[n]);
            let mean = |value: fn(&Interval) -> f64| all().map(value).sum::<f64>() / histories.len() as f64;
            Interval {
                end_s: mean(|interval| interval.end_s),
                bits_per_s: all().map(|interval| interval.bits_per_s).sum(),
                window_bytes: all().map(|interval| interval.window_bytes).sum(),
                rtt_s: mean(|interval| interval.rtt_s),
                retransmitted: all().map(|interval| interval.retransmitted).sum(),
            }
        };
        History { intervals: (0..shortest).map(sum).collect(), since: None }
    }

    /// Adds a reading; the first one after an interval's time ends it. Returns true then.
    pub(crate) fn add(&mut self, reading: Reading) -> bool {
        let Reading { elapsed, arrived, window_bytes, rtt, retransmitted } = reading;
        let (began, bytes, before) = *self.since.get_or_insert((elapsed, arrived, retransmitted));
        let length = elapsed.saturating_sub(began);
        if length < INTERVAL || self.intervals.len() >= INTERVALS_MAX {
            return false;
        }
        self.intervals.push(Interval {
            end_s: elapsed.as_secs_f64(),
            bits_per_s: arrived.saturating_sub(bytes) as f64 * 8.0 / length.as_secs_f64(),
            window_bytes,
            rtt_s: rtt.as_secs_f64(),
            retransmitted: retransmitted.saturating_sub(before),
        });
        self.since = Some((elapsed, arrived, retransmitted));
        true
    }

    pub(crate) fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// Median rate of the second half in bits per second; `None` for fewer than four intervals.
    pub(crate) fn steady(&self) -> Option<f64> {
        self.median(|interval| Some(interval.bits_per_s))
    }

    /// End of the first interval with a full rate, in seconds; `None` without a steady rate.
    pub(crate) fn full_s(&self) -> Option<f64> {
        self.full(|interval| Some(interval.bits_per_s))
    }

    /// The same for the sender's window; full is the median of the second half.
    pub(crate) fn full_window_s(&self) -> Option<f64> {
        self.full(|interval| interval.window_bytes.map(|bytes| bytes as f64))
    }

    fn median(&self, value: impl Fn(&Interval) -> Option<f64>) -> Option<f64> {
        let half = self.intervals[self.intervals.len() / 2..].iter();
        let mut half = half.map(value).collect::<Option<Vec<f64>>>()?;
        half.sort_unstable_by(f64::total_cmp);
        (self.intervals.len() >= 4).then(|| half[half.len() / 2])
    }

    fn full(&self, value: impl Fn(&Interval) -> Option<f64>) -> Option<f64> {
        let enough = FULL * self.median(&value)?;
        self.intervals.iter().find(|interval| value(interval) >= Some(enough)).map(|full| full.end_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_ends_where_the_rate_stays() {
        let mut history = History::default();
        let mut arrived = 0;
        for step in 0..=200_u64 {
            let elapsed = Duration::from_millis(step * 100);
            // Doubles every second up to 64 000 bytes in 100 ms.
            arrived += (1_000 << (step / 10).min(6)).min(64_000);
            history.add(Reading {
                elapsed,
                arrived,
                window_bytes: Some(arrived),
                rtt: Duration::from_millis(100),
                retransmitted: step / 20,
            });
        }
        assert_eq!(history.intervals().len(), 20);
        assert!((history.steady().unwrap() - 640_000.0 * 8.0).abs() < 1.0);
        assert_eq!(history.full_s(), Some(7.0));
        // The window of this one never stops growing: it is full when it is as large as in the middle of the second half.
        assert_eq!(history.full_window_s(), Some(16.0));
        assert_eq!(history.intervals().iter().map(|i| i.retransmitted).sum::<u64>(), 10);
    }

    #[test]
    fn several_are_as_long_as_the_shortest() {
        let one = |seconds: u64, window_bytes: Option<u64>| {
            let mut history = History::default();
            for second in 0..=seconds {
                history.add(Reading {
                    elapsed: Duration::from_secs(second),
                    arrived: second * 1_000,
                    window_bytes,
                    rtt: Duration::from_secs(seconds),
                    retransmitted: second,
                });
            }
            history
        };
        let both = History::together(&[&one(6, Some(10)), &one(4, Some(5))]);
        assert_eq!(both.intervals().len(), 4);
        let first = Interval {
            end_s: 1.0,
            bits_per_s: 16_000.0,
            window_bytes: Some(15),
            rtt_s: 5.0,
            retransmitted: 2,
        };
        assert_eq!(both.intervals()[0], first);
        assert_eq!((both.full_s(), both.full_window_s()), (Some(1.0), Some(1.0)));
        // A receiver does not know the window.
        let unknown = History::together(&[&one(6, None), &one(6, Some(5))]);
        assert_eq!((unknown.full_s(), unknown.full_window_s()), (Some(1.0), None));
        assert_eq!(History::together(&[]), History::default());
    }

    #[test]
    fn a_short_stream_has_no_steady_rate() {
        assert_eq!((History::default().steady(), History::default().full_s()), (None, None));
    }
}
