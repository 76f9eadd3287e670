//! Everything that is asked of ten million events of the table `layers`: how long it takes, and how much memory.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Length;
use crate::workspace::cargo;

const MOST_SECONDS: f64 = 10.0;
const MOST_BYTES: f64 = 1e9;

pub(super) fn run(length: Length) -> Result<bool> {
    let events = if length == Length::Full { "10000000" } else { "1000000" };
    let example = ["run", "-q", "--release", "-p", "analysis", "--example", "ten_million", "--", events];
    let output = cargo(&example).output().context("cargo does not start")?;
    if !output.status.success() {
        bail!("the example failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let found: Value = serde_json::from_slice(&output.stdout).context("the example printed no document")?;
    let figure = |name: &str| found[name].as_f64().with_context(|| format!("no {name} in {found}"));
    let (seconds, bytes) = (figure("seconds")?, figure("peak_bytes")?);
    println!("\n== {events} events of the table layers\n\n| figure | found | bound |\n|---|---|---|");
    println!("| time, s | {seconds:.2} | ≤ {MOST_SECONDS} |");
    println!("| peak memory, MB | {:.0} | ≤ {:.0} |", bytes / 1e6, MOST_BYTES / 1e6);
    Ok(seconds <= MOST_SECONDS && bytes <= MOST_BYTES)
}
