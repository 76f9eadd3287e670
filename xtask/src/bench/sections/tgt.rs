//! farlun's target beside tgt's or another build's, with a client of neither (`iscsi-perf`) and with farlun's initiator.
//!
//! Both sides serve a LUN of the same size that lies in memory and is written as a whole: tgt a file on a memory file
//! system, its fastest store. Loopback, one session, the same processors for client and target.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::ours::Target;
use e2e::tgtd::Tgtd;

use crate::bench::length::Length;
use crate::bench::program::{Build, GRACE, cpu_ns, finish};
use crate::bench::rounds::{Figure, Load, Plan, Sense, Series, Side, alternate, head, row};

/// Both LUNs.
const LUN_BYTES: u64 = 1 << 30;
const LUN: &str = "memory:1GiB";
/// A memory file system.
const MEMORY_FOLDER: &str = "/dev/shm";

const IOPS_32_MIN: f64 = 1.3;
const LATENCY_MAX: f64 = 0.85;
const CPU_MAX: f64 = 0.4;
const OURS_128_MIN: f64 = 3.0;

/// Name of the figure that is also held beside tgt's best.
const OURS_128: &str = "farlun bench: IOPS, depth 128";

/// A target that is loaded, and the build whose initiator loads it.
struct Server {
    client: Build,
    url: String,
    pid: u32,
    _process: Process,
}

enum Process {
    Farlun { _target: Target },
    Tgt { _tgtd: Tgtd, _disk: Disk },
}

pub(super) fn run(length: Length) -> Result<bool> {
    let Plan { rounds, seconds } = length.plan(7, 5);
    let build = Build::current();
    let sides = [Side::new("farlun", || Server::farlun(&build)), Side::new("tgt", || Server::tgt(&build))];
    let series = alternate(rounds, &sides, &loads(seconds))?;
    let title = format!("farlun's target beside tgt's: 4 KiB random reads, {rounds} rounds of {seconds} s");
    head(&title, ["farlun", "tgt"]);
    let mut good = series.iter().fold(true, |good, series| row(series) & good);
    good &= row(&beside_best(&series)?);
    Ok(good)
}

pub(super) fn against(builds: &[Build; 2], plan: Plan) -> Result<Vec<Series>> {
    let sides = builds.each_ref().map(|build| Side::new(build.name(), || Server::farlun(build)));
    alternate(plan.rounds, &sides, &loads(plan.seconds))
}

/// Loads of `seconds` and their figures.
fn loads<'a>(seconds: u32) -> Vec<Load<'a, Server>> {
    let foreign = [1, 32, 128].map(|depth| {
        let name = |what: &str| format!("iscsi-perf: {what}, depth {depth}");
        let bound = |bound: f64| (depth == 32).then_some(bound);
        let mut figures = vec![
            Figure::rate(name("IOPS"), 0).bound(bound(IOPS_32_MIN)),
            Figure::cost(name("target's CPU in µs per request"), 2).bound(bound(CPU_MAX)),
            Figure::neutral(name("client's CPU in cores"), 2),
        ];
        if depth == 1 {
            figures.push(Figure::cost(name("mean latency in µs"), 1).bound(LATENCY_MAX));
        }
        Load::new(figures, move |server: &Server| server.iscsi_perf(depth, seconds))
    });
    let ours = [1, 32, 128].map(|depth| {
        let name = |what: &str| format!("farlun bench: {what}, depth {depth}");
        let figures = vec![
            Figure::rate(name("IOPS"), 0),
            Figure::cost(name("median latency in µs"), 1),
            Figure::cost(name("p99 latency in µs"), 1),
            Figure::cost(name("initiator's CPU in µs per request"), 2),
            Figure::cost(name("target's CPU in µs per request"), 2),
        ];
        Load::new(figures, move |server: &Server| server.farlun_bench(depth, seconds))
    });
    foreign.into_iter().chain(ours).collect()
}

/// IOPS at depth 128 with farlun's initiator beside tgt's best of each round, whatever the client and the depth.
fn beside_best(series: &[Series]) -> Result<Series> {
    let ours = series.iter().find(|series| series.figure.name() == OURS_128);
    let ours = ours.context("no IOPS at depth 128")?;
    // IOPS are the only rates here.
    let rates = || series.iter().filter(|series| series.figure.sense() == Sense::Rate);
    let best = |round: usize| rates().map(|series| series.rounds[round][1]).fold(0.0, f64::max);
    let rounds = ours.rounds.iter().enumerate().map(|(round, [ours, _])| [*ours, best(round)]);
    let name = format!("{OURS_128}, beside tgt's best with any client and depth");
    Ok(Series { figure: Figure::rate(name, 0).bound(OURS_128_MIN), rounds: rounds.collect() })
}

