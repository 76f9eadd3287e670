//! Rates that depend on other cells: their syntax, and one figure for the whole run.

use std::fs;
use std::path::Path;

use event::{Host, Instant, SocketSample};
use lab::{Lab, Order, Outcome, Plan, Point, Silent, Variant};
use tables::RunDir;
use tables::Writer;
use tempfile::TempDir;

/// A rate that depends on the throughput of a read without delay.
const PLAN: &str = r#"
name = "following"
title = "a rate that is found first"

[path]
rate = "0.5 * first.throughput"

[matrix]
delay = ["1ms", "8ms"]

[[lun]]
kind = "memory"
size = "1MiB"

[[load]]
name = "after"
kind = "bench"
op = "read"
block = "4KiB"
window = "2s"

[[load]]
name = "first"
kind = "bench"
op = "read"
block = "4KiB"
path = { delay = "0", rate = "10gbit" }
window = "2s"
"#;

/// A directory for a run, with the fake program's script there, and records of a receiver at 100 MB/s.
fn place(body: &str) -> TempDir {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("body"), body).unwrap();
    let mut table = Writer::<SocketSample>::create(temp.path().join("sockets-near.parquet")).unwrap();
    for i in 0..=300u64 {
        let t = Instant::from_nanos(i * 10_000_000);
        let sample = SocketSample { app_rx_bytes: i * 1_000_000, ..SocketSample::new(t, Host::Near, 1) };
        table.push(&sample).unwrap();
    }
    table.finish().unwrap();
    temp
}

fn run(temp: &TempDir, resume: bool) -> Outcome {
    let order = Order {
        plan: Plan::parse(PLAN, Variant::Full).unwrap(),
        out: temp.path().join("run"),
        resume,
        seed: 7,
        command_line: "farlun lab following".to_owned(),
        version: "0.1.0".to_owned(),
        commit: None,
        machine: None,
        left_out: Vec::new(),
    };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pretend.sh");
    Lab::new(program).run(&order, &mut Silent).unwrap()
}

#[test]
fn what_is_found_holds_for_the_whole_run() {
    let temp = place("cp $state/sockets-near.parquet $dir; [ $delay = 0 ] && document true 0 || exit 1");
    let outcome = run(&temp, false);
    assert_eq!(outcome.failed, ["after at delay 1ms", "after at delay 8ms"]);
    assert_eq!(outcome.tour.run.cells[0].slug, "first", "whatever the seed says");
    assert_eq!(outcome.tour.run.found.values().map(|rate| rate.round()).collect::<Vec<_>>(), [800e6]);
    // The cell that sets the rate is not run again, and its figure not read again either.
    fs::write(temp.path().join("body"), "document true 0").unwrap();
    fs::remove_file(temp.path().join("run/cells/002-first/r1/sockets-near.parquet")).unwrap();
    let outcome = run(&temp, true);
    assert!(outcome.good());
    assert_eq!(fs::read_to_string(temp.path().join("attempts-0")).unwrap().trim(), "1");
    let dir = RunDir::open(temp.path().join("run")).unwrap();
    let commands: Vec<String> = dir.cells().unwrap().into_iter().map(|cell| cell.cell.command).collect();
    let at = |rate: &str| commands.iter().filter(|command| command.contains(rate)).count();
    assert_eq!((at(" --rate 400mbit "), at(" --rate 10gbit ")), (2, 1), "{commands:#?}");
    let page = fs::read_to_string(&outcome.report_path).unwrap();
    assert!(page.contains("first carried, which sets the rate of others"));
}

#[test]
fn without_what_sets_the_rate_the_others_are_not_run() {
    let temp = place("document false 0; exit 4");
    let outcome = run(&temp, false);
    let why = "0.5 * first.throughput, and that was not found: see the reasons of the cell it names";
    assert!(outcome.stopped.as_ref().is_some_and(|reason| reason.ends_with(why)), "{:?}", outcome.stopped);
    assert_eq!((outcome.tour.run.cells.len(), outcome.good()), (1, false));
}

/// Problems of the plan after a change.
fn problems(from: &str, to: &str) -> Vec<String> {
    assert!(PLAN.contains(from), "{from} is in the plan");
    match Plan::parse(&PLAN.replacen(from, to, 1), Variant::Full) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(|p| format!("{}: {}", p.line, p.text)).collect(),
    }
}

#[test]
fn what_a_plan_may_say() {
    let plan = Plan::parse(PLAN, Variant::Full).unwrap();
    let rates = plan.cells().iter().map(|cell| cell.path.found_rate.clone()).collect::<Vec<_>>();
    assert_eq!(rates.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(plan.to_json()["path"]["rate"], "0.5 * first.throughput");
    let rate = rates[0].as_ref().unwrap();
    let carried = |figure: Option<f64>| rate.value(&Point::default(), |_, _| figure).map(|rate| rate.0);
    assert_eq!(carried(Some(5_123_456_789.0)), Some(2_561_000_000), "in whole Mb/s");
    assert_eq!((carried(None), carried(Some(0.0))), (None, None));

    assert_eq!(problems("* first", "* frist"), ["6: no load is named 'frist'; did you mean 'first'?"]);
    assert_eq!(
        problems("0.5 * first.throughput", "first.throughput / first.throughput"),
        ["6: 'first.throughput / first.throughput' is a ratio or a count, and no rate"]
    );
    assert_eq!(
        problems("0.5 * ", "after.ramp * "),
        ["6: rate: a rate follows the throughput of a load and nothing else, found 'after.ramp'"]
    );
    assert_eq!(
        problems(", rate = \"10gbit\"", ""),
        [
            "6: the rate follows 'first', whose own rate would have to be found: give that load a rate, such as \
             path = { rate = \"10gbit\" }"
        ]
    );
    let matrix = "[matrix]\n";
    let varied = "[matrix]\nfirst.congestion = [\"cubic\", \"bbr\"]\n";
    assert_eq!(
        problems(matrix, varied),
        ["6: 'first.throughput' is that of several places of the matrix; say which, such as \
             first.throughput[axis=value]"]
    );
    let pinned = PLAN.replacen(matrix, varied, 1).replacen(
        "first.throughput",
        "first.throughput[first.congestion=bbr]",
        1,
    );
    assert!(Plan::parse(&pinned, Variant::Full).is_ok());
}
