//! Time and memory of every query over ten million events of the table `layers`.

use anyhow::Result;

use super::example::Found;
use crate::bench::length::Length;

const MOST_SECONDS: f64 = 10.0;
const MOST_BYTES: f64 = 1e9;

pub(super) fn run(length: Length) -> Result<bool> {
    let events = if length == Length::Full { "10000000" } else { "1000000" };
    let found = Found::by("analysis", "ten_million", &[events.as_ref()])?;
    let (seconds, bytes) = (found.figure("seconds")?, found.figure("peak_bytes")?);
    println!("\n== {events} events of the table layers\n\n| figure | found | bound |\n|---|---|---|");
    println!("| time, s | {seconds:.2} | ≤ {MOST_SECONDS} |");
    println!("| peak memory, MB | {:.0} | ≤ {:.0} |", bytes / 1e6, MOST_BYTES / 1e6);
    Ok(seconds <= MOST_SECONDS && bytes <= MOST_BYTES)
}
