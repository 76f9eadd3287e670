//! Packets per second of `farlun analyze`, on one core: of the reader alone with bounds, and of the whole command beside
//! another build's.

use std::time::Instant;

use anyhow::{Context, Result};

use super::example::Found;
use crate::bench::length::Length;
use crate::bench::program::{Build, Document};
use crate::bench::rounds::{Figure, Load, Plan, Series, Side, alternate};
use crate::{step, workspace};

const LEAST_PER_SECOND: f64 = 1e6;
const MOST_BYTES: f64 = 512e6;
/// About a second's worth.
const PACKETS: &str = "4000000";

pub(super) fn run(length: Length) -> Result<bool> {
    let packets = if length == Length::Full { PACKETS } else { "400000" };
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

/// Both builds read the captures that the working tree's example has written, from the page cache.
pub(super) fn against(builds: &[Build; 2], plan: Plan) -> Result<Vec<Series>> {
    let folder = tempfile::Builder::new().prefix("bench-analyze-").tempdir_in(workspace::target_dir()?)?;
    let args = [PACKETS.as_ref(), folder.path().as_os_str()];
    let found = Found::by("analysis", "packets_per_second", &args)?;
    let sides = builds.each_ref().map(|build| Side::new(build.name(), move || Ok(build)));
    let captures = found.0["captures"].as_array().context("the example names no captures")?;
    let loads: Result<Vec<Load<'_, &Build>>> = captures
        .iter()
        .map(|capture| {
            let text = |name: &str| capture[name].as_str().with_context(|| format!("no {name} in {capture}"));
            let (name, path) = (text("name")?, text("path")?);
            let packets = capture["packets"].as_f64().with_context(|| format!("no packets in {capture}"))?;
            let figure = Figure::rate(format!("{name}, million packets/s"), 2);
            Ok(Load::new(vec![figure], move |build: &&Build| {
                let mut command = build.command(["analyze", "--json", path]);
                let before = Instant::now();
                // Not looked at now and then as other processes are: this one may take less than 200 ms.
                let output = step::captured(&mut command)?;
                let seconds = before.elapsed().as_secs_f64();
                Document::parse(&command, &output)?;
                Ok(vec![packets / seconds / 1e6])
            }))
        })
        .collect();
    alternate(plan.rounds, &sides, &loads?)
}
