//! What a session that floods its window does to another's single requests: a victim with 4 KiB random reads at depth 1,
//! alone, beside a flood of the same target, and beside a flood of another process's target, which shows what the
//! competition for processors alone does.
//!
//! Who may tells the scheduler who comes first (`chrt -f`): the serving loops and the victim, then the flood. Otherwise its
//! time slices would be all there is to see. The threads that call stores stay ordinary ones: busy all the time and with
//! a real-time priority they would keep the kernel's own network thread from the processor, by up to 50 ms at a time.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::ours::Target;
use e2e::{Service, farlun, farlun_path, run as run_process};

use super::{Bound, Length, head, row};
use crate::workspace;

/// Of the victim's 99th percentile beside a flood of the same target to that alone.
const SAME_MAX: f64 = 3.0;

const LUN_BYTES: u64 = 1 << 30;
const MEMORY: &str = "memory:1GiB";
/// What the victim reads and what the flood is let loose on, in memory and in files, by their LUN numbers.
const KINDS: [(&str, [u32; 2]); 2] = [("memory", [0, 1]), ("file", [2, 3])];
const FLOODS: [Flood; 4] = [
    Flood { name: "4 KiB reads, depth 4096", op: "read", block: "4KiB", depth: "4096" },
    Flood { name: "1 MiB reads, depth 64", op: "read", block: "1MiB", depth: "64" },
    Flood { name: "1 MiB writes, depth 64", op: "write", block: "1MiB", depth: "64" },
    Flood { name: "4 MiB writes, depth 64", op: "write", block: "4MiB", depth: "64" },
];

/// How the victim is measured, before the first of its requests counts.
const WARMUP_SECONDS: u32 = 1;

/// Real-time priorities.
#[derive(Clone, Copy)]
enum Priority {
    LoopOrVictim = 20,
    Flood = 5,
}

struct Flood {
    name: &'static str,
    op: &'static str,
    block: &'static str,
    depth: &'static str,
}

/// Where the flood goes while the victim is measured.
#[derive(Clone, Copy)]
enum Where {
    Nowhere,
    Same,
    Other,
}

pub(super) fn run(length: Length) -> Result<bool> {
    let (rounds, seconds) = if length == Length::Full { (7, 4) } else { (1, 1) };
    let bench = Bench::start(seconds)?;
    if !bench.has_priorities {
        println!("no right to real-time priorities: the scheduler's time slices are measured as well");
    }
    let mut good = true;
    for (kind, [victim, flooded]) in KINDS {
        head(
            &format!(
                "p99 in µs of 4 KiB reads at depth 1 beside a flood, {kind} LUNs, {rounds} rounds of {seconds} s"
            ),
            ["beside", "alone"],
        );
        for flood in &FLOODS {
            let (mut same, mut other) = (Vec::new(), Vec::new());
            for round in 0..rounds {
                let mut order = [Where::Nowhere, Where::Same, Where::Other];
                order.rotate_left(round % 3);
                let mut p99_us = [0.0; 3];
                for place in order {
                    p99_us[place as usize] = bench.victim(victim, flood, flooded, place)?;
                }
                let [alone, beside_same, beside_other] = p99_us;
                same.push([beside_same, alone]);
                other.push([beside_other, alone]);
            }
            good &= row(&format!("{}: same target", flood.name), &same, 0, Bound::AtMost(SAME_MAX));
            row(&format!("{}: another target", flood.name), &other, 0, Bound::None);
        }
    }
    Ok(good)
}

struct Bench {
    seconds: u32,
    has_priorities: bool,
    targets: [Target; 2],
    _files: Files,
}

impl Bench {
    /// Two targets whose LUNs are all written, files in the page cache.
    fn start(seconds: u32) -> Result<Bench> {
        let files = Files::create(4)?;
        let has_priorities = has_priorities();
        let serve = |first: usize| {
            let file = |index: usize| format!("file:{}", files.path(index).display());
            let luns = [MEMORY.to_owned(), MEMORY.to_owned(), file(first), file(first + 1)];
            let mut command = prioritised(has_priorities, Priority::LoopOrVictim);
            command.args(["target", "--json", "--listen", "127.0.0.1:0"]);
            for lun in &luns {
                command.args(["--lun", lun]);
            }
            Target::start(&mut command)
        };
        let bench = Bench { seconds, has_priorities, targets: [serve(0), serve(2)], _files: files };
        for target in &bench.targets {
            if has_priorities {
                lower_workers(target.service.id())?;
            }
            for lun in 0..4 {
                let (url, limit) = (target.url(lun), Duration::from_secs(60));
                let load = ["--op", "write", "--block", "1MiB", "--depth", "8", "--time", "4s"];
                run_process(farlun(["bench", &url]).args(load), limit).expect_code(0);
            }
        }
        Ok(bench)
    }

    /// The 99th percentile of the victim's latency, in µs.
    fn victim(&self, lun: u32, flood: &Flood, flooded: u32, place: Where) -> Result<f64> {
        let flooded = match place {
            Where::Nowhere => None,
            Where::Same => Some(self.targets[0].url(flooded)),
            Where::Other => Some(self.targets[1].url(flooded)),
        };
        let seconds = self.seconds + WARMUP_SECONDS;
        let mut beside = flooded.map(|url| {
            let mut command = prioritised(self.has_priorities, Priority::Flood);
            command.args(["bench", &url, "--json", "--random", "--op", flood.op, "--block", flood.block]);
            // It is ended when the victim is done.
            let longer = format!("{}s", seconds + 60);
            Service::start(command.args(["--depth", flood.depth, "--time", &longer]))
        });
        let mut command = prioritised(self.has_priorities, Priority::LoopOrVictim);
        let (time, warmup) = (format!("{seconds}s"), format!("{WARMUP_SECONDS}s"));
        command.args(["bench", &self.targets[0].url(lun), "--json", "--random", "--block", "4KiB"]);
        command.args(["--depth", "1", "--time", &time, "--warmup", &warmup]);
        let limit = Duration::from_secs(u64::from(seconds) + 60);
        let document = run_process(&mut command, limit).expect_code(0).json();
        let is_beside = beside.as_mut().is_none_or(Service::alive);
        ensure!(is_beside, "the flood ended before its victim did: nothing was measured beside it");
        let p99_ns = document["latency_ns"]["p99"].as_f64();
        Ok(p99_ns.with_context(|| format!("`farlun bench` printed no p99: {document}"))? / 1e3)
    }
}

/// Whether real-time priorities can be given.
fn has_priorities() -> bool {
    Command::new("chrt").args(["-f", "1", "true"]).status().is_ok_and(|status| status.success())
}

/// A command that starts `farlun`, with a priority if it can have one.
fn prioritised(has_priorities: bool, priority: Priority) -> Command {
    if !has_priorities {
        return farlun::<[&str; 0], &str>([]);
    }
    let mut command = Command::new("chrt");
    command.args(["-f", &(priority as u32).to_string()]).arg(farlun_path());
    command
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
struct Files(PathBuf);

impl Files {
    fn create(count: usize) -> Result<Files> {
        let files = Files(workspace::target_dir()?.join(format!("bench-flood-{}", std::process::id())));
        fs::create_dir_all(&files.0).with_context(|| format!("cannot create {}", files.0.display()))?;
        for index in 0..count {
            fs::File::create(files.path(index))?.set_len(LUN_BYTES)?;
        }
        Ok(files)
    }

    fn path(&self, index: usize) -> PathBuf {
        self.0.join(format!("lun-{index}"))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