impl Server {
    fn farlun(build: &Build) -> Result<Server> {
        let target = build.target(&[LUN])?;
        let (url, pid) = (target.url(0), target.service.id());
        Server::filled(build, url, pid, Process::Farlun { _target: target })
    }

    fn tgt(client: &Build) -> Result<Server> {
        let disk = Disk::create()?;
        let tgtd = Tgtd::serve(&disk.0);
        let (url, pid) = (tgtd.url(1), tgtd.id());
        Server::filled(client, url, pid, Process::Tgt { _tgtd: tgtd, _disk: disk })
    }

    fn filled(client: &Build, url: String, pid: u32, process: Process) -> Result<Server> {
        client.fill(&url, LUN_BYTES)?;
        Ok(Server { client: client.clone(), url, pid, _process: process })
    }

    /// IOPS, CPU per request of the target, cores that the client keeps busy, and at depth 1 the mean latency.
    fn iscsi_perf(&self, depth: u32, seconds: u32) -> Result<Vec<f64>> {
        // `times` prints the time of the shell's children in its last line.
        let script = format!("iscsi-perf -r -b 8 -m {depth} -t {seconds} '{}' && times", self.url);
        let before = cpu_ns(self.pid)?;
        let limit = Duration::from_secs(seconds.into()) + GRACE;
        let finished = finish(Command::new("sh").args(["-c", &script]), limit)?;
        let target_ns = cpu_ns(self.pid)? - before;
        ensure!(finished.code == 0, "`{script}` ended with {}: {}", finished.code, finished.stderr.trim());
        let said = finished.stdout;
        let average = said.rsplit("iops average ").next().and_then(|rest| rest.split(' ').next());
        let iops: f64 = average
            .and_then(|figure| figure.parse().ok())
            .with_context(|| format!("iscsi-perf printed no average: {said}"))?;
        let client_s = said.lines().next_back().and_then(children_seconds);
        let client_s = client_s.with_context(|| format!("the shell printed no times: {said}"))?;
        let seconds = f64::from(seconds);
        let target_us = target_ns as f64 / 1e3 / (iops * seconds);
        let mut figures = vec![iops, target_us, client_s / seconds];
        if depth == 1 {
            figures.push(1e6 / iops);
        }
        Ok(figures)
    }

    /// IOPS, median and p99 latency, CPU per request of the initiator and the target.
    fn farlun_bench(&self, depth: u32, seconds: u32) -> Result<Vec<f64>> {
        let (depth, time) = (depth.to_string(), format!("{seconds}s"));
        let args = ["bench", &self.url, "--json", "--random", "--block", "4KiB", "--depth", &depth];
        let before = cpu_ns(self.pid)?;
        let document = self.client.document(&[&args[..], &["--time", &time]].concat(), seconds)?;
        let target_ns = cpu_ns(self.pid)? - before;
        Ok(vec![
            document.number("/iops")?,
            document.number("/latency_ns/p50")? / 1e3,
            document.number("/latency_ns/p99")? / 1e3,
            document.number("/cpu/near_ns_per_io")? / 1e3,
            target_ns as f64 / 1e3 / document.number("/ios")?,
        ])
    }
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

/// A file in memory, removed at the end.
struct Disk(PathBuf);

impl Disk {
    fn create() -> Result<Disk> {
        let path = PathBuf::from(format!("{MEMORY_FOLDER}/farlun-bench-{}", std::process::id()));
        let file = fs::File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        file.set_len(LUN_BYTES)?;
        Ok(Disk(path))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
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
    fn the_best_of_tgt_is_of_each_round_and_of_rates_alone() -> Result<()> {
        let series = |figure: Figure, rounds: &[[f64; 2]]| Series { figure, rounds: rounds.to_vec() };
        let best = beside_best(&[
            series(Figure::rate("iscsi-perf: IOPS, depth 32", 0), &[[9.0, 3.0], [9.0, 8.0]]),
            series(Figure::cost("latency", 0), &[[9.0, 99.0], [9.0, 99.0]]),
            series(Figure::rate(OURS_128, 0), &[[20.0, 5.0], [21.0, 7.0]]),
        ])?;
        assert_eq!(best.rounds, [[20.0, 5.0], [21.0, 8.0]]);
        Ok(())
    }
}
