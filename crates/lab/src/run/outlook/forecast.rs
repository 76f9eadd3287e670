//! The time that the rest of a run takes: the plan's times, corrected by the times that cells took and by the share of them
//! that had to be run again.

use std::time::Duration;

use crate::run::schedule::MAX_ATTEMPTS;

/// Weight of the plan's own times, and of valid attempts, before the first measurement.
const PRIOR: Duration = Duration::from_secs(20);
const PRIOR_ATTEMPTS: u32 = 4;

/// Attempts so far: their times by the plan, and their real ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forecast {
    expected: Duration,
    took: Duration,
    attempts: u32,
    invalid: u32,
}

impl Forecast {
    /// An attempt that ended.
    pub(crate) fn ended(&mut self, expected: Duration, took: Duration, is_invalid: bool) {
        self.expected += expected;
        self.took += took;
        self.attempts += 1;
        self.invalid += u32::from(is_invalid);
    }

    /// The likely time of an attempt that takes `expected` by the plan.
    pub(crate) fn really(&self, expected: Duration) -> Duration {
        let factor = (self.took + PRIOR).as_secs_f64() / (self.expected + PRIOR).as_secs_f64();
        expected.mul_f64(factor)
    }

    /// Likely time of cells that take `expected` by the plan, with the attempts to repeat.
    pub(crate) fn with_repeats(&self, expected: Duration) -> Duration {
        let share = f64::from(self.invalid) / f64::from(self.attempts + PRIOR_ATTEMPTS);
        self.really(expected).mul_f64((1.0 / (1.0 - share)).min(f64::from(MAX_ATTEMPTS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn begins_as_the_plan_says_and_follows_what_cells_took() {
        let mut forecast = Forecast::default();
        assert_eq!(forecast.with_repeats(S * 100), S * 100);
        (0..20).for_each(|_| forecast.ended(S * 5, S * 6, false));
        let left = forecast.with_repeats(S * 100);
        assert!((S * 115..S * 120).contains(&left), "{left:?}");
        assert_eq!(forecast.really(S * 100), left, "none had to be run again");
    }

    #[test]
    fn cells_that_have_to_be_run_again_are_expected() {
        let mut forecast = Forecast::default();
        for n in 0..40 {
            forecast.ended(S * 5, S * 5, n % 4 == 0);
        }
        let left = forecast.with_repeats(S * 90);
        assert!((S * 110..S * 120).contains(&left), "one in four: {left:?}");
        (0..1000).for_each(|_| forecast.ended(S, S, true));
        assert_eq!(forecast.with_repeats(S), S * MAX_ATTEMPTS);
    }
}
