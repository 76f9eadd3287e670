//! CPU time of processes and of the machine, from /proc, and the busiest processes between two samples.
//!
//! Reads proc_stat(5) and proc_pid_stat(5). Processes of other containers are invisible: their time is the part of the
//! machine's busy time that no process accounts for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::time::Duration;

use event::Instant;

use crate::clock;
use crate::process::scheduling;

/// Unit of CPU time in /proc: hundredths of a second, whatever the kernel's tick (USER_HZ, proc_stat(5)).
const TICK_MS: u64 = 10;
/// Parent of the kernel's threads, by ID and name; invisible in a container.
const KTHREADD: (u32, &str) = (2, "kthreadd");

/// CPUs that interrupts may use: their time belongs to no process, and the kernel only samples it.
pub const INTERRUPTS_BUSY: f64 = 0.5;
/// CPUs that other programs may use, whatever the load.
pub const OTHERS_BUSY_MAX: f64 = 0.25;
/// Mean number of idle CPUs at which no thread waits for a CPU.
pub const IDLE_ENOUGH: f64 = 1.0;

/// True if a measurement may have waited for other programs.
pub fn is_disturbed(others_busy: f64, idle: f64) -> bool {
    others_busy > OTHERS_BUSY_MAX && idle < IDLE_ENOUGH
}

/// CPU times of a process since its start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessTimes {
    /// Process ID.
    pub pid: u32,
    /// Process ID of the parent.
    pub parent: u32,
    /// Name of the process, as set by itself or its parent.
    pub name: String,
    /// CPU time of its threads.
    pub own: Duration,
    /// CPU time of its children that have ended and were waited for.
    pub children: Duration,
}

/// CPU times of the machine since its start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct MachineTimes {
    idle: Duration,
    /// Time that the hypervisor gave to other guests.
    stolen: Duration,
}

/// All CPU times at one moment.
#[derive(Clone, Debug)]
pub struct Look {
    at: Instant,
    cpus: usize,
    machine: MachineTimes,
    processes: Vec<ProcessTimes>,
    kthreadd: Option<u32>,
}

/// A process that used CPU time between two samples.
#[derive(Clone, PartialEq, Debug)]
pub struct Busy {
    /// Process ID.
    pub pid: u32,
    /// Name of the process.
    pub name: String,
    /// Mean number of CPUs that the process and its ended children used.
    pub processors: f64,
}

/// Mean use of CPUs between two samples.
#[derive(Clone, PartialEq, Debug)]
pub struct Usage {
    /// Number of CPUs allowed to this process.
    pub cpus: usize,
    /// Idle CPUs among them.
    pub idle: f64,
    /// CPUs used by the hypervisor for other guests.
    pub stolen: f64,
    /// CPUs used by invisible processes, such as those of other containers, and by interrupts.
    pub unseen: f64,
    /// Processes other than this one, the busiest first. Threads of the kernel are left out.
    pub busy: Vec<Busy>,
}

impl Look {
    /// Takes a sample.
    ///
    /// # Errors
    /// /proc lacks the files or the CPUs.
    pub fn now() -> io::Result<Look> {
        let processors = scheduling::allowed_cpus()?;
        let stat = fs::read_to_string("/proc/stat")?;
        let machine = machine_times(&stat, &processors).ok_or(io::ErrorKind::InvalidData)?;
        let (processes, kthreadd) = (all()?, kthreadd());
        Ok(Look { at: clock::now(), cpus: processors.len(), machine, processes, kthreadd })
    }

