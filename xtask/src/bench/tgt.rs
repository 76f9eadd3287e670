//! farlun's target beside tgt's, with a client of neither's (`iscsi-perf`) and with ours.
//!
//! Both serve a LUN of the same size that lies in memory and was written completely: tgt a file on a memory file
//! system, which is the fastest it has. Loopback, one session, the same two cores for the client and the target.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use e2e::ours::Target;
use e2e::tgtd::Tgtd;
use e2e::{farlun, run as run_process};

use super::{Bound, Length, head, interleave, row};

/// Both LUNs.
const LUN_BYTES: u64 = 1 << 30;
const LUN: &str = "memory:1GiB";
/// Where files lie in memory.
const MEMORY_FOLDER: &str = "/dev/shm";
/// Ticks per second in /proc/PID/stat.
const TICKS_PER_S: f64 = 100.0;

const IOPS_32_MIN: f64 = 1.3;
const LATENCY_MAX: f64 = 0.85;
const CPU_MAX: f64 = 0.4;
const OURS_128_MIN: f64 = 3.0;

/// What one run of a client gave.
#[derive(Clone, Copy, Debug)]
struct Run {
    iops: f64,
    /// CPU time of the target's process per request.
    target_us: f64,
    /// How busy the client kept one core.
    client_share: f64,
}

/// One of the two targets.
struct Side {
    url: String,
    pid: u32,
}

pub(super) fn run(length: Length) -> Result<bool> {
    let (rounds, seconds) = if length == Length::Full { (7, 5) } else { (1, 2) };
    let disk = Disk::create()?;
    let farlun_target = Target::serve(&[LUN]);
    let tgtd = Tgtd::serve(&disk.0);
    let ours = Side { url: farlun_target.url(0), pid: farlun_target.service.id() };
    let theirs = Side { url: tgtd.url(1), pid: tgtd.id() };
    for side in [&ours, &theirs] {
        fill(&side.url);
    }

    head(
        &format!(
            "farlun's target beside tgt's: iscsi-perf, 4 KiB random reads, {rounds} rounds of {seconds} s"
        ),
        ["farlun", "tgt"],
    );
    let mut good = true;
    let mut tgt_best = vec![0.0_f64; rounds];
    for depth in [1, 32, 128] {
        let one = |side: &Side| iscsi_perf(side, depth, seconds);
        let runs = interleave(rounds, || one(&ours), || one(&theirs))?;
        let of = |figure: fn(&Run) -> f64| -> Vec<[f64; 2]> {
            runs.iter().map(|pair| [figure(&pair[0]), figure(&pair[1])]).collect()
        };
        note_best(&mut tgt_best, runs.iter().map(|[_, theirs]| theirs.iops));
        let iops = of(|run| run.iops);
        let bound = if depth == 32 { Bound::AtLeast(IOPS_32_MIN) } else { Bound::None };
        good &= row(&format!("IOPS, depth {depth}"), &iops, 0, bound);
        if depth == 1 {
            good &=
                row("mean latency in µs, depth 1", &of(|run| 1e6 / run.iops), 1, Bound::AtMost(LATENCY_MAX));
        }
        let bound = if depth == 32 { Bound::AtMost(CPU_MAX) } else { Bound::None };
        let name = format!("target's CPU in µs per request, depth {depth}");
        good &= row(&name, &of(|run| run.target_us), 2, bound);
        row(&format!("client's CPU in cores, depth {depth}"), &of(|run| run.client_share), 2, Bound::None);
    }

    head(
        &format!("farlun bench at both, 4 KiB random reads, {rounds} rounds of {seconds} s"),
        ["farlun", "tgt"],
    );
    for depth in [32, 128] {
        let one = |side: &Side| farlun_bench(&side.url, depth, seconds);
        let runs = interleave(rounds, || one(&ours), || one(&theirs))?;
        note_best(&mut tgt_best, runs.iter().map(|[_, theirs]| *theirs));
        row(&format!("IOPS, depth {depth}"), &runs, 0, Bound::None);
        if depth == 128 {
            let beside_best: Vec<[f64; 2]> =
                runs.iter().zip(&tgt_best).map(|([ours, _], best)| [*ours, *best]).collect();
            let name = "IOPS, depth 128, beside tgt's best with any client and depth";
            good &= row(name, &beside_best, 0, Bound::AtLeast(OURS_128_MIN));
        }
    }
    Ok(good)
}

