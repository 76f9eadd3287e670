//! Progress of a run. The command line chooses its presentation.

use std::time::{Duration, Instant};

/// One attempt at one cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Place in the order of the run, from 1.
    pub number: usize,
    /// Number of steps.
    pub of: usize,
    /// The cell in words: `read at delay 8ms`.
    pub words: String,
    /// Repeat, from 1.
    pub repeat: u32,
    /// Attempt, from 1; more than one if the earlier ones were not valid.
    pub attempt: u32,
    /// Likely time of the cell.
    pub expected: Duration,
    /// Likely time of this and all later steps, with the attempts to repeat.
    pub left: Duration,
}

/// Receiver of progress.
pub trait Progress {
    /// An attempt begins.
    fn begins(&mut self, step: &Step);
    /// An attempt ended; `trouble` is the reason if it yields no figures.
    fn ended(&mut self, step: &Step, trouble: Option<&str>);
}

/// The remaining time as it is shown: it follows the forecast and never rises. Where the forecast rises, the shown time
/// falls the slower, so that both come to their end together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Countdown(Option<Stretch>);

/// An attempt in progress.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    since: Instant,
    expected: Duration,
    left: Duration,
    /// Shown when it began; no longer than `left`.
    shown: Duration,
}

impl Countdown {
    /// An attempt begins.
    pub fn begins(&mut self, step: &Step, now: Instant) {
        let shown = self.shown(now).map_or(step.left, |shown| shown.min(step.left));
        self.0 = Some(Stretch { since: now, expected: step.expected, left: step.left, shown });
    }

    /// The remaining time; `None` before anything began.
    pub fn shown(&self, now: Instant) -> Option<Duration> {
        let Stretch { since, expected, left, shown } = self.0?;
        // Over its time an attempt holds the clock: the cells after it are left all the same.
        let gone = now.saturating_duration_since(since).min(expected).min(left);
        let rest = (left - gone).as_secs_f64() / left.as_secs_f64().max(f64::MIN_POSITIVE);
        Some(shown.mul_f64(rest))
    }
}

/// A receiver that shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begins(&mut self, _step: &Step) {}
    fn ended(&mut self, _step: &Step, _trouble: Option<&str>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn step(expected: u32, left: u32) -> Step {
        let words = String::new();
        Step { number: 1, of: 9, words, repeat: 1, attempt: 1, expected: S * expected, left: S * left }
    }

    #[test]
    fn the_remaining_time_never_rises_and_ends_with_the_run() {
        let (mut countdown, mut now) = (Countdown::default(), Instant::now());
        assert_eq!(countdown.shown(now), None);
        // Cells that take longer than forecast, and some that have to be run again: the forecast rises twice.
        let steps = [(10, 100, 14), (10, 104, 10), (12, 80, 8), (12, 90, 12), (10, 40, 30), (10, 10, 10)];
        let mut shown = Duration::MAX;
        for (expected, left, took) in steps {
            countdown.begins(&step(expected, left), now);
            for _ in 0..=took * 4 {
                let next = countdown.shown(now).unwrap();
                assert!(next <= shown && next <= S * left, "{next:?} after {shown:?}");
                shown = next;
                now += S / 4;
            }
        }
        assert_eq!(shown, Duration::ZERO);
    }

    #[test]
    fn a_forecast_that_falls_is_followed_at_once() {
        let (mut countdown, now) = (Countdown::default(), Instant::now());
        countdown.begins(&step(10, 100), now);
        assert_eq!(countdown.shown(now + S * 5), Some(S * 95));
        countdown.begins(&step(10, 40), now + S * 10);
        assert_eq!(countdown.shown(now + S * 10), Some(S * 40));
        // It rises to 60, of which 40 are shown: three seconds are shown as two.
        countdown.begins(&step(10, 60), now + S * 10);
        assert_eq!(countdown.shown(now + S * 13), Some(S * 38));
    }
}
