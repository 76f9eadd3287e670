//! The doctor's proof by intervention, whole: its checks hold. It takes a quarter of an hour, so only a long run has it; a
//! case of it is run and judged by `path/lab/plans.rs`.

use std::path::Path;
use std::time::Duration;

use e2e::{farlun, need, path, run, skip};
use serde_json::Value;

#[test]
fn limiters_are_named_and_their_fixes_measured() {
    need!(skip::long(), path::available());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("doctor-matrix");
    let _ = std::fs::remove_dir_all(&folder);
    let seed = std::env::var("FARLUN_SEED").unwrap_or_else(|_| "1".to_owned());
    println!("FARLUN_SEED={seed}");
    let mut command = farlun(["lab", "doctor-matrix", "--json", "--seed", &seed, "--out"]);
    let _turn = path::turn();
    let finished = run(command.arg(&folder), Duration::from_secs(3600));
    let document = finished.json();
    let result = std::fs::read_to_string(folder.join("doctor.md")).expect("the confusion table");
    println!("{result}");
    assert_eq!(document["failed"], serde_json::json!([]), "every command of every case did its work");
    let judged: Value =
        serde_json::from_slice(&std::fs::read(folder.join("doctor.json")).expect("doctor.json"))
            .expect("JSON");
    let invalid = document["invalid"].as_array().map_or(0, Vec::len);
    let singles = judged["singles"].as_array().map_or(0, Vec::len);
    assert!(singles + invalid >= 36, "{singles} single limiters were judged");
    let checks = document["checks"].as_array().expect("checks");
    assert!(checks.iter().all(|check| check["ok"] == true), "the matrix holds\n{checks:#?}");
    assert_eq!(finished.code, if invalid > 0 { 4 } else { 0 }, "the exit code agrees with the checks");
}
