//! `cargo xtask bench`: farlun beside what others wrote, on the same emulated path, in interleaved pairs.
//!
//! One pair is both sides in turn, the order changing from pair to pair, so that a machine that drifts drifts for
//! both. The figure is the median over the pairs of the ratio within a pair; the bound is part of the table. Not a
//! test: it wants a quiet machine and some minutes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::step::{self, Outcome};
use crate::{packages, workspace};

/// How long to measure.
#[derive(Clone, Copy)]
pub(crate) enum Length {
    /// Figures to quote.
    Full,
    /// Enough to see whether the comparison runs.
    Quick,
}

/// The share of iperf3's rate that `farlun stream` must reach.
const STREAM_RATIO_MIN: f64 = 0.97;

/// The far end of the path, as `farlun wan` fixes it.
const FAR: &str = "198.18.0.2";

struct Plan {
    pairs: usize,
    seconds: u32,
    /// Left out at the beginning, for both: the ramp is a figure of its own.
    ramp_seconds: u32,
    delays: &'static [&'static str],
}

/// Runs every section; true if every bound holds.
pub(crate) fn run(length: Length) -> Result<bool> {
    let plan = match length {
        Length::Full => Plan { pairs: 5, seconds: 10, ramp_seconds: 5, delays: &["0ms", "8ms", "50ms"] },
        Length::Quick => Plan { pairs: 1, seconds: 3, ramp_seconds: 2, delays: &["8ms"] },
    };
    if let Outcome::Skipped(reason) = packages::ensure(packages::BENCH)? {
        println!("{reason}");
    }
    if !step::have("iperf3") {
        bail!("iperf3 is not installed, and it is what `farlun stream` is compared with");
    }
    let bench =
        Bench { binary: workspace::release_binary()?, scratch: workspace::target_dir()?.join("bench") };
    std::fs::create_dir_all(&bench.scratch).context("cannot make a folder for results")?;

    println!(
        "\n== farlun stream beside iperf3: 1 Gb/s, one stream, CUBIC, {} pairs of {} s",
        plan.pairs, plan.seconds
    );
    println!("{:>8}  {:>22}  {:>22}  {:>22}", "one way", "farlun Mb/s", "iperf3 Mb/s", "ratio");
    let mut good = true;
    for delay in plan.delays {
        let pairs = bench.stream_pairs(delay, &plan)?;
        let ratio = Spread::of(pairs.iter().map(|pair| pair.ours / pair.theirs));
        let verdict = if ratio.median >= STREAM_RATIO_MIN { "ok" } else { "FAILED" };
        println!(
            "{delay:>8}  {:>22}  {:>22}  {:>22}  >= {STREAM_RATIO_MIN} {verdict}",
            Spread::of(pairs.iter().map(|pair| pair.ours / 1e6)).text(1),
            Spread::of(pairs.iter().map(|pair| pair.theirs / 1e6)).text(1),
            ratio.text(3),
        );
        good &= ratio.median >= STREAM_RATIO_MIN;
    }
    Ok(good)
}

struct Bench {
    binary: PathBuf,
    scratch: PathBuf,
}

/// Bits per second of both sides of one pair.
struct Pair {
    ours: f64,
    theirs: f64,
}

impl Bench {
    fn stream_pairs(&self, delay: &str, plan: &Plan) -> Result<Vec<Pair>> {
        let mut pairs = Vec::new();
        for turn in 0..plan.pairs {
            let pair = if turn % 2 == 0 {
                let ours = self.stream(delay, plan)?;
                Pair { ours, theirs: self.iperf3(delay, plan)? }
            } else {
                let theirs = self.iperf3(delay, plan)?;
                Pair { ours: self.stream(delay, plan)?, theirs }
            };
            pairs.push(pair);
        }
        Ok(pairs)
    }

    fn stream(&self, delay: &str, plan: &Plan) -> Result<f64> {
        let farlun = self.binary.to_str().context("the binary's path is no text")?;
        let far = format!("{farlun} stream serve --json --listen {FAR}:5201 --cc cubic");
        let near = format!(
            "exec {farlun} stream {FAR}:5201 --json --cc cubic --time {}s --warmup {}s",
            plan.seconds + plan.ramp_seconds,
            plan.ramp_seconds
        );
        let document = self.over_path(delay, &far, &near)?;
        let bytes_per_s = document["near"]["output"]["bytes_per_s"].as_f64();
        Ok(bytes_per_s.with_context(|| format!("`farlun stream` printed no bytes_per_s: {document}"))? * 8.0)
    }

    fn iperf3(&self, delay: &str, plan: &Plan) -> Result<f64> {
        let result = self.scratch.join("iperf3.json");
        let near = format!(
            "exec iperf3 -c {FAR} -C cubic -J -t {} -O {} > {}",
            plan.seconds,
            plan.ramp_seconds,
            result.display()
        );
        self.over_path(delay, "iperf3 -s -1", &near)?;
        let text = std::fs::read_to_string(&result).context("iperf3 wrote no result")?;
        let document: Value = serde_json::from_str(&text).context("iperf3's result is no JSON")?;
        let rate = document["end"]["sum_received"]["bits_per_second"].as_f64();
        rate.with_context(|| format!("iperf3 measured nothing: {}", document["error"]))
    }

    /// Runs `near` against `far` over the path and hands back the path's document; a run that is invalid is repeated.
    fn over_path(&self, delay: &str, far: &str, near: &str) -> Result<Value> {
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            let document = wan(&self.binary, delay, far, near)?;
            if document["near"]["exit_code"] != 0 {
                bail!("`{near}` failed on the path: {document}");
            }
            if document["validity"]["ok"] == true {
                return Ok(document);
            }
            println!("run again, the path was not valid: {}", document["validity"]["reasons"]);
        }
        bail!("the path was not valid {TRIES} times in a row: use a quieter machine")
    }
}

fn wan(binary: &Path, delay: &str, far: &str, near: &str) -> Result<Value> {
    let mut command = Command::new(binary);
    command
        .args(["wan", "--json", "--delay", delay, "--rate", "1gbit", "--far", far, "--", "sh", "-c", near]);
    let output = command.output().with_context(|| format!("cannot start {}", binary.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).with_context(|| {
        format!(
            "`farlun wan` ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )
    })
}

/// Median and range of some figures.
struct Spread {
    min: f64,
    median: f64,
    max: f64,
}

impl Spread {
    /// Of at least one figure.
    fn of(figures: impl Iterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = figures.collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len() - 1;
        let median = f64::midpoint(sorted[last / 2], sorted[last.div_ceil(2)]);
        Spread { min: sorted[0], median, max: sorted[last] }
    }

    fn text(&self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$}..{:.digits$})", self.median, self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn medians() {
        let check =
            |figures: &[f64], text: &str| assert_eq!(Spread::of(figures.iter().copied()).text(1), text);
        check(&[3.0], "3.0 (3.0..3.0)");
        check(&[4.0, 1.0, 2.0], "2.0 (1.0..4.0)");
        check(&[4.0, 1.0, 2.0, 3.0], "2.5 (1.0..4.0)");
    }
}
