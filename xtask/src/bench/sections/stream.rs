//! `farlun stream` over the emulated path: beside iperf3, or another build's stream on the same path.
//!
//! The path is the working tree's for both sides, so that only the programs on it differ.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::bench::length::Length;
use crate::bench::program::{Build, Document, GRACE};
use crate::bench::rounds::{Figure, Load, Plan, Series, Side, alternate, head, row};
use crate::workspace;

/// The share of iperf3's rate that `farlun stream` must reach.
const RATIO_MIN: f64 = 0.97;
/// The far end of the path, as `farlun wan` fixes it.
const FAR: &str = "198.18.0.2";
/// Propagation delay each way.
const DELAYS: [&str; 3] = ["0ms", "8ms", "50ms"];

/// A program that sends over the path.
enum Sender<'a> {
    Farlun(&'a Build),
    Iperf3,
}

/// The path and the runs on it.
struct Bench<'a> {
    path: &'a Build,
    scratch: PathBuf,
    seconds: u32,
    /// Not counted, for either side: slow start.
    ramp_seconds: u32,
}

pub(super) fn run(length: Length) -> Result<bool> {
    let Plan { rounds, seconds } = length.plan(5, 10);
    let build = Build::current();
    let bench = &Bench::new(&build, seconds, if length == Length::Full { 5 } else { 2 })?;
    let sides =
        [Side::new("farlun", || Ok(Sender::Farlun(&build))), Side::new("iperf3", || Ok(Sender::Iperf3))];
    let delays = if length == Length::Full { &DELAYS[..] } else { &DELAYS[1..2] };
    let load = |delay: &'static str| {
        let figure = rate(delay).bound(RATIO_MIN);
        Load::new(vec![figure], move |sender| Ok(vec![bench.measure(delay, sender)?[0]]))
    };
    let loads: Vec<Load<'_, Sender<'_>>> = delays.iter().map(|delay| load(delay)).collect();
    let series = alternate(rounds, &sides, &loads)?;
    let title =
        format!("farlun stream beside iperf3: 1 Gb/s, one stream, CUBIC, {rounds} rounds of {seconds} s");
    head(&title, ["farlun", "iperf3"]);
    Ok(series.iter().fold(true, |good, series| row(series) & good))
}

pub(super) fn against(builds: &[Build; 2], plan: Plan) -> Result<Vec<Series>> {
    // With the slow start: the CPU time that is divided by the bytes is that of the whole run.
    let bench = &Bench::new(&builds[0], plan.seconds, 0)?;
    let sides = builds.each_ref().map(|build| Side::new(build.name(), move || Ok(Sender::Farlun(build))));
    let loads = DELAYS.map(|delay| {
        let cpu = Figure::cost(format!("CPU of both ends in ns per KiB, {delay} one way"), 1);
        Load::new(vec![rate(delay), cpu], move |sender| bench.measure(delay, sender))
    });
    alternate(plan.rounds, &sides, &loads)
}

fn rate(delay: &str) -> Figure {
    Figure::rate(format!("Mb/s, {delay} one way"), 1)
}

impl Bench<'_> {
    fn new(path: &Build, seconds: u32, ramp_seconds: u32) -> Result<Bench<'_>> {
        let scratch = workspace::target_dir()?.join("bench");
        std::fs::create_dir_all(&scratch).context("cannot make a folder for results")?;
        Ok(Bench { path, scratch, seconds, ramp_seconds })
    }

    /// Mb/s, and with farlun CPU time of both ends in ns per KiB counted, which means something without a ramp only.
    fn measure(&self, delay: &str, sender: &Sender<'_>) -> Result<Vec<f64>> {
        match sender {
            Sender::Farlun(build) => self.stream(delay, build),
            Sender::Iperf3 => Ok(vec![self.iperf3(delay)?]),
        }
    }

    fn stream(&self, delay: &str, build: &Build) -> Result<Vec<f64>> {
        let farlun = quoted(build.path())?;
        let far = format!("{farlun} stream serve --json --listen {FAR}:5201 --cc cubic");
        let near = format!(
            "exec {farlun} stream {FAR}:5201 --json --cc cubic --time {}s --warmup {}s",
            self.seconds + self.ramp_seconds,
            self.ramp_seconds
        );
        let document = self.over_path(delay, &far, &near)?;
        let near = |name: &str| document.number(&format!("/near/output/{name}"));
        let cpu_ns = near("cpu/near_ns")? + near("cpu/far_ns")?;
        Ok(vec![near("bytes_per_s")? * 8.0 / 1e6, cpu_ns / near("bytes")? * 1024.0])
    }

    fn iperf3(&self, delay: &str) -> Result<f64> {
        let result = self.scratch.join("iperf3.json");
        let near = format!(
            "exec iperf3 -c {FAR} -C cubic -J -t {} -O {} > {}",
            self.seconds,
            self.ramp_seconds,
            quoted(&result)?
        );
        self.over_path(delay, "iperf3 -s -1", &near)?;
        let text = std::fs::read_to_string(&result).context("iperf3 wrote no result")?;
        let document: Value = serde_json::from_str(&text).context("iperf3's result is no JSON")?;
        let rate = document["end"]["sum_received"]["bits_per_second"].as_f64();
        Ok(rate.with_context(|| format!("iperf3 measured nothing: {}", document["error"]))? / 1e6)
    }

    /// Runs `near` against `far` over the path and returns the path's document; repeats a run that is invalid.
    fn over_path(&self, delay: &str, far: &str, near: &str) -> Result<Document> {
        const TRIES: usize = 3;
        let args =
            ["wan", "--json", "--delay", delay, "--rate", "1gbit", "--far", far, "--", "sh", "-c", near];
        let limit = Duration::from_secs((self.seconds + self.ramp_seconds).into()) + GRACE;
        for _ in 0..TRIES {
            let document = Document::of_any_code(&mut self.path.command(args), limit)?;
            let value = document.value();
            if value["near"]["exit_code"] != 0 {
                bail!("`{near}` failed on the path: {value}");
            }
            if value["validity"]["ok"] == true {
                return Ok(document);
            }
            println!("run again, the path was not valid: {}", value["validity"]["reasons"]);
        }
        bail!("the path was not valid {TRIES} times in a row: use a quieter machine")
    }
}

/// As a shell takes it for one word.
fn quoted(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{} is no text", path.display()))?;
    Ok(format!("'{}'", text.replace('\'', r"'\''")))
}
