//! A plan run from end to end with a fake program: manifests, verdicts and repeats.

use std::fs;
use std::path::{Path, PathBuf};

use lab::{Lab, LabError, Order, Outcome, Plan, Progress, Silent, Step, Variant};
use tables::RunDir;
use tempfile::TempDir;

const PLAN: &str = r#"
name = "pretend"
title = "a plan that nobody carries out"

[matrix]
delay = ["0", "8ms"]

[[lun]]
kind = "memory"
size = "1MiB"

[[load]]
name = "read"
kind = "bench"
op = "read"
block = "4KiB"
start = "1s + 10rtt"
window = "2s"

[[expect]]
name = "cheap"
value = "read.cpu_near_per_io"
op = "<="
bound = 20
unit = "us"
"#;

/// A lab with the fake program, whose script is in the file `body` beside the run.
fn lab() -> Lab {
    Lab::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pretend.sh"))
}

fn order(out: PathBuf) -> Order {
    Order {
        plan: Plan::parse(PLAN, Variant::Full).unwrap(),
        out,
        resume: false,
        seed: 7,
        command_line: "farlun lab pretend".to_owned(),
        version: "0.1.0".to_owned(),
        commit: None,
        machine: None,
        left_out: Vec::new(),
    }
}

/// A directory for a run, with the fake program's script.
fn place(body: &str) -> TempDir {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("body"), body).unwrap();
    temp
}

/// Runs the plan; the directory holds the run as `run`.
fn run(body: &str) -> (TempDir, Outcome) {
    let temp = place(body);
    let outcome = lab().run(&order(temp.path().join("run")), &mut Silent).unwrap();
    (temp, outcome)
}

/// Values and verdicts of the checks.
fn checks(outcome: &Outcome) -> Vec<(&str, Option<f64>, bool)> {
    let value = |v: Option<f64>| v.map(|v| (v * 1e9).round() / 1e9);
    outcome.tour.run.checks.iter().map(|c| (c.name.as_str(), value(c.value), c.ok)).collect()
}

#[test]
fn a_valid_run_is_written_down_whole() {
    let (temp, outcome) = run("document true 0");
    assert!(outcome.good());
    assert_eq!(
        checks(&outcome),
        [("cheap (delay 0)", Some(15.0), true), ("cheap (delay 8ms)", Some(15.0), true)]
    );
    let page = fs::read_to_string(&outcome.report_path).unwrap();
    assert!(page.contains("farlun lab pretend"), "the page shows the command");

    let dir = RunDir::open(temp.path().join("run")).unwrap();
    let manifest = dir.manifest().unwrap();
    assert!(manifest.valid && manifest.elapsed_s > 0.0 && manifest.started_unix_s > 1.7e9);
    assert_eq!((manifest.seed, manifest.plan_name.as_str()), (7, "pretend"));
    assert_eq!(manifest.plan["matrix"]["delay"], serde_json::json!(["0", "8ms"]));
    assert_eq!(manifest.plan_text, PLAN);
    assert_eq!(manifest.sysctls["net.ipv4.tcp_no_metrics_save"], "1");
    let mut cells = dir.cells().unwrap();
    cells.sort_by_key(|cell| cell.path.clone());
    assert_eq!(cells.len(), 2);
    assert!(cells[1].path.ends_with("cells/002-read-delay-8ms/r1"));
    let cell = &cells[1].cell;
    assert_eq!((cell.valid, cell.load.as_str(), cell.repeat), (true, "read", 1));
    assert_eq!(cell.parameters["delay"], "8ms");
    let window = cell.window.unwrap();
    assert_eq!((window.start_s, window.length_s), (1.16, 2.0));
    assert!(cell.command.starts_with("farlun wan --json --trace "), "{}", cell.command);
    assert!(cell.wan.is_some() && cell.near.is_some());
}

