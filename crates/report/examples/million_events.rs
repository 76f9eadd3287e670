//! The report of a run of a million events: `cargo run --release -p report --example million_events -- PAGE [EVENTS]`
//! writes the page and says how long that took. An event is one time in the table `layers`.
//!
//! The run is synthetic: cells of so many requests each, at rising depths, with `io`, `pdus` and every packet. Prints one JSON
//! document; `cargo xtask bench page` reads it and opens the page.

#[path = "../tests/synthetic/inside.rs"]
mod inside;

use std::time::Instant;

use analysis::Tour;

/// Times of a request that are not 0: ten at the near end, seven at the far one.
const EVENTS_PER_REQUEST: u64 = 17;
/// From one cell to the next.
const DEPTH_STEP: u64 = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let page = args.next().ok_or("expected a file for the page")?;
    let events: u64 = args.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let cells = events.div_ceil(EVENTS_PER_REQUEST * inside::REQUESTS);
    let depths: Vec<u64> = (1..=cells).map(|cell| cell * DEPTH_STEP).collect();
    let temp = tempfile::tempdir()?;
    let dir = inside::write(&temp.path().join("run"), &depths, inside::REQUESTS);
    let before = Instant::now();
    let tour = Tour::collect(&dir)?;
    let collected = before.elapsed().as_secs_f64();
    let html = report::html(&tour, "farlun report runs/layers");
    let seconds = before.elapsed().as_secs_f64();
    std::fs::write(&page, &html)?;
    println!(
        "{}",
        serde_json::json!({
            "events": cells * inside::REQUESTS * EVENTS_PER_REQUEST,
            "cells": cells,
            "bytes": html.len(),
            "analysis_seconds": collected,
            "seconds": seconds,
        })
    );
    Ok(())
}
