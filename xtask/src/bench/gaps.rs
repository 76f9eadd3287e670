//! How often causes of gaps are named right, in scenes of virtual time with seeds that no test has.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Length;
use crate::workspace::cargo;

/// The test has the first of them.
const FIRST_SEED: &str = "1001";

pub(super) fn run(length: Length) -> Result<bool> {
    let seeds = if length == Length::Full { "64" } else { "4" };
    let example =
        ["run", "-q", "--release", "-p", "analysis", "--example", "gap_causes", "--", FIRST_SEED, seeds];
    let output = cargo(&example).output().context("cargo does not start")?;
    if !output.status.success() {
        bail!("the example failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let found: Value = serde_json::from_slice(&output.stdout).context("the example printed no document")?;
    let figure = |name: &str| found[name].as_f64().with_context(|| format!("no {name} in {found}"));
    println!(
        "\n== causes of gaps, {seeds} seeds from {FIRST_SEED}\n\n| figure | found | bound |\n|---|---|---|"
    );
    let (right, injected, share_min) = (figure("right")?, figure("injected")?, figure("share_min")?);
    println!(
        "| named right, of {injected} scenes with one cause or two | {:.4} | ≥ {share_min} |",
        right / injected
    );
    println!("| a cause named, of {} scenes with none | {} | 0 |", figure("clean")?, figure("invented")?);
    for row in found["rows"].as_array().context("the example names no rows")? {
        let name = row["injected"].as_str().unwrap_or_default();
        if row["wrong"].as_array().is_some_and(|wrong| !wrong.is_empty()) {
            println!("wrong: {name} with seeds {}", row["wrong"]);
        }
    }
    found["good"].as_bool().with_context(|| format!("no verdict in {found}"))
}
