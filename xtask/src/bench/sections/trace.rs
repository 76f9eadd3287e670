//! Cost of recording requests at every hand-over: requests per second of a load that wants all of both processors, and CPU
//! time of either end per request, with nothing recorded, with everything, and with one request in sixteen. Both ends
//! record.
//!
//! CPU time of a process includes its threads that write the tables to files while the load runs.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::bench::length::Length;
use crate::bench::program::{Build, Document, next_line, start_target};
use crate::bench::rounds::{Figure, Load, Plan, Series, Side, Spread, alternate, head, interleave, row};

/// A set of recording flags.
struct Mode {
    name: &'static str,
    /// `None` records nothing.
    flags: Option<&'static [&'static str]>,
    /// Least ratio of the rate to that without recording.
    rate_min: Option<f64>,
}

const MODES: [Mode; 3] = [
    Mode { name: "nothing", flags: None, rate_min: None },
    Mode { name: "every request, PDUs as by default", flags: Some(&[]), rate_min: Some(0.90) },
    Mode {
        name: "one request in 16, PDUs as by default",
        flags: Some(&["--trace-sample", "16"]),
        rate_min: Some(0.97),
    },
];
const OPS: [&str; 2] = ["read", "write"];
/// Most additional CPU time per request at either end when all are recorded.
const COST_NS: f64 = 250.0;
/// Enough requests for every way the loops can fall into step, before they count.
const WARMUP_SECONDS: u32 = 1;
/// The tables are encoded after the load.
const ENCODING: Duration = Duration::from_secs(120);

/// Figures of a load.
#[derive(Clone, Copy)]
struct Run {
    iops: f64,
    near_ns: f64,
    far_ns: f64,
}

pub(super) fn run(length: Length) -> Result<bool> {
    let Plan { rounds, seconds } = length.plan(9, 4);
    let build = Build::current();
    let mut good = true;
    for op in OPS {
        let measured: Vec<[Run; 3]> = interleave(rounds, |mode| load(&build, op, seconds, &MODES[mode]))?;
        let of = |mode: usize, figure: fn(&Run) -> f64| -> Vec<[f64; 2]> {
            measured.iter().map(|runs| [figure(&runs[mode]), figure(&runs[0])]).collect()
        };
        let title = format!("4 KiB {op}s at depth 32, recorded by both ends, {rounds} rounds of {seconds} s");
        head(&format!("{title}: requests per second"), ["recorded", "not recorded"]);
        for (number, mode) in MODES.iter().enumerate().skip(1) {
            let figure = Figure::rate(mode.name, 0).bound(mode.rate_min);
            good &= row(&Series { figure, rounds: of(number, |run| run.iops) });
        }
        println!("\n== {title}: CPU time of a request in ns\n");
        println!("| figure | recorded | not recorded | difference | bound |\n|---|---|---|---|---|");
        good &= cost("initiator", &of(1, |run| run.near_ns));
        good &= cost("target", &of(1, |run| run.far_ns));
    }
    Ok(good)
}

pub(super) fn against(builds: &[Build; 2], plan: Plan) -> Result<Vec<Series>> {
    let sides = builds.each_ref().map(|build| Side::new(build.name(), move || Ok(build)));
    let mut loads = Vec::new();
    for op in OPS {
        for mode in &MODES {
            let name = |what: &str| format!("{op}s, recorded: {}: {what}", mode.name);
            let figures = vec![
                Figure::rate(name("IOPS"), 0),
                Figure::cost(name("initiator's CPU in ns per request"), 0),
                Figure::cost(name("target's CPU in ns per request"), 0),
            ];
            loads.push(Load::new(figures, move |build: &&Build| {
                let run = load(build, op, plan.seconds, mode)?;
                Ok(vec![run.iops, run.near_ns, run.far_ns])
            }));
        }
    }
    alternate(plan.rounds, &sides, &loads)
}

/// Prints the cost of recording every request at one end, and whether it keeps its bound, which is returned.
fn cost(name: &str, rounds: &[[f64; 2]]) -> bool {
    let side = |index: usize| Spread::of(rounds.iter().map(|round| round[index])).text(0);
    let more = Spread::of(rounds.iter().map(|[recorded, not]| recorded - not));
    let verdict = if more.median <= COST_NS { "" } else { " **missed**" };
    println!(
        "| {name}, every request | {} | {} | {} | ≤ {COST_NS}{verdict} |",
        side(0),
        side(1),
        more.text(0)
    );
    more.median <= COST_NS
}

/// A load of a target of its own.
fn load(build: &Build, op: &'static str, seconds: u32, mode: &Mode) -> Result<Run> {
    let folder = tempfile::Builder::new().prefix("farlun-bench-trace-").tempdir()?;
    let traced = |command: &mut Command, dir: &Path| {
        if let Some(flags) = mode.flags {
            command.arg("--trace").arg(dir).args(flags);
        }
    };
    let mut serve = build.command(["target", "--json", "--listen", "127.0.0.1:0", "--lun", "memory:64MiB"]);
    traced(&mut serve, folder.path());
    let mut target = start_target(&mut serve)?;
    let (time, warmup) = (format!("{}s", seconds + WARMUP_SECONDS), format!("{WARMUP_SECONDS}s"));
    let mut command = build.command(["bench", &target.url(0), "--json", "--random", "--block", "4KiB"]);
    command.args(["--depth", "32", "--time", &time, "--warmup", &warmup]).args(build.op(op));
    traced(&mut command, folder.path());
    let document = Document::of(&mut command, Duration::from_secs(seconds.into()) + ENCODING)?;
    target.service.signal("TERM");
    let totals = Document::parse(&serve, &next_line(&mut target.service, &serve, ENCODING)?)?;
    if mode.flags.is_some() {
        whole(&document.value()["trace"], &["io", "layers", "pdus", "sockets"])?;
        whole(&totals.value()["trace"], &["layers", "pdus", "sockets"])?;
    }
    Ok(Run {
        iops: document.number("/iops")?,
        near_ns: document.number("/cpu/near_ns_per_io")?,
        far_ns: document.number("/cpu/far_ns_per_io")?,
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
