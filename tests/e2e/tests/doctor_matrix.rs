//! The doctor's proof by intervention: a small part of it always, the whole with `--long`, where its checks must hold.
//!
//! Whether a busy machine spoils a figure is the plan's own business: in the small part the exit code only has to agree
//! with the checks, and every case must have been run and judged.

use std::path::Path;
use std::time::Duration;

use e2e::{farlun, need, path, run};
use serde_json::Value;

#[test]
fn limiters_are_named_and_their_fixes_measured() {
    need!(path::available());
    let long = std::env::var_os("FARLUN_LONG").is_some();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("doctor-matrix");
    let _ = std::fs::remove_dir_all(&folder);
    let seed = std::env::var("FARLUN_SEED").unwrap_or_else(|_| "1".to_owned());
    println!("FARLUN_SEED={seed}");
    let mut command = farlun(["lab", "doctor-matrix", "--json", "--seed", &seed, "--out"]);
    command.arg(&folder);
    if !long {
        command.arg("--quick");
    }
    let _turn = path::turn();
    let finished = run(&mut command, Duration::from_secs(if long { 3600 } else { 900 }));
    let document = finished.json();
    let result = std::fs::read_to_string(folder.join("doctor.md")).expect("the confusion table");
    println!("{result}");
    assert_eq!(document["failed"], serde_json::json!([]), "every command of every case did its work");
    let judged: Value =
        serde_json::from_slice(&std::fs::read(folder.join("doctor.json")).expect("doctor.json"))
            .expect("JSON");
    let invalid = document["invalid"].as_array().map_or(0, Vec::len);
    let singles = judged["singles"].as_array().map_or(0, Vec::len);
    assert!(singles + invalid >= if long { 36 } else { 3 }, "{singles} single limiters were judged");
    let checks = document["checks"].as_array().expect("checks");
    let holds = checks.iter().all(|check| check["ok"] == true);
    let expected = if invalid > 0 { 4 } else { i32::from(!holds) };
    assert_eq!(finished.code, expected, "the exit code agrees with the checks\n{checks:#?}");
    assert!(!long || holds, "the matrix holds\n{checks:#?}");
    // The same doctor says the same of the same tables, from the run alone.
    let again =
        run(farlun(["doctor", "--json"]).arg(&folder), Duration::from_secs(300)).expect_code(0).json();
    assert_eq!(again["cases"], judged);
}
