//! Times of the steps of a measurement: how long each is, and all of them at most.

use std::time::Duration;

use diagnosis::steps::StepRole;

/// Longest time of all steps except the requested load, up to a round trip of 200 ms; over longer paths in proportion.
const ALL_MOST: Duration = Duration::from_secs(60);
const LONG_RTT: Duration = Duration::from_millis(200);
/// Round trips of login, inquiries and logout.
const SESSION_ROUND_TRIPS: u32 = 10;
/// Time before figures count: for slow start, and until its overshoot has drained.
const WARM_UP: (Duration, u32) = (Duration::from_millis(500), 20);
/// The same for one request at a time, without overshoot.
const WARM_UP_LOW: (Duration, u32) = (Duration::from_millis(200), 6);
/// Time that a step is measured, and round trips: enough for a mean of a handful of requests one after the other.
const STEP: (Duration, u32) = (Duration::from_millis(700), 6);

/// Times of steps over a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Round trip.
    pub(super) rtt: Duration,
    /// Time over which the requested load is measured.
    pub(super) time: Duration,
}

impl Pace {
    /// Time before the figures of a step count.
    pub(super) fn warmup(&self, role: StepRole) -> Duration {
        let (least, round_trips) = if role == StepRole::Low { WARM_UP_LOW } else { WARM_UP };
        least + self.rtt * round_trips
    }

    /// Time that a step is measured.
    pub(super) fn time(&self, role: StepRole) -> Duration {
        match role {
            StepRole::Nominal => self.time,
            _ => STEP.0 + self.rtt * STEP.1,
        }
    }

    /// Whole time of a step, with its sessions.
    pub(super) fn whole(&self, role: StepRole) -> Duration {
        self.warmup(role) + self.time(role) + self.rtt * SESSION_ROUND_TRIPS
    }

    /// Longest time of all steps except the requested load.
    pub(super) fn most(&self, steps: u32) -> Duration {
        let longer = (self.rtt.as_secs_f64() / LONG_RTT.as_secs_f64()).max(1.0);
        (self.whole(StepRole::More) * steps).min(ALL_MOST.mul_f64(longer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_steps_take_a_minute_at_most_up_to_200_ms() {
        let most = |ms| Pace { rtt: Duration::from_millis(ms), time: Duration::from_secs(3) }.most(8);
        assert!(most(0) < Duration::from_secs(11), "{:?}", most(0));
        assert!(most(40) < Duration::from_secs(25), "{:?}", most(40));
        assert_eq!(most(200), Duration::from_secs(60));
        assert_eq!(most(400), Duration::from_secs(120));
    }
}
