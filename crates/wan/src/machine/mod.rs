//! Load of the machine by other programs while a path runs.
//!
//! CPU times of all processes are read at the beginning and at the end. Time of this process, of its children and of
//! all processes in the run's namespaces is the run's own; time of kernel threads belongs to neither; the rest is the
//! load of others. Processes in other containers are not visible: their time is the remainder of the busy time, less
//! an allowance for interrupts. An average: it shows no short burst.

mod memory;
mod processors;

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use event::Instant;
use net::clock;
use net::cpu_time::{
    self, IDLE_ENOUGH, INTERRUPTS_BUSY, OTHERS_BUSY_MAX, ProcessTimes, idle_of, is_disturbed, kthreadd,
};
use net::namespace::members;

pub(crate) use memory::available_bytes;
pub(crate) use processors::{HostProcessors, Processors};

/// Shortest measurement: over less time the ticks are too coarse.
const PRECISE_AFTER: Duration = Duration::from_secs(1);

/// Load of the machine while a path ran, in processors.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Machine {
    /// Busy with other programs.
    pub(crate) others_busy: f64,
    /// Idle, among those of the run's commands.
    pub(crate) idle: f64,
    /// All processors of the run, with that of the emulator.
    pub(crate) cpus: usize,
    /// Length of the measurement.
    pub(crate) elapsed: Duration,
}

/// Times from a moment on.
pub(crate) struct Meter {
    since: Instant,
    processors: Processors,
    then: Option<Times>,
}

/// Times since the machine started, or since the processes did.
#[derive(Default)]
struct Times {
    /// Of the processors that commands run on, and of that which moves packets alone.
    idle: Duration,
    pump_idle: Duration,
    cpus: usize,
    /// Of this process, of its children that have ended, and of everybody in the run's namespaces.
    run: Duration,
    /// Of everybody else.
    others: Duration,
    /// Of each kernel thread: some come and go.
    kernel: BTreeMap<u32, Duration>,
}

impl Machine {
    /// True if the figures are precise enough for a verdict.
    pub(crate) fn is_precise(&self) -> bool {
        self.elapsed >= PRECISE_AFTER
    }

    /// Reason why other programs may have delayed the run, if there is one.
    pub(crate) fn trouble(self) -> Option<String> {
        let Machine { others_busy, idle, cpus, .. } = self;
        (self.is_precise() && is_disturbed(others_busy, idle)).then(|| {
            format!(
                "other programs kept {others_busy:.2} of {cpus} processors busy and {idle:.2} were idle, expected at most \
                 {OTHERS_BUSY_MAX} busy or {IDLE_ENOUGH} idle"
            )
        })
    }
}

impl Meter {
    /// Begins; the run's commands are in the network namespaces with these inodes.
    pub(crate) fn start(namespaces: &[u64], processors: &Processors) -> Meter {
        let then = Times::read(namespaces, processors);
        Meter { since: clock::now(), processors: processors.clone(), then }
    }

    /// Load since the start; `None` if the kernel does not report it.
    pub(crate) fn read(&self, namespaces: &[u64]) -> Option<Machine> {
        let elapsed = clock::now().since(self.since);
        Some(Times::between(self.then.as_ref()?, &Times::read(namespaces, &self.processors)?, elapsed))
    }
}

