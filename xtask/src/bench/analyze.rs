//! How many packets of a capture `farlun analyze` reads in a second, on one core.

use anyhow::{Context, Result};

use super::Length;
use super::example::Found;

const LEAST_PER_SECOND: f64 = 1e6;
const MOST_BYTES: f64 = 512e6;

pub(super) fn run(length: Length) -> Result<bool> {
    let packets = if length == Length::Full { "4000000" } else { "400000" };
    let found = Found::by("analysis", "packets_per_second", &[packets.as_ref()])?;
    println!("\n== captures of {packets} packets\n\n| figure | found | bound |\n|---|---|---|");
    let mut good = true;
    for shape in found.0["shapes"].as_array().context("the example names no captures")? {
        let rate = shape["packets_per_s"].as_f64().with_context(|| format!("no rate in {shape}"))?;
        let name = shape["name"].as_str().unwrap_or_default();
        println!("| {name}, million packets/s | {:.2} | ≥ {} |", rate / 1e6, LEAST_PER_SECOND / 1e6);
        good &= rate >= LEAST_PER_SECOND;
    }
    let bytes = found.figure("peak_bytes")?;
    println!("| peak memory, MB | {:.0} | ≤ {:.0} |", bytes / 1e6, MOST_BYTES / 1e6);
    Ok(good && bytes <= MOST_BYTES)
}
