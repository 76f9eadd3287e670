//! What recording requests at every hand-over costs: requests per second of a load that wants all of both processors, and
//! the CPU time of either end for a request, with nothing recorded, with everything, and with one request in sixteen.
//! Both ends record.
//!
//! A process's CPU time has that of the threads in it that write what was recorded to a file while the load runs.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::ours::Target;
use e2e::{farlun, run as run_process};
use serde_json::Value;

use super::spread::Spread;
use super::{Bound, Length, head, row};

/// What must be left of the untraced rate.
const ROWS: [(&str, &[&str], f64); 2] = [
    ("every request, PDUs as by default", &[], 0.90),
    ("one request in 16, PDUs as by default", &["--trace-sample", "16"], 0.97),
];
/// What a request may cost either end more when all are recorded.
const COST_NS: f64 = 250.0;
/// Enough requests for every way the loops can fall into step, before they count.
const WARMUP_SECONDS: u32 = 1;
/// The tables are encoded after the load.
const ENCODING: Duration = Duration::from_secs(120);

/// What a load came to.
#[derive(Clone, Copy, Default)]
struct Run {
    iops: f64,
    near_ns: f64,
    far_ns: f64,
}

pub(super) fn run(length: Length) -> Result<bool> {
    let (rounds, seconds) = if length == Length::Full { (9, 4) } else { (1, 1) };
    let mut good = true;
    for op in ["read", "write"] {
        let mut measured = Vec::new();
        for round in 0..rounds {
            // Not recorded, everything, a part; each round begins with another.
            let mut runs = [Run::default(); 3];
            for place in 0..3 {
                let which = (place + round) % 3;
                runs[which] = load(op, seconds, (which > 0).then(|| ROWS[which - 1].1))?;
            }
            measured.push(runs);
        }
        let title = format!("4 KiB {op}s at depth 32, recorded by both ends, {rounds} rounds of {seconds} s");
        head(&format!("{title}: requests per second"), ["recorded", "not recorded"]);
        for ((name, _, least), which) in ROWS.iter().zip(1..) {
            let figures: Vec<[f64; 2]> =
                measured.iter().map(|runs| [runs[which].iops, runs[0].iops]).collect();
            good &= row(name, &figures, 0, Bound::AtLeast(*least));
        }
        println!("\n== {title}: CPU time of a request in ns\n");
        println!("| figure | recorded | not recorded | difference | bound |\n|---|---|---|---|---|");
        let of_end = |of: fn(&Run) -> f64| -> Vec<[f64; 2]> {
            measured.iter().map(|runs| [of(&runs[1]), of(&runs[0])]).collect()
        };
        good &= cost("initiator", &of_end(|run| run.near_ns));
        good &= cost("target", &of_end(|run| run.far_ns));
    }
    Ok(good)
}

/// Prints what recording every request costs one end, and whether that keeps its bound, which is returned.
fn cost(name: &str, rounds: &[[f64; 2]]) -> bool {
    let of = |which: usize| Spread::of(rounds.iter().map(|round| round[which])).text(0);
    let more = Spread::of(rounds.iter().map(|[recorded, not]| recorded - not));
    let verdict = if more.median <= COST_NS { "" } else { " **missed**" };
    println!("| {name}, every request | {} | {} | {} | ≤ {COST_NS}{verdict} |", of(0), of(1), more.text(0));
    more.median <= COST_NS
}

/// A load of its own target, recorded with these flags if any.
fn load(op: &str, seconds: u32, flags: Option<&[&str]>) -> Result<Run> {
    let folder = tempfile::Builder::new().prefix("farlun-bench-trace-").tempdir()?;
    let traced = |command: &mut Command, dir: &Path| {
        if let Some(flags) = flags {
            command.arg("--trace").arg(dir).args(flags);
        }
    };
    let mut command = farlun(["target", "--json", "--listen", "127.0.0.1:0", "--lun", "memory:64MiB"]);
    traced(&mut command, folder.path());
    let mut target = Target::start(&mut command);
    let (time, warmup) = (format!("{}s", seconds + WARMUP_SECONDS), format!("{WARMUP_SECONDS}s"));
    let mut command = farlun(["bench", &target.url(0), "--json", "--random", "--block", "4KiB"]);
    command.args(["--depth", "32", "--op", op, "--time", &time, "--warmup", &warmup]);
    traced(&mut command, folder.path());
    let limit = Duration::from_secs(u64::from(seconds)) + ENCODING;
    let document = run_process(&mut command, limit).expect_code(0).json();
    target.service.signal("TERM");
    let totals: Value = serde_json::from_str(&target.service.next_line(ENCODING))?;
    if flags.is_some() {
        whole(&document["trace"], &["io", "layers", "pdus", "sockets"])?;
        whole(&totals["trace"], &["layers", "pdus", "sockets"])?;
    }
    let figure = |value: &Value, what| value.as_f64().with_context(|| format!("no {what} in {document}"));
    Ok(Run {
        iops: figure(&document["iops"], "IOPS")?,
        near_ns: figure(&document["cpu"]["near_ns_per_io"], "CPU time of the initiator")?,
        far_ns: figure(&document["cpu"]["far_ns_per_io"], "CPU time of the target")?,
    })
}

/// A table that was not recorded, or not as a whole, makes a figure that means nothing.
fn whole(trace: &Value, tables: &[&str]) -> Result<()> {
    for table in tables {
        let [rows, lost] = ["rows", "lost_rows"].map(|name| trace[table][name].as_u64());
        ensure!(
            rows > Some(0) && lost == Some(0),
            "{table}: {rows:?} rows and {lost:?} lost, expected some and none lost: the figure means nothing"
        );
    }
    Ok(())
}
