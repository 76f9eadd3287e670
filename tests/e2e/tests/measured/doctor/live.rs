//! `farlun doctor URL` on our target over a path: which limit is named, and that taking it away changes something.

use std::time::Duration;

use e2e::path::{self, FAR};
use e2e::{decide, farlun_path, need};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(180);
const IQN: &str = "iqn.2026-11.io.farlun:doctor";

/// The doctor at a target of ours, 8 ms away each way; and the validity of the run.
#[track_caller]
fn over_the_path(target_flags: &str, doctor_flags: &str) -> (Value, Result<(), String>) {
    let _turn = path::turn();
    let program = farlun_path().to_str().expect("a path of plain characters");
    let far = format!(
        "exec {program} target --json --lun memory:64MiB --listen {FAR}:3260 --insecure --iqn {IQN} {target_flags}"
    );
    let near = format!("exec {program} doctor iscsi://{FAR}/{IQN}/0 --json --time 1s {doctor_flags}");
    let document = path::over_8ms(&far, &near, LIMIT);
    (document["near"]["output"].clone(), path::validity(&document))
}

/// The first limiter of a step.
fn limiter(document: &Value, step: usize) -> &str {
    let found = &document["steps"][step]["diagnosis"]["verdicts"][0]["limiter"];
    found.as_str().unwrap_or_else(|| panic!("step {step} has no verdict: {document}"))
}

fn bytes_per_s(document: &Value, step: usize) -> f64 {
    document["steps"][step]["diagnosis"]["current"]["bytes_per_s"].as_f64().expect("a rate")
}

#[test]
fn a_caller_that_asks_for_too_little_is_named_and_cured() {
    need!(path::available());
    let (document, validity) = over_the_path("", "--block 16KiB --depth 4 --fix");
    assert!(document["ending"]["text"].is_string(), "{document:#}");
    let found = limiter(&document, 0);
    decide!(found == "queue-depth", validity, "{found}: {document:#}");
    if found != "queue-depth" {
        return;
    }
    assert_eq!(document["steps"][0]["fix"]["limiter"], "queue-depth", "{document:#}");
    let (before, after) = (bytes_per_s(&document, 0), bytes_per_s(&document, 1));
    decide!(after > 2.0 * before, validity, "{before} and then {after}");
    let measured = document["steps"][0]["fix"]["measured"]["bytes_per_s"].as_f64();
    assert_eq!(measured, Some(after), "what came of it stands beside what was predicted");
    assert!(document["ending"]["text"].is_string(), "{document:#}");
}

#[test]
fn what_only_the_target_can_change_is_said_and_left() {
    need!(path::available());
    let (document, validity) =
        over_the_path("--compat nagle,separate-status", "--block 1KiB --depth 1 --fix");
    let found = limiter(&document, 0);
    let is_right = ["nagle", "separate-status"].contains(&found);
    decide!(is_right, validity, "{found}: {document:#}");
    if !is_right {
        return;
    }
    assert_eq!(document["ending"]["why"], "elsewhere", "{document:#}");
    assert_eq!(document["steps"].as_array().map(Vec::len), Some(1), "nothing was tried: {document:#}");
}
