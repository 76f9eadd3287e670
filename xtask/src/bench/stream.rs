//! `farlun stream` beside iperf3, on the same emulated path.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Bound, Length, head, interleave, row};
use crate::workspace;

/// The share of iperf3's rate that `farlun stream` must reach.
const STREAM_RATIO_MIN: f64 = 0.97;

/// The far end of the path, as `farlun wan` fixes it.
const FAR: &str = "198.18.0.2";

struct Plan {
    rounds: usize,
    seconds: u32,
    /// Left out at the beginning, for both: the ramp is a figure of its own.
    ramp_seconds: u32,
    delays: &'static [&'static str],
}

pub(super) fn run(length: Length) -> Result<bool> {
    let plan = match length {
        Length::Full => Plan { rounds: 5, seconds: 10, ramp_seconds: 5, delays: &["0ms", "8ms", "50ms"] },
        Length::Quick => Plan { rounds: 1, seconds: 3, ramp_seconds: 2, delays: &["8ms"] },
    };
    let bench =
        Bench { binary: e2e::farlun_path().to_owned(), scratch: workspace::target_dir()?.join("bench") };
    std::fs::create_dir_all(&bench.scratch).context("cannot make a folder for results")?;

    head(
        &format!(
            "farlun stream beside iperf3: 1 Gb/s, one stream, CUBIC, {} rounds of {} s",
            plan.rounds, plan.seconds
        ),
        ["farlun", "iperf3"],
    );
    let mut good = true;
    for delay in plan.delays {
        let ours = || Ok(bench.stream(delay, &plan)? / 1e6);
        let theirs = || Ok(bench.iperf3(delay, &plan)? / 1e6);
        let rounds = interleave(plan.rounds, ours, theirs)?;
        good &= row(&format!("Mb/s, {delay} one way"), &rounds, 1, Bound::AtLeast(STREAM_RATIO_MIN));
    }
    Ok(good)
}

struct Bench {
    binary: PathBuf,
    scratch: PathBuf,
}

impl Bench {
    fn stream(&self, delay: &str, plan: &Plan) -> Result<f64> {
        let farlun = quoted(&self.binary)?;
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
            quoted(&result)?
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

/// As a shell takes it for one word.
fn quoted(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{} is no text", path.display()))?;
    Ok(format!("'{}'", text.replace('\'', r"'\''")))
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
