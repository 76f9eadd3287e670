//! Cost of recording while nothing is recorded: instructions of the real program that callgrind counts in the lines
//! that would record a request, for each time that a request would have in the table `layers`.
//!
//! Instructions do not depend on the load of the machine. One end runs under callgrind and the other by itself; inlined
//! code is found again by the program's line tables (`lines`), so the program is built with them and otherwise as for a
//! release. No figure here is a duration: durations are measured by `bench trace`.

mod lines;
mod profile;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::ours::Target;
use e2e::run as run_process;

use crate::bench::length::Length;
use crate::packages;
use crate::step::{self, Outcome};
use crate::workspace::{self, cargo};

/// Most instructions of an event.
const BOUND: f64 = 20.0;
/// The cargo profile of a release with line tables.
const PROFILE: &str = "lines";
/// A program under callgrind is many times as slow, and writes its counts at the end.
const PATIENCE: Duration = Duration::from_secs(120);
/// Instructions executed less than once in so many requests belong to no request.
const RARE: u64 = 50;

/// The end that is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Initiator,
    Target,
}

/// Ends and operations, and the times that a request of 4 KiB has there if it is recorded: those columns of `layers`
/// that are filled, of two that are one moment (docs/reference/tables-requests.md) one. Rows of `pdus` are not counted.
const EVENTS: [(End, &str, u32); 4] = [
    // called, queued, granted, started, socketed, data first and last, status, completed, and TCP's three
    (End::Initiator, "read", 12),
    (End::Initiator, "write", 10),
    // received, parsed, answered, sent, and TCP's three; a LUN in memory has no store to call
    (End::Target, "read", 7),
    // and the last byte of its data
    (End::Target, "write", 8),
];
/// Three of the times are TCP's, and only recorded PDUs have them, by default one request in 256. The code that
/// requests them is counted too.
const OF_TCP: u32 = 3;

pub(super) fn run(length: Length) -> Result<bool> {
    if let Outcome::Skipped(reason) = packages::ensure(packages::CALLGRIND)? {
        println!("{reason}");
    }
    for program in ["valgrind", "addr2line"] {
        ensure!(step::have(program), "{program} is not installed, and counts the instructions");
    }
    step::shown(&mut cargo(&["build", "--profile", PROFILE, "--package", "farlun"]))?;
    let program = workspace::target_dir()?.join(PROFILE).join("farlun");
    let (seconds, depths): (u32, &[&str]) =
        if length == Length::Full { (10, &["1", "32"]) } else { (3, &["1"]) };
    println!(
        "\n== instructions that recording costs where nothing is recorded, 4 KiB requests, {seconds} s each\n\n\
         | end, requests | requests counted | instructions per request | events | instructions per event | bound | \
         if TCP's {OF_TCP} are none |\n|---|---|---|---|---|---|---|"
    );
    let mut good = true;
    for (end, op, events) in EVENTS {
        for depth in depths {
            let counted = count(&program, end, &load(op, depth, seconds))?;
            let per_request = counted.instructions as f64 / counted.requests as f64;
            let per_event = per_request / f64::from(events);
            let without_tcp = per_request / f64::from(events - OF_TCP);
            let name = if end == End::Initiator { "initiator" } else { "target" };
            let verdict = if per_event <= BOUND { "" } else { " **missed**" };
            println!(
                "| {name}, {op}s at depth {depth} | {} | {per_request:.1} | {events} | {per_event:.1} | ≤ {BOUND}{verdict} | {without_tcp:.1} |",
                counted.requests
            );
            good &= per_event <= BOUND;
        }
    }
    Ok(good)
}

/// Counts of a run.
struct Counted {
    requests: u64,
    /// Of lines that record.
    instructions: u64,
}

/// The flags of a load.
fn load(op: &str, depth: &str, seconds: u32) -> Vec<String> {
    let time = format!("{seconds}s");
    let flags = ["--random", "--block", "4KiB", "--warmup", "0s", "--depth", depth, "--time", &time];
    // The program is built from this tree.
    let op = ["--op", op, "--overwrite"];
    flags.iter().chain(&op).map(|flag| (*flag).to_owned()).collect()
}

/// Runs a load with one end under callgrind.
fn count(program: &Path, end: End, load: &[String]) -> Result<Counted> {
    let folder = tempfile::Builder::new().prefix("farlun-bench-untraced-").tempdir()?;
    let counts = folder.path().join("callgrind.out");
    let command = |which: End| {
        if which == end {
            let mut command = Command::new("valgrind");
            command.args([
                "--tool=callgrind",
                "--dump-instr=yes",
                "--compress-pos=no",
                "--compress-strings=no",
            ]);
            command.arg(format!("--callgrind-out-file={}", counts.display()));
            command.arg(program);
            command
        } else {
            Command::new(program)
        }
    };
    let mut target = command(End::Target);
    target.args(["target", "--json", "--listen", "127.0.0.1:0", "--lun", "memory:64MiB"]);
    let mut target = Target::start(&mut target);
    let mut bench = command(End::Initiator);
    bench.args(["bench", &target.url(0), "--json"]).args(load);
    let document = run_process(&mut bench, PATIENCE).expect_code(0).json();
    target.service.signal("TERM");
    target.service.next_line(PATIENCE);
    ensure!(target.service.ended(PATIENCE) == 0, "the target did not end as it should");
    let requests = document["ios"].as_u64().filter(|ios| *ios > 0);
    let requests = requests.with_context(|| format!("no requests were done: {document}"))?;
    Ok(Counted { requests, instructions: recording(program, &counts, requests)? })
}

/// Instructions of the lines that record, of those that are executed again and again.
fn recording(program: &Path, counts: &Path, requests: u64) -> Result<u64> {
    let text = std::fs::read_to_string(counts).context("callgrind has left no counts")?;
    let mut counted = profile::instructions(&text, program)?;
    counted.retain(|_, count| *count >= requests / RARE);
    let places = lines::of(program, counted.keys().copied())?;
    let mut sources = lines::Sources::new(workspace::root());
    let mut sum = 0;
    for (address, count) in &counted {
        let Some(frames) = places.get(address) else { continue };
        if frames.iter().any(|place| sources.records(place)) {
            sum += count;
        }
    }
    if sum == 0 {
        bail!(
            "none of {} instructions is of a line that records: has the program line tables, and are the names in \
             xtask/src/bench/sections/untraced/lines.rs those of the code?",
            counted.len()
        );
    }
    Ok(sum)
}
