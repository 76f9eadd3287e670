//! The thread that moves packets between the devices, each at its scheduled time.
//!
//! One thread serves both directions: the answer to a packet (an acknowledgement, the next data) is made inside the
//! write that delivers it, and is read without a wake-up. Two threads spent twice the CPU time on waking each other
//! and left the measured programs no room on a machine of two processors.
//!
//! The thread sleeps until shortly before the next packet is due or one arrives, and spins over the rest: a sleeping
//! processor wakes some tens of microseconds late. While it spins it still polls the inputs, so that packets get the
//! time of their arrival. It never sleeps for longer than a heartbeat: a packet that arrived while the thread was
//! stopped is timestamped late, and [`Watch`](super::watch::Watch) bounds that error. It never allocates for a
//! packet, never writes a file, and drops only packets that the model drops or that it reports.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use event::Instant;
use net::{Wake, clock, scheduling, wait};
use serde::Serialize;

use super::lane::Lane;
use super::relief::{Liveness, Relief};
use super::share::{PRIORITY, Share};
use super::taps::Taps;
use crate::machine::Processors;

/// The thread stops sleeping at most this long before a packet is due.
const SPIN_MAX: Duration = Duration::from_micros(50);
/// Largest share of a processor for spinning, in percent.
const SPIN_PERCENT: u64 = 50;
/// Spinning saved up while there was nothing to spin for.
const SPIN_SAVED_NS: u64 = 5_000_000;
/// Longest sleep of the thread, which bounds the uncertainty of arrivals. It costs a hundredth of a processor on an
/// idle path.
const HEARTBEAT: Duration = Duration::from_millis(1);

/// Both directions of a running path.
pub(crate) struct Pump {
    lanes: [Lane; 2],
    taps: Option<Taps>,
    signals: Arc<Signals>,
    /// Processor of the thread; `None` for any.
    cpu: Option<usize>,
    /// Ends with the thread.
    _relief: Option<Relief>,
}

/// Control of the thread by its owner.
pub(crate) struct Signals {
    over: AtomicBool,
    /// Start of COMMAND; 0 before it.
    begun_ns: AtomicU64,
    wake: Wake,
    liveness: Arc<Liveness>,
}

/// CPU time of moving packets over the whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Cost {
    /// CPU time of the thread, including the receiving host's TCP, which runs in it.
    pub cpu_ns: u64,
    /// Part of it that was spinning.
    pub spin_ns: u64,
    /// True if the kernel granted the thread real-time priority.
    pub realtime: bool,
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Arc<Signals>> {
        let signals = Signals {
            over: AtomicBool::new(false),
            begun_ns: AtomicU64::new(0),
            wake: Wake::new()?,
            liveness: Arc::default(),
        };
        Ok(Arc::new(signals))
    }

    /// Sets the origin of schedules: the start of COMMAND.
    pub(crate) fn begin(&self, now: Instant) {
        self.begun_ns.store(now.as_nanos(), Ordering::Release);
    }

    pub(crate) fn stop(&self) {
        self.over.store(true, Ordering::Release);
        self.wake.wake();
    }
}

impl Pump {
    /// With another thread beside it if the hosts have rings that are filled in `ring`.
    pub(crate) fn new(
        lanes: [Lane; 2],
        taps: Option<Taps>,
        signals: Arc<Signals>,
        ring: Duration,
        processors: &Processors,
    ) -> std::io::Result<Pump> {
        let rings: Vec<_> = lanes.iter().filter_map(Lane::rings).collect();
        // Not the processor of this thread.
        let cpu = processors.pump.and(processors.hosts.last());
        let relief = match cpu {
            Some(cpu) if !rings.is_empty() => Relief::start(ring, rings, signals.liveness.clone(), *cpu)?,
            _ => None,
        };
        Ok(Pump { lanes, taps, signals, cpu: processors.pump, _relief: relief })
    }

    /// Moves packets until `Signals::stop`. An error is one of reading a device, which ends the run.
    pub(crate) fn run(mut self) -> std::io::Result<Cost> {
        if let Some(cpu) = self.cpu {
            scheduling::keep_to(&[cpu])?;
        }
        let realtime = scheduling::realtime(PRIORITY).is_ok();
        scheduling::exact_timers()?;
        // Without it (no root, no such device) packets are timestamped later by the wake-up latency; the self-test
        // shows it.
        let _awake = scheduling::stay_awake().ok();
        let mut share = Share::new(clock::now(), clock::thread_cpu_ns());
        let mut spin = Spin::new(clock::now());
        let mut begun = false;
        let mut called = false;
        while !self.signals.over.load(Ordering::Acquire) {
            let mut moved = 0;
            for lane in &mut self.lanes {
                moved += lane.deliver(self.taps.as_mut()) + lane.read(self.taps.as_mut())?;
                self.signals.liveness.show(clock::now());
            }
            if moved == 0 {
                if called {
                    // A device that is gone is readable for ever.
                    self.lanes.iter().try_for_each(Lane::check)?;
                }
                called = self.rest(&mut spin, share.has_spare())?;
            } else {
                called = false;
            }
            let now = clock::now();
            if moved == 0
                && let Some(taps) = &mut self.taps
            {
                taps.idle(now);
            }
            if !begun && let begun_ns @ 1.. = self.signals.begun_ns.load(Ordering::Acquire) {
                begun = true;
                self.lanes.iter_mut().for_each(|lane| lane.begin(Instant::from_nanos(begun_ns)));
            }
            if realtime && let Some(pause) = share.pause(now, clock::thread_cpu_ns) {
                self.signals.liveness.show(now + pause);
                wait::readable([self.signals.wake.as_fd()], Some(pause))?;
            }
        }
        Ok(Cost { cpu_ns: clock::thread_cpu_ns(), spin_ns: spin.spent_ns, realtime })
    }

