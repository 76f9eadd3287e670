//! Every plan that ships, in its smoke size: each command of each load does its work on this machine, each load leaves its
//! tables, and the report is drawn.
//!
//! What a plan finds is for its whole run to say: `farlun lab NAME`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::{farlun, need, path, run, tgtd};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(600);

#[track_caller]
fn check(plan: &str) {
    let temp = tempfile::tempdir().expect("a folder");
    check_in(&temp.path().join("run"), plan);
}

/// The same; the run is in `out`.
#[track_caller]
fn check_in(out: &Path, plan: &str) {
    let mut command = farlun(["lab", plan, "--smoke", "--json", "--out"]);
    let finished = run(command.arg(out), LIMIT).expect_code(0);
    let document = finished.json();
    assert_eq!((&document["failed"], &document["stopped"]), (&json!([]), &Value::Null), "{document:#}");
    let cells = document["cells"].as_array().expect("a list of cells");
    assert!(!cells.is_empty(), "{document:#}");
    for cell in cells {
        let dir = out.join(cell["dir"].as_str().expect("a directory"));
        assert!(dir.join("cell.json").exists(), "{cell}");
    }
    let checks = document["checks"].as_array().expect("a list of checks");
    let valueless: Vec<&Value> = checks.iter().filter(|check| check["value"].is_null()).collect();
    // In so short a window some request may not have come back; a plan whose tables lack a metric has none of its values.
    assert!(valueless.len() * 2 <= checks.len(), "{valueless:#?}");
    assert!(out.join("report.html").exists());
}

/// One test a plan, so that plans run side by side.
macro_rules! plans {
    ($($test:ident: $plan:literal $(needs $need:expr)?;)+) => {
        const TESTED: &[&str] = &[$($plan),+];

        $(
            #[test]
            fn $test() {
                need!(path::available() $(, $need)?);
                check($plan);
            }
        )+
    };
}

plans! {
    tour: "tour";
    ramp: "ramp";
    turnaround: "turnaround";
    layers: "layers";
    layers_foreign: "layers-foreign" needs tgtd::available();
    control: "control";
    study: "study";
    short: "short";
    initiators: "initiators";
    starvation: "starvation";
    questions: "questions";
    newcomer: "newcomer";
    sites: "sites";
    neighbour: "neighbour";
    gaps: "gaps";
    loss: "loss";
    longfat: "longfat";
}

/// The one plan that judges cases: the doctor comes to the same from the run alone.
#[test]
fn doctor_matrix() {
    need!(path::available());
    let temp = tempfile::tempdir().expect("a folder");
    let out = temp.path().join("run");
    check_in(&out, "doctor-matrix");
    let document = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).expect("JSON");
    let judged = document(&fs::read(out.join("doctor.json")).expect("doctor.json"));
    assert_eq!(judged["singles"].as_array().map(Vec::len), Some(1), "{judged:#}");
    let again = run(farlun(["doctor", "--json"]).arg(&out), LIMIT).expect_code(0).json();
    assert_eq!(again["cases"], judged);
}

#[test]
fn every_plan_that_ships_is_tested() {
    let listed = run(&mut farlun(["lab", "list"]), LIMIT).expect_code(0);
    let names: Vec<&str> = listed.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let others: Vec<&str> = names.into_iter().filter(|name| *name != "doctor-matrix").collect();
    assert_eq!(others, TESTED);
}

#[test]
fn shipped_plans_are_listed_and_sound() {
    let listed = run(&mut farlun(["lab", "list"]), Duration::from_secs(60)).expect_code(0);
    let names: Vec<&str> = listed.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"tour"), "{listed:#?}");
    for name in names {
        run(&mut farlun(["lab", "check", name]), Duration::from_secs(60)).expect_code(0);
    }
}
