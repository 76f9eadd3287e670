//! How many packets of a capture `farlun analyze` reads in a second, on one core.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Length;
use crate::workspace::cargo;

const LEAST_PER_SECOND: f64 = 1e6;
const MOST_BYTES: f64 = 512e6;

pub(super) fn run(length: Length) -> Result<bool> {
    let packets = if length == Length::Full { "4000000" } else { "400000" };
    let example =
        ["run", "-q", "--release", "-p", "analysis", "--example", "packets_per_second", "--", packets];
    let output = cargo(&example).output().context("cargo does not start")?;
    if !output.status.success() {
        bail!("the example failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let found: Value = serde_json::from_slice(&output.stdout).context("the example printed no document")?;
    println!("\n== captures of {packets} packets\n\n| figure | found | bound |\n|---|---|---|");
    let mut good = true;
    for shape in found["shapes"].as_array().context("the example names no captures")? {
        let rate = shape["packets_per_s"].as_f64().with_context(|| format!("no rate in {shape}"))?;
        let name = shape["name"].as_str().unwrap_or_default();
        println!("| {name}, million packets/s | {:.2} | ≥ {} |", rate / 1e6, LEAST_PER_SECOND / 1e6);
        good &= rate >= LEAST_PER_SECOND;
    }
    let bytes = found["peak_bytes"].as_f64().with_context(|| format!("no peak_bytes in {found}"))?;
    println!("| peak memory, MB | {:.0} | ≤ {:.0} |", bytes / 1e6, MOST_BYTES / 1e6);
    Ok(good && bytes <= MOST_BYTES)
}