    /// Sleeps, or spins if a packet is due at once, `may_spin` and the budget allows it. True if an input, or the
    /// signal, was readable.
    fn rest(&mut self, spin: &mut Spin, may_spin: bool) -> std::io::Result<bool> {
        let [out, back] = &self.lanes;
        let due = out.next_at().into_iter().chain(back.next_at()).min();
        let signal = self.signals.wake.as_fd();
        let inputs = [out.input().unwrap_or(signal), back.input().unwrap_or(signal), signal];
        let now = clock::now();
        let margin = if may_spin { spin.margin(now) } else { Duration::ZERO };
        if let Some(due) = due.filter(|due| due.since(now) <= margin) {
            let woken =
                spin.until(now, due, || Ok(wait::readable(inputs, Some(Duration::ZERO))?.contains(&true)))?;
            self.lanes.iter_mut().for_each(|lane| lane.looked_until(woken.min(due)));
            return Ok(woken < due);
        }
        let wake = due.map(|due| due - margin);
        let resume = out.resumes_at().into_iter().chain(back.resumes_at()).min();
        let until = wake.into_iter().chain(resume).chain([now + HEARTBEAT]).min().expect("one of three");
        self.signals.liveness.show(until);
        let input = wait::readable(inputs, Some(until.since(now)))?.contains(&true);
        let woken = clock::now();
        if wake == Some(until) && !input {
            spin.learn(woken.since(until));
        }
        self.lanes.iter_mut().for_each(|lane| lane.looked_until(woken.min(until)));
        Ok(input)
    }
}

/// Spinning before a due packet: as long as the machine usually oversleeps, within a budget that fills at
/// [`SPIN_PERCENT`] of the time.
struct Spin {
    /// 90th percentile of oversleeping.
    oversleep_ns: u64,
    saved_ns: u64,
    filled: Instant,
    spent_ns: u64,
}

/// Step of the estimate of oversleeping: up by this after a longer sleep, down by a ninth of it after a shorter one,
/// so that it settles at the 90th percentile.
const LEARN_NS: u64 = 900;

impl Spin {
    fn new(now: Instant) -> Spin {
        let oversleep_ns = SPIN_MAX.as_nanos() as u64;
        Spin { oversleep_ns, saved_ns: SPIN_SAVED_NS, filled: now, spent_ns: 0 }
    }

    /// Time before a due packet at which to stop sleeping.
    fn margin(&mut self, now: Instant) -> Duration {
        let earned_ns = now.since(self.filled).as_nanos() as u64 * SPIN_PERCENT / 100;
        self.saved_ns = (self.saved_ns + earned_ns).min(SPIN_SAVED_NS);
        self.filled = now;
        Duration::from_nanos(self.oversleep_ns.min(self.saved_ns))
    }

    /// A sleep was `late` longer than planned.
    fn learn(&mut self, late: Duration) {
        if late.as_nanos() > u128::from(self.oversleep_ns) {
            self.oversleep_ns = (self.oversleep_ns + LEARN_NS).min(SPIN_MAX.as_nanos() as u64);
        } else {
            self.oversleep_ns = self.oversleep_ns.saturating_sub(LEARN_NS / 9);
        }
    }

    /// Spins from `start` until `end` or until `interrupted` returns true. Returns the end of the spin.
    fn until(
        &mut self,
        start: Instant,
        end: Instant,
        mut interrupted: impl FnMut() -> std::io::Result<bool>,
    ) -> std::io::Result<Instant> {
        let mut now = start;
        while now < end && !interrupted()? {
            now = clock::now();
        }
        let spun_ns = now.since(start).as_nanos() as u64;
        self.saved_ns = self.saved_ns.saturating_sub(spun_ns);
        self.spent_ns += spun_ns;
        Ok(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_follows_what_nine_of_ten_sleeps_need() {
        let mut spin = Spin::new(Instant::ZERO);
        for n in 0..10_000u64 {
            // From 10 to 19 µs, evenly.
            spin.learn(Duration::from_micros(10 + n * 7 % 10));
        }
        let margin = spin.margin(Instant::ZERO);
        assert!(margin > Duration::from_micros(16) && margin < Duration::from_micros(21), "{margin:?}");
    }

    #[test]
    fn spinning_ends_with_its_budget_and_comes_back_with_time() {
        let mut spin = Spin::new(Instant::ZERO);
        spin.until(Instant::ZERO, clock::now(), || Ok(false)).expect("nothing can fail");
        assert_eq!(spin.margin(Instant::ZERO), Duration::ZERO, "far more was spun than was saved");
        let later = Instant::from_nanos(20_000);
        assert_eq!(spin.margin(later), Duration::from_micros(10));
        assert_eq!(spin.margin(later + Duration::from_secs(1)), SPIN_MAX);
    }
}
