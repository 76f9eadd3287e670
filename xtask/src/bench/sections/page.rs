//! The report of a run of a million events: how large the page is, and how long headless Chromium takes from its address
//! until its last figure is on the screen.
//!
//! The time is the browser's own (`performance.now`, 0 when it goes to the address), in real time and not in the
//! virtual time of the tests. The start of the browser is not included.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::example::Found;
use crate::bench::length::Length;
use crate::bench::rounds::Spread;
use crate::step;

const MOST_BYTES: f64 = 6e6;
const MOST_SECONDS: f64 = 2.0;
/// A browser that has not ended by then never will.
const PATIENCE_SECONDS: &str = "120";

/// Notes the time at which the last figure is on the screen. Until then a frame whose document stays open delays the
/// load event of the page, and the browser hands the document over only after that event.
const STOPWATCH: &str = r#"<iframe id="hold" hidden></iframe><script>(() => {
  const frame = document.getElementById("hold").contentDocument;
  frame.open();
  let isOver = false;
  const look = () => {
    if (isOver || (document.body.dataset.ready !== "1" && window.farlunErrors.length === 0)) return;
    isOver = true;
    requestAnimationFrame(() => setTimeout(() => {
      document.body.dataset.drawnMs = String(performance.now());
      frame.close();
    }));
  };
  new MutationObserver(look).observe(document.documentElement, { attributes: true, subtree: true, attributeFilter: ["data-ready", "data-errors"] });
  look();
})();</script>"#;

pub(super) fn run(length: Length) -> Result<bool> {
    let (events, rounds) = if length == Length::Full { ("1000000", 7) } else { ("200000", 1) };
    let folder = tempfile::Builder::new().prefix("farlun-bench-page-").tempdir()?;
    let page = folder.path().join("report.html");
    let found = Found::by("report", "million_events", &[page.as_os_str(), events.as_ref()])?;
    let (bytes, made) = (found.figure("bytes")?, found.figure("seconds")?);
    println!(
        "\n== the page of {} events in {} cells, opened {rounds} times\n\n| figure | found | bound |\n|---|---|---|",
        found.0["events"], found.0["cells"]
    );
    println!("| size, MB | {:.2} | ≤ {} |", bytes / 1e6, MOST_BYTES / 1e6);
    println!("| read, analysed and drawn as a page, s | {made:.2} | — |");
    if !step::have("chromium") {
        println!("skipped: page: chromium is not installed, so how long the page takes to open is not known");
        return Ok(bytes <= MOST_BYTES);
    }
    let timed = folder.path().join("timed.html");
    let html = fs::read_to_string(&page)?;
    let (start, end) = html.rsplit_once("</body>").context("the page has no end")?;
    fs::write(&timed, [start, STOPWATCH, "</body>", end].concat())?;
    let opened = |behind: &str| -> Result<Spread> {
        let times: Result<Vec<f64>> = (0..rounds).map(|_| open(&timed, behind)).collect();
        Ok(Spread::of(times?.into_iter()))
    };
    let (usual, all) = (opened("")?, opened("#all")?);
    println!("| opens until the last figure is drawn, s | {} | ≤ {MOST_SECONDS} |", usual.text(2));
    println!("| with every cell opened, s | {} | — |", all.text(2));
    Ok(bytes <= MOST_BYTES && usual.median <= MOST_SECONDS)
}

/// Opens the page in a browser of its own; seconds until the last figure is drawn.
fn open(page: &Path, behind: &str) -> Result<f64> {
    let profile = tempfile::Builder::new().prefix("farlun-bench-page-profile-").tempdir()?;
    let mut command = Command::new("timeout");
    command.args([
        PATIENCE_SECONDS,
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
    ]);
    command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.args(["--window-size=1400,1000", "--dump-dom"]).arg(format!("file://{}{behind}", page.display()));
    let dom = step::captured(&mut command)?;
    let attribute =
        |name: &str| dom.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
    if let Some(errors) = attribute("data-errors") {
        bail!("the page has script errors: {errors}");
    }
    let ms: f64 = attribute("data-drawn-ms").context("the page was not drawn")?.parse()?;
    Ok(ms / 1e3)
}
