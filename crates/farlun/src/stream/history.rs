//! How a stream went over time: rate and window in intervals, when it had become steady, and at what rate.

use std::time::Duration;

use serde::Serialize;

/// Length of an interval.
const INTERVAL: Duration = Duration::from_secs(1);
/// A rate within this of the steady one is full.
const FULL: f64 = 0.95;
/// Intervals that are kept: a day.
const INTERVALS_MAX: usize = 86_400;

/// One interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Interval {
    /// Its end, since the stream began.
    pub(super) end_s: f64,
    /// Payload that arrived, per second.
    pub(super) bits_per_s: f64,
    /// The sender's congestion window at its end; null at a receiver.
    pub(super) window_bytes: Option<u64>,
    /// Smoothed round trip at its end.
    pub(super) rtt_s: f64,
    /// Packets that were sent again in it.
    pub(super) retransmitted: u64,
}

/// What is known at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) elapsed: Duration,
    /// Bytes acknowledged or received since the beginning.
    pub(super) arrived: u64,
    pub(super) window_bytes: Option<u64>,
    pub(super) rtt: Duration,
    pub(super) retransmitted: u64,
}

/// The whole of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct History {
    intervals: Vec<Interval>,
    since: Option<(Duration, u64, u64)>,
}

impl History {
    /// Several as one, interval by interval, for as long as all of them have any: rates, windows and repetitions added
    /// up, ends and round trips in the middle.
    pub(super) fn together(histories: &[&History]) -> History {
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

    /// Takes a look; an interval ends with the first one after its time. Whether one did.
    pub(super) fn look(&mut self, moment: Moment) -> bool {
        let Moment { elapsed, arrived, window_bytes, rtt, retransmitted } = moment;
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

    pub(super) fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// The middle rate of the second half, in bits per second; `None` of less than four intervals.
    pub(super) fn steady(&self) -> Option<f64> {
        self.middle(|interval| Some(interval.bits_per_s))
    }

    /// When the first interval ended whose rate was full; `None` if that is not known.
    pub(super) fn full_s(&self) -> Option<f64> {
        self.full(|interval| Some(interval.bits_per_s))
    }

    /// The same of the sender's window, which is full when it is about what it is in the second half.
    pub(super) fn full_window_s(&self) -> Option<f64> {
        self.full(|interval| interval.window_bytes.map(|bytes| bytes as f64))
    }

    fn middle(&self, value: impl Fn(&Interval) -> Option<f64>) -> Option<f64> {
        let half = self.intervals[self.intervals.len() / 2..].iter();
        let mut half = half.map(value).collect::<Option<Vec<f64>>>()?;
        half.sort_unstable_by(f64::total_cmp);
        (self.intervals.len() >= 4).then(|| half[half.len() / 2])
    }

    fn full(&self, value: impl Fn(&Interval) -> Option<f64>) -> Option<f64> {
        let enough = FULL * self.middle(&value)?;
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
            history.look(Moment {
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
                history.look(Moment {
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