#[test]
fn an_invalid_cell_is_run_again_twice() {
    let (temp, outcome) =
        run(r#"touch $dir/left-$n; [ $delay = 0 ] || [ $n = 3 ] && document true 0 || document false 0"#);
    assert!(outcome.good());
    let cell = temp.path().join("run/cells/002-read-delay-8ms/r1");
    assert!(cell.join("left-3").exists() && !cell.join("left-2").exists(), "each attempt begins afresh");
}

#[test]
fn a_cell_that_stays_invalid_has_no_figures() {
    let (_temp, outcome) = run("[ $delay = 0 ] && document true 0 || { document false 0; exit 4; }");
    assert_eq!(outcome.invalid, ["read at delay 8ms"]);
    assert!(!outcome.good() && !outcome.tour.run.valid && outcome.failed.is_empty());
    assert_eq!(checks(&outcome), [("cheap (delay 0)", Some(15.0), true), ("cheap (delay 8ms)", None, false)]);
    let reasons: Vec<_> = outcome.tour.cells.iter().flat_map(|cell| &cell.repeats[0].reasons).collect();
    assert_eq!(reasons, ["packets were late by 3ms (p99)"]);

    let (_temp, outcome) = run("document false 0");
    assert_eq!(outcome.invalid, ["read at delay 0", "read at delay 8ms"]);
    assert!(checks(&outcome).iter().all(|(_, value, ok)| value.is_none() && !ok));
}

/// The plan at so many places.
fn far_plan() -> Plan {
    let text = PLAN.replace(r#"["0", "8ms"]"#, r#"["0", "1ms", "2ms", "4ms", "8ms", "16ms"]"#);
    Plan::parse(&text, Variant::Full).unwrap()
}

#[test]
fn a_run_stops_after_a_few_cells_that_are_invalid_for_the_same_reason() {
    let temp = place("document false 0");
    let order = Order { plan: far_plan(), ..order(temp.path().join("run")) };
    let outcome = lab().run(&order, &mut Silent).unwrap();
    let stopped = outcome.stopped.as_deref().unwrap();
    let found = "stopped after 4 attempts in a row at 4 cells that were not valid for the same reason: packets were late by";
    assert!(stopped.starts_with(found) && stopped.contains("--validity off"), "{stopped}");
    assert_eq!(
        (outcome.invalid.len(), outcome.tour.run.cells.len()),
        (4, 4),
        "the reasons are in the report"
    );
    let attempts = fs::read_dir(temp.path()).unwrap().flatten();
    let attempts = attempts.filter(|file| file.file_name().to_string_lossy().starts_with("attempts-"));
    assert_eq!(attempts.count(), 4);
    assert!(checks(&outcome).iter().all(|(_, value, ok)| value.is_none() && !ok));

    // The machine recovered: the missing cells are run.
    fs::write(temp.path().join("body"), "document true 0").unwrap();
    let order = Order { plan: far_plan(), resume: true, ..order };
    assert!(lab().run(&order, &mut Silent).unwrap().good());
}

#[test]
fn a_run_goes_on_where_reasons_differ_or_others_are_valid() {
    let body = "case $delay in 0|2ms|8ms) document true 0;; *) document false 0; exit 4;; esac";
    let temp = place(body);
    let order = Order { plan: far_plan(), ..order(temp.path().join("run")) };
    let outcome = lab().run(&order, &mut Silent).unwrap();
    assert_eq!((outcome.stopped, outcome.invalid.len()), (None, 3));
}

#[test]
fn figures_without_a_rule_of_validity_are_marked_and_no_check_uses_them() {
    let temp = place("document true 0");
    let plan = Plan::parse(PLAN, Variant::Full).unwrap().without_validity();
    let order = Order { plan, ..order(temp.path().join("run")) };
    let outcome = lab().run(&order, &mut Silent).unwrap();
    assert!(outcome.good(), "nothing failed, and checks do not count");
    assert!(checks(&outcome).iter().all(|(_, value, ok)| value.is_none() && !ok));
    let dir = RunDir::open(temp.path().join("run")).unwrap();
    assert!(dir.manifest().unwrap().unvalidated);
    for cell in dir.cells().unwrap() {
        assert!(cell.cell.unvalidated && cell.cell.valid && cell.cell.command.contains("--validity off"));
        let text = fs::read_to_string(cell.path.join("cell.json")).unwrap();
        assert!(text.contains("\"unvalidated\": true"), "{text}");
    }
    let page = fs::read_to_string(&outcome.report_path).unwrap();
    for mark in
        ["<div class=\"unvalidated\">", "chip open\">– unvalidated", "2 not measured", "class=\"open\""]
    {
        assert!(page.contains(mark), "{mark}");
    }
    let text = report::terminal::summary(&outcome.tour, report::terminal::Colour::Never);
    assert!(text.contains("(unvalidated)") && text.contains("not measured"), "{text}");
    let error = analysis::compare::Comparison::of([&outcome.tour, &outcome.tour]).unwrap_err().to_string();
    assert!(error.contains("not validated"), "{error}");
    // A run is resumed only under the conditions of its start.
    let judged = Order { plan: Plan::parse(PLAN, Variant::Full).unwrap(), resume: true, ..order };
    let error = lab().run(&judged, &mut Silent).unwrap_err().to_string();
    assert!(error.contains("load.1.validity was \"off\" and is \"throughput\""), "{error}");
}

#[test]
fn a_cell_that_fails_is_named_and_the_others_are_run() {
    let body =
        "[ $delay = 0 ] && { echo 'farlun: login refused' >&2; document true 3; exit 3; } || document true 0";
    let (temp, outcome) = run(body);
    assert_eq!(outcome.failed, ["read at delay 0"]);
    assert!(!outcome.good() && outcome.invalid.is_empty() && outcome.stopped.is_none());
    assert_eq!(checks(&outcome), [("cheap (delay 0)", None, false), ("cheap (delay 8ms)", Some(15.0), true)]);
    let failed = RunDir::open(temp.path().join("run/cells/001-read-delay-0/r1")).unwrap();
    let reasons = &failed.cells().unwrap()[0].cell.reasons;
    assert_eq!(*reasons, ["the near command ended with exit code 3: login refused"]);
    assert_eq!(
        fs::read_to_string(temp.path().join("attempts-0")).unwrap().trim(),
        "1",
        "a failure is not tried again"
    );
}

#[test]
fn a_load_that_a_signal_ended_has_no_figures() {
    let (_temp, outcome) = run("[ $delay = 0 ] && { document true 137; exit 137; } || document true 0");
    assert_eq!(outcome.failed, ["read at delay 0"]);
    assert_eq!(checks(&outcome), [("cheap (delay 0)", None, false), ("cheap (delay 8ms)", Some(15.0), true)]);
    let reasons: Vec<_> = outcome.tour.cells.iter().flat_map(|cell| &cell.repeats[0].reasons).collect();
    assert_eq!(reasons, ["the near command was killed by signal 9 (exit code 137, log in wan.log)"]);
}

#[test]
fn without_any_path_the_run_stops() {
    #[derive(Default)]
    struct Told(Vec<String>);
    impl Progress for Told {
        fn begins(&mut self, _step: &Step) {}
        fn ended(&mut self, _step: &Step, trouble: Option<&str>) {
            self.0.extend(trouble.map(str::to_owned));
        }
    }
    let temp = place("echo 'farlun: cannot make a network namespace' >&2; exit 1");
    let mut order = order(temp.path().join("run"));
    order.plan.repeats = 20;
    let mut told = Told::default();
    let outcome = lab().run(&order, &mut told).unwrap();
    assert_eq!(told.0, ["failed: cannot make a network namespace"], "said once");
    assert_eq!(outcome.tour.run.cells.len(), 2, "and not tried forty times");
    assert!(outcome.stopped.unwrap().contains("two cells in a row"));
}

#[test]
fn an_interval_is_over_the_valid_pairs_of_a_run() {
    let text = format!(
        "repeats = 15\n{PLAN}
        [[expect]]
        name = 'as much as nearby'
        value = 'read.cpu_near_per_io / read.cpu_near_per_io[delay=0]'
        op = '>='
        bound = 0.97
        interval = 'lower95'
        where = {{ delay = '8ms' }}"
    );
    let found = |body: &str| {
        let temp = place(body);
        let plan = Plan::parse(&text, Variant::Full).unwrap();
        let order = Order { plan, ..order(temp.path().join("run")) };
        let run = lab().run(&order, &mut Silent).unwrap().tour.run;
        assert_eq!((run.cells.len(), run.checks.len()), (30, 3));
        (run.checks[2].name.clone(), run.checks[2].value, run.checks[2].ok)
    };
    let name = |of: &str| format!("as much as nearby (delay 8ms), lower 95 % bound{of}");
    assert_eq!(found("document true 0"), (name(" of 15 pairs"), Some(1.0), true));
    let spoiled = "case $dir in *8ms/r4) document false 0; exit 4;; *) document true 0;; esac";
    assert_eq!(found(spoiled), (name(": 14 valid pairs, 15 are needed"), None, false));
}

#[test]
fn where_a_run_cannot_go() {
    let temp = place("document true 0");
    let refused = |out: &Path| lab().run(&order(out.to_owned()), &mut Silent).unwrap_err();
    let error = refused(temp.path());
    assert!(matches!(error, LabError::NotEmpty(_)));
    assert!(error.to_string().ends_with("exists and is not empty; name another directory with --out"));
    assert!(matches!(refused(&temp.path().join("body")), LabError::NotADirectory(_)));
    let error = refused(Path::new("/proc/nowhere/run"));
    assert!(matches!(error, LabError::File { .. }), "{error}");
    let lab = Lab::new(temp.path().join("missing"));
    let error = lab.run(&order(temp.path().join("run")), &mut Silent).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot run ") && error.ends_with("No such file or directory (os error 2)"),
        "{error}"
    );
}

/// Attempts at the cells of a run so far: at 0 and at 8 ms.
fn attempts(temp: &TempDir) -> [String; 2] {
    ["0", "8ms"].map(|delay| {
        let count = fs::read_to_string(temp.path().join(format!("attempts-{delay}")));
        count.map_or_else(|_| "0".to_owned(), |count| count.trim().to_owned())
    })
}

fn resumed(temp: &TempDir) -> Result<Outcome, LabError> {
    let order = Order { resume: true, ..order(temp.path().join("run")) };
    lab().run(&order, &mut Silent)
}

#[test]
fn what_is_valid_is_kept_and_the_rest_is_run_again() {
    let (temp, outcome) = run("[ $delay = 0 ] && document true 0 || { document false 0; exit 4; }");
    assert_eq!((outcome.invalid.len(), attempts(&temp)), (1, ["1".to_owned(), "5".to_owned()]));
    fs::write(temp.path().join("body"), "document true 0").unwrap();
    let outcome = resumed(&temp).unwrap();
    assert!(outcome.good());
    assert_eq!(attempts(&temp), ["1", "6"], "only what was not valid");
    assert_eq!(checks(&outcome).len(), 2);
    assert_eq!((outcome.tour.run.cells.len(), outcome.tour.run.resumed_unix_s.len()), (2, 1));
    // A run that is whole only has its checks and its page made again.
    fs::remove_file(&outcome.report_path).unwrap();
    let again = resumed(&temp).unwrap();
    assert!(again.good() && again.report_path.exists());
    assert_eq!(attempts(&temp), ["1", "6"]);
}

#[test]
fn cells_over_another_device_are_not_put_beside_those_that_are_kept() {
    let (temp, _) = run("[ $delay = 0 ] && document true 0 || { document false 0; exit 4; }");
    fs::write(temp.path().join("body"), "device=veth; document true 0").unwrap();
    let said = resumed(&temp).unwrap_err().to_string();
    let expected = "this run was begun with tun devices and an emulator with real-time priority, and this has veth \
                    devices and an emulator with real-time priority; resume it as it was begun";
    assert!(said.contains(expected), "{said}");
    fs::write(temp.path().join("body"), "document true 0").unwrap();
    assert!(resumed(&temp).unwrap().good(), "nothing was written down of it");
}

#[test]
fn times_and_rates_that_differ_in_their_last_digit_are_another_plan() {
    let precise = |text: &str| {
        let path = format!("[path]\n{text}\n\n[matrix]\nread.depth = [1, 2]");
        Plan::parse(&PLAN.replace("[matrix]\ndelay = [\"0\", \"8ms\"]", &path), Variant::Full)
            .unwrap()
            .to_json()
    };
    for (one, other) in [
        ("delay = \"8.001ms\"", "delay = \"8.002ms\""),
        ("rate = \"1000.001mbit\"", "rate = \"1000.002mbit\""),
        ("down = \"1.0001s+1s\"", "down = \"1.0002s+1s\""),
    ] {
        assert_ne!(precise(one), precise(other), "{one}");
    }
    let larger = PLAN.replace("1MiB", "8MiB");
    let load =
        |from: &str, to: &str| Plan::parse(&larger.replace(from, to), Variant::Full).unwrap().to_json();
    assert_ne!(load("\"4KiB\"", "1049088"), load("\"4KiB\"", "1049600"), "a mebibyte and a bit");
    assert_ne!(load("\"2s\"", "\"2.00001s\""), load("\"2s\"", "\"2.00002s\""));
}

#[test]
fn a_lab_that_was_killed_leaves_what_can_be_resumed() {
    let whole = |spoil: &dyn Fn(&Path)| {
        let (temp, outcome) = run("document true 0");
        assert!(outcome.good());
        spoil(&temp.path().join("run"));
        let outcome = resumed(&temp).unwrap();
        assert!(outcome.good() && outcome.tour.run.cells.len() == 2);
        attempts(&temp)
    };
    let listed = |run: &Path, count: usize| {
        let dir = RunDir::open(run).unwrap();
        let mut manifest = dir.manifest().unwrap();
        manifest.cells.truncate(count);
        dir.save(&manifest).unwrap();
        manifest.cells.first().map(|cell| run.join(&cell.dir))
    };
    // Before anything was written, and while it was.
    assert_eq!(whole(&|run| fs::remove_dir_all(run).unwrap()), ["2", "2"]);
    let begun = |run: &Path| {
        fs::remove_dir_all(run).unwrap();
        fs::create_dir_all(run.join("cells")).unwrap();
        fs::write(run.join("run.json.partial"), "{").unwrap();
    };
    assert_eq!(whole(&begun), ["2", "2"]);
    // Between a cell's manifest and its line in the run's.
    assert_eq!(whole(&|run| assert_eq!(listed(run, 0), None)), ["2", "2"]);
    // In the middle of a table, with the manifest of an earlier attempt gone already.
    let torn = |run: &Path| {
        let kept = listed(run, 1).unwrap();
        let other =
            ["001-read-delay-0", "002-read-delay-8ms"].map(|cell| run.join("cells").join(cell).join("r1"));
        let other = other.iter().find(|other| **other != kept).unwrap();
        fs::remove_file(other.join("cell.json")).unwrap();
        fs::write(other.join("packets.parquet.partial"), "PAR1").unwrap();
    };
    let mut counts = whole(&torn);
    counts.sort();
    assert_eq!(counts, ["1", "2"]);
    // A manifest that the disk lost.
    let empty = |run: &Path| fs::write(run.join("cells/001-read-delay-0/r1/cell.json"), "").unwrap();
    assert_eq!(whole(&empty), ["2", "1"]);
}

#[test]
fn another_run_is_not_gone_on_with() {
    let (temp, _) = run("document true 0");
    let refused = |change: &dyn Fn(&mut Order)| {
        let mut order = Order { resume: true, ..order(temp.path().join("run")) };
        change(&mut order);
        let error = lab().run(&order, &mut Silent).unwrap_err().to_string();
        let place = temp.path().join("run").display().to_string();
        error
            .replace(&place, "RUN")
            .replace("; resume it as it was begun, or name another directory with --out", "")
    };
    let plan = |from: &str, to: &str| Plan::parse(&PLAN.replace(from, to), Variant::Full).unwrap();
    assert_eq!(refused(&|order| order.seed = 8), "RUN: this run was begun with seed 7, and this is seed 8");
    assert_eq!(
        refused(&|order| order.plan = plan("4KiB", "8KiB")),
        "RUN: this run was begun with another plan: load.1.block was \"4KiB\" and is \"8KiB\""
    );
    assert_eq!(
        refused(&|order| order.plan = plan("\"pretend\"", "\"other\"")),
        "RUN: this run was begun with the plan 'pretend', and this is 'other'"
    );
    assert_eq!(
        refused(&|order| order.commit = Some("1234567".to_owned())),
        "RUN: this run was begun with farlun 0.1.0, and this is farlun 0.1.0 (1234567)"
    );
    let described = |change: &dyn Fn(&mut tables::manifest::Run)| {
        let dir = RunDir::open(temp.path().join("run")).unwrap();
        let kept = dir.manifest().unwrap();
        let mut changed = kept.clone();
        change(&mut changed);
        dir.save(&changed).unwrap();
        let said = refused(&|_| ());
        dir.save(&kept).unwrap();
        said
    };
    let said = described(&|run| run.program_sha256 = Some("0123456789abcdef".to_owned()));
    assert!(
        said.starts_with(
            "RUN: this run was begun with another build of farlun: its SHA-256 was 0123456789ab and is "
        ),
        "{said}"
    );
    let said = described(&|run| run.cpus += 1);
    assert!(said.contains(" processors, and now there are "), "{said}");
    let manifest = temp.path().join("run/run.json");
    let kept = fs::read_to_string(&manifest).unwrap();
    let other = kept.replace("\"schema_version\": 2,", "\"schema_version\": 1,");
    fs::write(&manifest, other).unwrap();
    assert_eq!(
        refused(&|_| ()),
        "RUN/run.json: found schema version 1, expected 2; run it again with this farlun, or read it with farlun 0.1.0, \
         which wrote it"
    );
    fs::write(&manifest, kept).unwrap();
    assert_eq!(
        refused(&|order| order.resume = false),
        "RUN holds a run already; go on with it by --resume, or name another directory with --out"
    );
    let held = fs::File::open(temp.path().join("run")).unwrap();
    held.lock().unwrap();
    let busy = refused(&|_| ());
    assert!(busy.starts_with("RUN: another farlun lab is at work there"), "{busy}");
    drop(held);
    // Comments are no part of a plan.
    let order =
        Order { plan: plan("name =", "# mine\nname ="), resume: true, ..order(temp.path().join("run")) };
    assert!(lab().run(&order, &mut Silent).unwrap().good());
}
