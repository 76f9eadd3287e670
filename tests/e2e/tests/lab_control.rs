//! The plans that `docs/control.md` has its figures from, in their quick variants: each command of theirs does its work,
//! and each expectation that is left finds its value.
//!
//! What the values are is for the whole plans to say, which take half an hour each: `farlun lab NAME`.

use std::time::Duration;

use e2e::{farlun, need, path, run};
use serde_json::{Value, json};

#[track_caller]
fn check(plan: &str) {
    let _turn = path::turn();
    let temp = tempfile::tempdir().expect("a folder");
    let mut command = farlun(["lab", plan, "--quick", "--json", "--out"]);
    let finished = run(command.arg(temp.path().join("run")), Duration::from_secs(900));
    let document = finished.json();
    assert_eq!((&document["failed"], &document["stopped"]), (&json!([]), &Value::Null), "{document:#}");
    let checks = document["checks"].as_array().expect("a list of checks");
    let is_valid = document["invalid"].as_array().is_none_or(Vec::is_empty);
    let valueless: Vec<&Value> = checks.iter().filter(|check| check["value"].is_null()).collect();
    assert!(!checks.is_empty() && (valueless.is_empty() || !is_valid), "{valueless:#?}");
    let holds = checks.iter().all(|check| check["ok"] == true);
    let expected = if is_valid { i32::from(!holds) } else { 4 };
    assert_eq!(finished.code, expected, "the exit code agrees with the checks: {document:#}");
}

#[test]
fn the_study_of_control() {
    need!(path::available());
    check("control");
}

#[test]
fn the_study_of_several_initiators() {
    need!(path::available());
    check("initiators");
}

#[test]
fn what_they_left_open() {
    need!(path::available());
    check("questions");
}

#[test]
fn what_control_costs_on_a_short_line() {
    need!(path::available());
    check("short");
}

#[test]
fn what_the_studys_control_gains() {
    need!(path::available());
    check("study");
}
