//! Effect of a session that floods its window on another's single requests: a victim with 4 KiB random reads at depth 1,
//! alone, beside a flood of the same target, and beside a flood of another process's target, which shows the competition
//! for processors alone.
//!
//! Real-time priorities (`chrt -f`) put the serving loops and the victim before the flood; without them the figures are
//! the scheduler's time slices. The threads that call stores stay ordinary ones: busy all the time and with a real-time
//! priority they would keep the kernel's own network thread from the processor, by up to 50 ms at a time.

mod priority;
mod raw;
mod requests;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::Service;
use e2e::ours::Target;

use crate::bench::length::Length;
use crate::bench::program::{Build, Document, GRACE, start_target};
use crate::bench::rounds::{Figure, Load, Plan, Series, Side, alternate, head, interleave, row};
use crate::workspace;
use priority::{Priority, WARMUP_SECONDS, has_priorities, prioritised};
use requests::{REQUESTS, Request, RequestBench};

/// Most of the victim's 99th percentile beside a flood of the same target to that alone.
const SAME_MAX: f64 = 3.0;

const LUN_BYTES: u64 = 1 << 30;
const MEMORY: &str = "memory:1GiB";
/// Stores with the LUN numbers of the victim and the flood.
const STORES: [Store; 2] =
    [Store { name: "memory", victim: 0, flooded: 1 }, Store { name: "file", victim: 2, flooded: 3 }];
const FLOODS: [Flood; 4] = [
    Flood { name: "4 KiB reads, depth 4096", op: "read", block: "4KiB", depth: "4096" },
    Flood { name: "1 MiB reads, depth 64", op: "read", block: "1MiB", depth: "64" },
    Flood { name: "1 MiB writes, depth 64", op: "write", block: "1MiB", depth: "64" },
    Flood { name: "4 MiB writes, depth 64", op: "write", block: "4MiB", depth: "64" },
];

struct Store {
    name: &'static str,
    victim: u32,
    flooded: u32,
}

struct Flood {
    name: &'static str,
    op: &'static str,
    block: &'static str,
    depth: &'static str,
}

pub(super) fn run(length: Length) -> Result<bool> {
    let Plan { rounds, seconds } = length.plan(15, 2);
    let bench = Bench::start(&Build::current(), 2, has_priorities())?;
    let mut good = true;
    for store in &STORES {
        head(
            &format!(
                "p99 in µs of 4 KiB reads at depth 1 beside a flood, {} LUNs, {rounds} rounds of {seconds} s",
                store.name
            ),
            ["first", "second"],
        );
        for flood in &FLOODS {
            // Alone, beside a flood of the same target, beside a flood of another.
            let measured: Vec<[f64; 3]> = interleave(rounds, |place| {
                bench.p99_us(store, place.checked_sub(1).map(|target| (flood, target)), seconds)
            })?;
            let pair = |[a, b]: [usize; 2]| measured.iter().map(|p99_us| [p99_us[a], p99_us[b]]).collect();
            let figure = |places: &str| Figure::cost(format!("{}: {places}", flood.name), 0);
            good &=
                row(&Series { figure: figure("same target, alone").bound(SAME_MAX), rounds: pair([1, 0]) });
            good &= row(&Series { figure: figure("same target, another target"), rounds: pair([1, 2]) });
            row(&Series { figure: figure("another target, alone"), rounds: pair([2, 0]) });
        }
    }
    Ok(good)
}

/// Beside floods of requests that cost time.
pub(super) fn run_requests(length: Length) -> Result<bool> {
    let Plan { rounds, seconds } = length.plan(15, 2);
    let bench = RequestBench::start(&Build::current(), 2, has_priorities())?;
    head(
        &format!(
            "p99 in µs of answers to 4 KiB reads at depth 1 beside a flood of requests, memory LUNs, {rounds} rounds of {seconds} s"
        ),
        ["first", "second"],
    );
    let mut good = true;
    for (request, name) in REQUESTS {
        let measured: Vec<[f64; 3]> = interleave(rounds, |place| {
            bench.p99_us(place.checked_sub(1).map(|target| (request, target)), seconds)
        })?;
        let pair = |[a, b]: [usize; 2]| measured.iter().map(|p99_us| [p99_us[a], p99_us[b]]).collect();
        let figure = |places: &str| Figure::cost(format!("{name}: {places}"), 0);
        good &= row(&Series { figure: figure("same target, alone").bound(SAME_MAX), rounds: pair([1, 0]) });
        row(&Series { figure: figure("another target, alone"), rounds: pair([2, 0]) });
    }
    Ok(good)
}

pub(super) fn against(builds: &[Build; 2], plan: Plan) -> Result<Vec<Series>> {
    let has_priorities = has_priorities();
    let start = |build| Bench::start(build, 1, has_priorities);
    let sides = builds.each_ref().map(|build| Side::new(build.name(), move || start(build)));
    let mut loads = Vec::new();
    for store in &STORES {
        let name =
            |beside: &str| format!("p99 in µs of 4 KiB reads at depth 1, {} LUNs, {beside}", store.name);
        loads.push(Load::new(vec![Figure::cost(name("alone"), 0)], move |bench: &Bench| {
            Ok(vec![bench.p99_us(store, None, plan.seconds)?])
        }));
        for flood in &FLOODS {
            loads.push(Load::new(
                vec![Figure::cost(name(&format!("beside {}", flood.name)), 0)],
                move |bench: &Bench| Ok(vec![bench.p99_us(store, Some((flood, 0)), plan.seconds)?]),
            ));
        }
    }
    alternate(plan.rounds, &sides, &loads)
}

