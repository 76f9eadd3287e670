//! Share of gaps whose cause is named right, in scenes of virtual time with seeds that no test has.

use anyhow::{Context, Result};

use super::example::Found;
use crate::bench::length::Length;

/// The test has the first of them.
const FIRST_SEED: &str = "1001";

pub(super) fn run(length: Length) -> Result<bool> {
    let seeds = if length == Length::Full { "64" } else { "4" };
    let found = Found::by("analysis", "gap_causes", &[FIRST_SEED.as_ref(), seeds.as_ref()])?;
    let figure = |name: &str| found.figure(name);
    println!(
        "\n== causes of gaps, {seeds} seeds from {FIRST_SEED}\n\n| figure | found | bound |\n|---|---|---|"
    );
    let (right, injected, share_min) = (figure("right")?, figure("injected")?, figure("share_min")?);
    println!(
        "| named right, of {injected} scenes with one cause or two | {:.4} | ≥ {share_min} |",
        right / injected
    );
    println!("| a cause named, of {} scenes with none | {} | 0 |", figure("clean")?, figure("invented")?);
    for row in found.0["rows"].as_array().context("the example names no rows")? {
        let name = row["injected"].as_str().unwrap_or_default();
        if row["wrong"].as_array().is_some_and(|wrong| !wrong.is_empty()) {
            println!("wrong: {name} with seeds {}", row["wrong"]);
        }
    }
    found.0["good"].as_bool().with_context(|| format!("no verdict in {}", found.0))
}