    /// Usage between this sample and a later one.
    pub fn until(&self, later: &Look) -> Usage {
        let elapsed_s = later.at.since(self.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let share = |time: Duration| time.as_secs_f64() / elapsed_s;
        let used = used_between(&self.processes, &later.processes);
        let is_kernel = |process: &ProcessTimes| {
            later.kthreadd.is_some_and(|kthreadd| [process.parent, process.pid].contains(&kthreadd))
        };
        let seen: Duration = used.values().copied().sum();
        let own = std::process::id();
        let mut busy: Vec<Busy> = later
            .processes
            .iter()
            .filter(|process| process.pid != own && !is_kernel(process))
            .filter_map(|process| {
                let time = used.get(&process.pid).copied().filter(|time| !time.is_zero())?;
                Some(Busy { pid: process.pid, name: process.name.clone(), processors: share(time) })
            })
            .collect();
        busy.sort_by(|a, b| b.processors.total_cmp(&a.processors));
        let between = |now: Duration, then: Duration| share(now.saturating_sub(then));
        let idle = between(later.machine.idle, self.machine.idle);
        let stolen = between(later.machine.stolen, self.machine.stolen);
        let unseen = (later.cpus as f64 - idle - stolen - share(seen)).max(0.0);
        Usage { cpus: later.cpus, idle, stolen, unseen, busy }
    }
}

/// All visible processes.
///
/// # Errors
/// There is no /proc.
pub fn all() -> io::Result<Vec<ProcessTimes>> {
    let names = fs::read_dir("/proc")?.flatten().map(|entry| entry.file_name());
    let pids = names.filter_map(|name| name.to_str()?.parse::<u32>().ok());
    // The time of a process that ends during the scan is soon added to its parent's.
    Ok(pids.filter_map(|pid| process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).collect())
}

/// Process ID of the parent of the kernel's threads; `None` in a container, in which they are invisible.
pub fn kthreadd() -> Option<u32> {
    let (pid, name) = KTHREADD;
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    (comm.trim_end() == name).then_some(pid)
}

/// Idle time of these CPUs in /proc/stat; `None` if one of them is missing.
pub fn idle_of(stat: &str, processors: &[usize]) -> Option<Duration> {
    machine_times(stat, processors).map(|times| times.idle)
}

/// Fields of a CPU's line: user, nice, system, idle, iowait, irq, softirq, steal.
fn machine_times(stat: &str, processors: &[usize]) -> Option<MachineTimes> {
    let mut sum = MachineTimes::default();
    for number in processors {
        let mut lines = stat.lines().filter_map(|line| line.strip_prefix("cpu")?.split_once(' '));
        let (_, fields) = lines.find(|(name, _)| name.parse() == Ok(*number))?;
        let times: Vec<Duration> = fields.split_whitespace().map_while(ticks).collect();
        let [_, _, _, idle, waiting, ..] = times[..] else { return None };
        sum.idle += idle + waiting;
        // Kernels before 2.6.11 have no such field.
        sum.stolen += times.get(7).copied().unwrap_or_default();
    }
    Some(sum)
}

/// The name may contain spaces and brackets, so fields are counted after it: state, parent, …, and as the twelfth to
/// fifteenth utime, stime, cutime, cstime.
fn process(stat: &str) -> Option<ProcessTimes> {
    let (head, rest) = stat.rsplit_once(')')?;
    let (pid, name) = head.split_once('(')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let times: Vec<Duration> = fields.get(11..15)?.iter().map_while(|field| ticks(field)).collect();
    let [user, system, children_user, children_system] = times[..] else { return None };
    Some(ProcessTimes {
        pid: pid.trim().parse().ok()?,
        parent: fields[1].parse().ok()?,
        // Process names are arbitrary.
        name: name.chars().map(|c| if c.is_control() { '?' } else { c }).collect(),
        own: user + system,
        children: children_user + children_system,
    })
}

/// CPU time of each process between two samples. The whole time of a child that ended meanwhile is added to its
/// parent's: the part before the first sample is subtracted.
fn used_between(then: &[ProcessTimes], now: &[ProcessTimes]) -> BTreeMap<u32, Duration> {
    let before: BTreeMap<u32, &ProcessTimes> = then.iter().map(|process| (process.pid, process)).collect();
    let alive: BTreeSet<u32> = now.iter().map(|process| process.pid).collect();
    let mut ended: BTreeMap<u32, Duration> = BTreeMap::new();
    for gone in then.iter().filter(|process| !alive.contains(&process.pid)) {
        *ended.entry(gone.parent).or_default() += gone.own + gone.children;
    }
    let used = now.iter().map(|process| {
        let (own, children) = before.get(&process.pid).map_or_else(Default::default, |p| (p.own, p.children));
        let of_ended = ended.get(&process.pid).copied().unwrap_or_default();
        let of_children = process.children.saturating_sub(children).saturating_sub(of_ended);
        (process.pid, process.own.saturating_sub(own) + of_children)
    });
    used.collect()
}

fn ticks(field: &str) -> Option<Duration> {
    field.parse::<u64>().ok()?.checked_mul(TICK_MS).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(TICK_MS);
    const STAT: &str = "cpu  100 20 3 999 88 4 5 6 7 0\ncpu0 50 20 2 500 40 4 1 6 7 0\n\
                        cpu1 50 0 1 499 48 0 4 0 0 0\ncpu10 1 1 1 1 1 1 1 1 1 1\nintr 12 3\n";

    #[test]
    fn only_the_processors_that_may_be_used_count() {
        assert_eq!(idle_of(STAT, &[0, 1]), Some(TICK * 1087));
        assert_eq!(idle_of(STAT, &[1, 10]), Some(TICK * 549));
        assert_eq!(idle_of(STAT, &[1, 7]), None);
        for broken in ["", "cpu0 1 2 3", "cpu0 a b c d e f g", "cpux 1 2 3 4 5 6 7"] {
            assert_eq!(idle_of(broken, &[0]), None, "{broken:?}");
        }
        assert_eq!(machine_times(STAT, &[0, 1]).map(|times| times.stolen), Some(TICK * 6));
        assert_eq!(machine_times("cpu0 1 2 3 4 5", &[0]).map(|times| times.stolen), Some(Duration::ZERO));
    }

    #[test]
    fn a_process_tells_its_parent_its_name_and_its_times() {
        let stat = "7 (a) b (c)) S 2 7 7 0 -1 4194304 1 0 0 0 10 20 3 4 20 0 1 0 55 0 0";
        let found = process(stat).unwrap();
        assert_eq!((found.pid, found.parent, found.name.as_str()), (7, 2, "a) b (c)"));
        assert_eq!((found.own, found.children), (TICK * 30, TICK * 7));
        for broken in ["", "7 (a", "7 (a) S 2", "7 (a) S x 7 7 0 -1 4194304 1 0 0 0 10 20 3 4 20"] {
            assert_eq!(process(broken), None, "{broken:?}");
        }
    }

    fn times(pid: u32, parent: u32, name: &str, own: u32, children: u32) -> ProcessTimes {
        ProcessTimes { pid, parent, name: name.to_owned(), own: TICK * own, children: TICK * children }
    }

    fn look(at_ns: u64, idle: u32, processes: Vec<ProcessTimes>) -> Look {
        let machine = MachineTimes { idle: TICK * idle, stolen: TICK * (idle / 10) };
        Look { at: Instant::from_nanos(at_ns), cpus: 2, machine, processes, kthreadd: Some(2) }
    }

    /// One second of two processors: a spinning process, a thread of the kernel, and a build whose compilers come and
    /// go.
    #[test]
    fn the_busiest_come_first_and_ended_children_are_their_parents() {
        let own = std::process::id();
        let then = look(
            0,
            1000,
            vec![
                times(2, 0, "kthreadd", 1, 0),
                times(3, 2, "kworker", 10, 0),
                times(40, 1, "spin", 500, 0),
                times(50, 1, "make", 10, 100),
                times(51, 50, "cc1", 30, 0),
                times(60, 1, "sleep", 7, 0),
                times(own, 1, "this", 5, 0),
            ],
        );
        let now = look(
            1_000_000_000,
            1020,
            vec![
                times(2, 0, "kthreadd", 1, 0),
                times(3, 2, "kworker", 20, 0),
                times(40, 1, "spin", 600, 0),
                // The compiler had 30 ticks before and 20 since; another one of 15 came and went.
                times(50, 1, "make", 11, 100 + 50 + 15),
                times(60, 1, "sleep", 7, 0),
                times(own, 1, "this", 9, 0),
            ],
        );
        let usage = then.until(&now);
        let busy: Vec<(u32, &str)> = usage.busy.iter().map(|busy| (busy.pid, busy.name.as_str())).collect();
        assert_eq!(busy, [(40, "spin"), (50, "make")]);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(usage.busy[0].processors, 1.0) && close(usage.busy[1].processors, 0.36), "{usage:?}");
        assert!(close(usage.idle, 0.2) && close(usage.stolen, 0.02), "{usage:?}");
        // All but 0.2 idle, 0.02 stolen, 1.0, 0.36, 0.1 of the kernel and 0.04 of this process.
        assert!(close(usage.unseen, 2.0 - 0.2 - 0.02 - 1.0 - 0.36 - 0.1 - 0.04), "{usage:?}");
    }

    #[test]
    fn a_process_that_spins_is_found_by_name_and_number() {
        let mut shell = std::process::Command::new("sh");
        let mut spinning = shell.args(["-c", "while :; do :; done"]).spawn().unwrap();
        let then = Look::now().unwrap();
        let began = std::time::Instant::now();
        let found = loop {
            let usage = then.until(&Look::now().unwrap());
            let found = usage.busy.into_iter().find(|busy| busy.pid == spinning.id());
            // Even on a busy machine the process gets a tick of 10 ms eventually.
            if found.is_some() || began.elapsed() > Duration::from_secs(60) {
                break found;
            }
        };
        spinning.kill().unwrap();
        spinning.wait().unwrap();
        let found = found.expect("a process that spins takes time");
        assert!(found.name == "sh" && found.processors > 0.0, "{found:?}");
    }

    #[test]
    fn this_machine_is_read() {
        let (then, now) = (Look::now().unwrap(), Look::now().unwrap());
        assert!(then.processes.iter().any(|process| process.pid == std::process::id()));
        let usage = then.until(&now);
        assert!(usage.cpus >= 1 && usage.busy.iter().all(|busy| busy.pid != std::process::id()));
    }
}
