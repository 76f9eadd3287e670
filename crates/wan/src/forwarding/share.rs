//! Limit of a real-time thread's CPU share, below the kernel's throttling.
//!
//! All real-time threads together leave 50 ms of each second to others (`sched_rt_runtime_us`). Above it the kernel
//! stops them for the rest of the second, even on an idle processor, and packets are 40 ms late. So the thread
//! accounts for its CPU time as the kernel does and sleeps a little before the limit.

use std::time::Duration;

use event::Instant;

/// Above all ordinary threads, below the kernel's own real-time threads at 50 and more.
pub(crate) const PRIORITY: i32 = 10;
/// Of each second, in thousandths.
const USED_PERMILLE: i64 = 900;
/// Largest unused budget that is carried over: with it a second has 920 ms at most.
const SAVED_MAX_NS: i64 = 20_000_000;
/// Smallest budget for spinning.
const SPARE_NS: i64 = 5_000_000;
/// Interval between reads of the thread's CPU clock, each of which costs a quarter of a microsecond.
const READ_EVERY: Duration = Duration::from_micros(200);
/// Length of one sleep.
const PAUSE: Duration = Duration::from_micros(20);

/// Remaining CPU budget of a thread.
pub(crate) struct Share {
    left_ns: i64,
    read_at: Instant,
    used_ns: u64,
}

impl Share {
    /// A full budget at `now`; the thread's CPU clock reads `used_ns`.
    pub(crate) const fn new(now: Instant, used_ns: u64) -> Share {
        Share { left_ns: SAVED_MAX_NS, read_at: now, used_ns }
    }

    /// Sleep that is needed at `now`, if any; `used_ns` reads the thread's CPU clock.
    pub(crate) fn pause(&mut self, now: Instant, used_ns: impl FnOnce() -> u64) -> Option<Duration> {
        let passed = now.since(self.read_at);
        if passed < READ_EVERY {
            return None;
        }
        let used_ns = used_ns();
        let earned_ns = passed.as_nanos() as i64 * USED_PERMILLE / 1000;
        let spent_ns = used_ns.saturating_sub(self.used_ns) as i64;
        self.left_ns = (self.left_ns + earned_ns - spent_ns).min(SAVED_MAX_NS);
        (self.read_at, self.used_ns) = (now, used_ns);
        (self.left_ns < 0).then_some(PAUSE)
    }

    /// True if the budget allows spinning.
    pub(crate) const fn has_spare(&self) -> bool {
        self.left_ns > SPARE_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs for ten seconds in steps of 10 µs, a share `work_permille` of which is work; CPU time in each second but
    /// the first, in milliseconds.
    fn used_ms(work_permille: u64) -> Vec<u64> {
        let mut share = Share::new(Instant::ZERO, 0);
        let (mut now_ns, mut used_ns) = (0, 0);
        let mut seconds = [0; 10];
        while now_ns < 10_000_000_000 {
            used_ns += 10 * work_permille;
            seconds[now_ns as usize / 1_000_000_000] = used_ns;
            now_ns += 10_000;
            if let Some(pause) = share.pause(Instant::from_nanos(now_ns), || used_ns) {
                now_ns += pause.as_nanos() as u64;
            }
        }
        seconds.windows(2).map(|two| (two[1] - two[0]) / 1_000_000).collect()
    }

    #[test]
    fn a_thread_that_always_has_work_leaves_the_kernel_more_than_it_asks_for() {
        assert!(used_ms(1000).iter().all(|ms| (895..=920).contains(ms)), "{:?}", used_ms(1000));
    }

    #[test]
    fn one_that_has_less_never_sleeps_for_it() {
        assert!(used_ms(880).iter().all(|ms| (879..=881).contains(ms)), "{:?}", used_ms(880));
    }

    #[test]
    fn work_comes_before_what_may_be_left() {
        let mut share = Share::new(Instant::ZERO, 0);
        assert!(share.has_spare());
        for ms in 1..=300 {
            share.pause(Instant::from_nanos(ms * 1_000_000), || ms * 1_000_000);
        }
        assert!(!share.has_spare());
    }
}