pub(super) fn against_requests(builds: &[Build; 2], plan: Plan) -> Result<Vec<Series>> {
    let has_priorities = has_priorities();
    let start = |build| RequestBench::start(build, 1, has_priorities);
    let sides = builds.each_ref().map(|build| Side::new(build.name(), move || start(build)));
    let name = |beside: &str| format!("p99 in µs of answers to 4 KiB reads at depth 1, {beside}");
    let load = |request: Option<Request>, name: String| {
        Load::new(vec![Figure::cost(name, 0)], move |bench: &RequestBench| {
            Ok(vec![bench.p99_us(request.map(|request| (request, 0)), plan.seconds)?])
        })
    };
    let mut loads = vec![load(None, name("alone"))];
    loads.extend(REQUESTS.map(|(request, flood)| load(Some(request), name(&format!("beside {flood}")))));
    alternate(plan.rounds, &sides, &loads)
}

/// Targets of one build: the victim's first.
struct Bench {
    build: Build,
    has_priorities: bool,
    targets: Vec<Target>,
    _files: Files,
}

impl Bench {
    /// So many targets whose LUNs are written as a whole, files in the page cache.
    fn start(build: &Build, count: usize, has_priorities: bool) -> Result<Bench> {
        let files = Files::create(2 * count)?;
        let mut targets = Vec::new();
        for number in 0..count {
            let file = |index: usize| format!("file:{}", files.path(2 * number + index).display());
            let mut command = prioritised(build, has_priorities, Priority::LoopOrVictim);
            command.args(["target", "--json", "--listen", "127.0.0.1:0"]);
            for lun in [MEMORY.to_owned(), MEMORY.to_owned(), file(0), file(1)] {
                command.args(["--lun", &lun]);
            }
            let target = start_target(&mut command)?;
            if has_priorities {
                lower_workers(target.service.id())?;
            }
            for lun in 0..4 {
                build.fill(&target.url(lun), LUN_BYTES)?;
            }
            targets.push(target);
        }
        Ok(Bench { build: build.clone(), has_priorities, targets, _files: files })
    }

    /// 99th percentile of the victim's latency in µs, beside a flood of the target with that number if any.
    fn p99_us(&self, store: &Store, flood: Option<(&Flood, usize)>, seconds: u32) -> Result<f64> {
        let seconds = seconds + WARMUP_SECONDS;
        let mut beside = flood.map(|(flood, target)| {
            let mut command = prioritised(&self.build, self.has_priorities, Priority::Flood);
            let url = self.targets[target].url(store.flooded);
            command.args(["bench", &url, "--json", "--random", "--block", flood.block]);
            command.args(self.build.op(flood.op));
            // The flood is ended when the victim is done.
            let longer = format!("{}s", seconds + 60);
            Service::start(command.args(["--depth", flood.depth, "--time", &longer]))
        });
        let mut command = prioritised(&self.build, self.has_priorities, Priority::LoopOrVictim);
        let (time, warmup) = (format!("{seconds}s"), format!("{WARMUP_SECONDS}s"));
        let url = self.targets[0].url(store.victim);
        command.args(["bench", &url, "--json", "--random", "--block", "4KiB"]);
        command.args(["--depth", "1", "--time", &time, "--warmup", &warmup]);
        let document = Document::of(&mut command, Duration::from_secs(seconds.into()) + GRACE)?;
        let is_beside = beside.as_mut().is_none_or(Service::alive);
        ensure!(is_beside, "the flood ended before its victim did: nothing was measured beside it");
        Ok(document.number("/latency_ns/p99")? / 1e3)
    }
}

/// Gives the threads of a target that call stores less priority than its loop has.
fn lower_workers(pid: u32) -> Result<()> {
    for task in fs::read_dir(format!("/proc/{pid}/task")).context("cannot list the target's threads")? {
        let task = task?.path();
        if !fs::read_to_string(task.join("comm"))?.starts_with("worker-") {
            continue;
        }
        let thread = task.file_name().and_then(|name| name.to_str()).context("a thread without a number")?;
        let status = Command::new("chrt").args(["-o", "-p", "0", thread]).status()?;
        ensure!(status.success(), "chrt cannot change the priority of thread {thread}");
    }
    Ok(())
}

/// Files for LUNs, removed at the end.
struct Files(tempfile::TempDir);

impl Files {
    fn create(count: usize) -> Result<Files> {
        let folder = tempfile::Builder::new().prefix("bench-flood-").tempdir_in(workspace::target_dir()?)?;
        let files = Files(folder);
        for index in 0..count {
            fs::File::create(files.path(index))?.set_len(LUN_BYTES)?;
        }
        Ok(files)
    }

    fn path(&self, index: usize) -> PathBuf {
        self.0.path().join(format!("lun-{index}"))
    }
}