fn note_best(best: &mut [f64], figures: impl Iterator<Item = f64>) {
    for (best, figure) in best.iter_mut().zip(figures) {
        *best = best.max(figure);
    }
}

/// Writes the whole LUN, several times over: memory that was never written is not really there.
fn fill(url: &str) {
    let mut command =
        farlun(["bench", url, "--op", "write", "--block", "1MiB", "--depth", "8", "--time", "4s"]);
    run_process(&mut command, Duration::from_secs(60)).expect_code(0);
}

fn iscsi_perf(side: &Side, depth: u32, seconds: u32) -> Result<Run> {
    // `times` says last what the shell's children used.
    let script = format!("iscsi-perf -r -b 8 -m {depth} -t {seconds} '{}' && times", side.url);
    let before = cpu_ticks(side.pid)?;
    let limit = Duration::from_secs(u64::from(seconds) + 30);
    let said = run_process(Command::new("sh").args(["-c", &script]), limit).expect_code(0).stdout;
    let ticks = cpu_ticks(side.pid)? - before;
    let average = said.rsplit("iops average ").next().and_then(|rest| rest.split(' ').next());
    let iops: f64 = average
        .and_then(|figure| figure.parse().ok())
        .with_context(|| format!("iscsi-perf printed no average: {said}"))?;
    let client_s = said.lines().next_back().and_then(children_seconds);
    let client_s = client_s.with_context(|| format!("the shell printed no times: {said}"))?;
    let ios = iops * f64::from(seconds);
    Ok(Run {
        iops,
        target_us: ticks as f64 / TICKS_PER_S * 1e6 / ios,
        client_share: client_s / f64::from(seconds),
    })
}

/// The sum of a line such as `0m0.110000s 0m0.830000s`.
fn children_seconds(line: &str) -> Option<f64> {
    line.split(' ')
        .map(|time| {
            let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
            Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
        })
        .sum()
}

fn farlun_bench(url: &str, depth: u32, seconds: u32) -> Result<f64> {
    let (depth, time) = (depth.to_string(), format!("{seconds}s"));
    let args = ["bench", url, "--json", "--random", "--block", "4KiB", "--depth", &depth, "--time", &time];
    let limit = Duration::from_secs(u64::from(seconds) + 30);
    let document = run_process(&mut farlun(args), limit).expect_code(0).json();
    document["iops"].as_f64().with_context(|| format!("`farlun bench` printed no iops: {document}"))
}

/// CPU time that a process has used, all its threads together (proc(5), fields utime and stime).
fn cpu_ticks(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // The name, second, stands in parentheses and may contain anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let field = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    field(11).zip(field(12)).map(|(user, system)| user + system).with_context(|| format!("{path}: {stat}"))
}

/// A file in memory, removed at the end.
struct Disk(PathBuf);

impl Disk {
    fn create() -> Result<Disk> {
        let path = PathBuf::from(format!("{MEMORY_FOLDER}/farlun-bench-{}", std::process::id()));
        let file =
            std::fs::File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        file.set_len(LUN_BYTES)?;
        Ok(Disk(path))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_shell() {
        assert_eq!(children_seconds("0m0.25s 1m0.50s"), Some(60.75));
        assert_eq!(children_seconds("0m0.25s what"), None);
    }

    #[test]
    fn this_process_uses_cpu_time() {
        assert!(cpu_ticks(std::process::id()).is_ok());
        assert!(cpu_ticks(u32::MAX).is_err());
    }
}