impl Times {
    fn read(namespaces: &[u64], Processors { pump, hosts }: &Processors) -> Option<Times> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let pump_idle = pump.map_or(Some(Duration::ZERO), |pump| idle_of(&stat, &[pump]))?;
        let cpus = hosts.len() + usize::from(pump.is_some());
        let mut times = Times { idle: idle_of(&stat, hosts)?, pump_idle, cpus, ..Times::default() };
        let (kthreadd, own, inside) = (kthreadd(), std::process::id(), members(namespaces));
        for ProcessTimes { pid, parent, own: of_it, children, .. } in cpu_time::all().ok()? {
            let used = of_it + children;
            if kthreadd == Some(parent) {
                times.kernel.insert(pid, used);
            } else if pid == own || inside.contains(&pid) {
                times.run += used;
            } else {
                times.others += used;
            }
        }
        Some(times)
    }

    fn between(then: &Times, now: &Times, elapsed: Duration) -> Machine {
        let elapsed_s = elapsed.as_secs_f64();
        let share = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64() / elapsed_s;
        // Those that have come since had no time to do much.
        let of_kernel = |(pid, used): (&u32, &Duration)| Some(share(*used, *then.kernel.get(pid)?));
        let kernel: f64 = now.kernel.iter().filter_map(of_kernel).sum();
        let (idle, seen) = (share(now.idle, then.idle), share(now.others, then.others));
        let cpus = then.cpus;
        let all_idle = idle + share(now.pump_idle, then.pump_idle);
        let missing = cpus as f64 - all_idle - share(now.run, then.run) - kernel - seen;
        let others_busy = seen + (missing - INTERRUPTS_BUSY).max(0.0);
        Machine { others_busy, idle, cpus, elapsed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(idle: u64, run: u64, others: u64, kernel: &[(u32, u64)]) -> Times {
        let s = Duration::from_secs;
        let kernel = kernel.iter().map(|(pid, used)| (*pid, s(*used))).collect();
        Times { idle: s(idle), pump_idle: Duration::ZERO, cpus: 2, run: s(run), others: s(others), kernel }
    }

    #[test]
    fn what_others_took_is_seen_or_missing() {
        // Ten seconds of two processors: 3 idle, 6 of the run, 1 of a thread of the kernel, and of others 4 or none; another
        // thread has gone and one has come.
        let then = times(100, 50, 10, &[(9, 3), (10, 500)]);
        for (others, others_busy) in [(14, 0.4 + 0.1), (10, 0.5)] {
            let now = times(103, 56, others, &[(9, 4), (11, 900)]);
            let seen = Times::between(&then, &now, Duration::from_secs(10));
            assert!((seen.others_busy - others_busy).abs() < 1e-9, "{seen:?}");
            assert!((seen.idle - 0.3).abs() < 1e-9, "{seen:?}");
        }
        let now = times(107, 56, 14, &[(9, 3)]);
        let seen = Times::between(&then, &now, Duration::from_secs(10));
        assert!((seen.others_busy - 0.4).abs() < 1e-9, "three tenths were interrupts: {seen:?}");
        let text = seen.trouble().expect("they had to wait");
        assert!(
            text.starts_with("other programs kept 0.40 of 2 processors busy and 0.70 were idle"),
            "{text}"
        );
    }

    /// The thread that moves packets used most of its own processor, and other programs most of the rest.
    #[test]
    fn what_is_missing_is_missing_of_all_processors() {
        let then = times(100, 50, 10, &[]);
        let now = Times { pump_idle: Duration::from_secs(2), ..times(100, 51 + 8, 10, &[]) };
        let seen = Times::between(&then, &now, Duration::from_secs(10));
        assert!((seen.others_busy - (0.9 - INTERRUPTS_BUSY)).abs() < 1e-9, "{seen:?}");
        assert!(seen.trouble().is_some(), "{seen:?}");
    }

    #[test]
    fn a_quarter_of_a_processor_or_a_whole_idle_one_is_no_trouble() {
        for (others_busy, idle, is_troubled) in
            [(0.0, 0.0, false), (0.25, 0.0, false), (0.26, 0.9, true), (3.0, 1.0, false), (2.0, 0.0, true)]
        {
            let machine = Machine { others_busy, idle, cpus: 4, elapsed: Duration::from_secs(1) };
            assert_eq!(machine.trouble().is_some(), is_troubled, "{machine:?}");
            let short = Machine { elapsed: Duration::from_millis(999), ..machine };
            assert_eq!(short.trouble(), None, "too short to tell");
        }
    }

    #[test]
    fn this_machine_tells() {
        let processors = Processors { pump: None, hosts: net::scheduling::allowed_cpus().unwrap() };
        let machine = Meter::start(&[], &processors).read(&[]).unwrap();
        assert_eq!(machine.cpus, processors.hosts.len());
    }
}
