//! Runs that are judged: checks are evaluated and decide the exit code, a valid cell is compared with itself, an invalid one
//! is refused. `--long` asks for the whole tour.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use e2e::{Finished, decide, farlun, need, or_undecided, path, report, run, skip};
use serde_json::Value;

/// Two loads on a slow line, and an expectation that holds beside one that cannot.
const PLAN: &str = r#"
name = "small"
title = "a stream and reads on a slow line"

[path]
delay = "5ms"
rate = "100mbit"

[[lun]]
kind = "memory"
size = "16MiB"

[[load]]
name = "stream"
kind = "stream"
start = "500ms"
window = "1s"

[[load]]
name = "read"
kind = "bench"
op = "read"
block = "64KiB"
start = "500ms"
window = "1s"

[[expect]]
name = "no more than the line carries"
value = "stream.share_of_line"
op = "<="
bound = 1.05

[[expect]]
name = "twice what the line carries"
value = "read.share_of_line"
op = ">="
bound = 2.0
"#;

/// One run of the plan, shared by the tests of this file.
struct Small {
    folder: PathBuf,
    finished: Finished,
}

fn small() -> &'static Small {
    static SMALL: OnceLock<Small> = OnceLock::new();
    SMALL.get_or_init(|| {
        let _turn = path::turn();
        let temp = tempfile::tempdir().expect("a folder");
        let plan = temp.path().join("small.toml");
        fs::write(&plan, PLAN).expect("a plan");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("judged");
        let _ = fs::remove_dir_all(&folder);
        let mut command = farlun(["lab", "--json", "--out"]);
        Small { finished: run(command.arg(&folder).arg(&plan), Duration::from_secs(600)), folder }
    })
}

#[test]
fn checks_are_evaluated_and_decide_the_exit_code() {
    need!(path::available());
    let small = small();
    let document = small.finished.json();
    let checks = document["checks"].as_array().expect("a list of checks");
    assert!(!checks.is_empty(), "the plan expects something");
    for check in checks {
        for key in ["name", "value", "op", "bound", "unit", "ok"] {
            assert!(check.get(key).is_some(), "a check has no `{key}`: {check}");
        }
        // Shown when this test fails, and by `--nocapture`.
        println!("{check}");
    }
    assert_eq!(document["failed"], serde_json::json!([]), "every command of every cell did its work");
    let invalid = document["invalid"].as_array().is_some_and(|cells| !cells.is_empty());
    let unfulfilled = checks.iter().any(|check| check["ok"] != true);
    let holds: Vec<bool> = checks.iter().map(|check| check["ok"] == true).collect();
    decide!(holds == [true, false], path::all_valid(&document), "{checks:#?}");
    let expected = if invalid { 4 } else { i32::from(unfulfilled) };
    assert_eq!(small.finished.code, expected, "the exit code agrees with the checks\n{document:#}");
    let stored: Value = serde_json::from_slice(&fs::read(small.folder.join("run.json")).expect("run.json"))
        .expect("run.json is JSON");
    assert_eq!(stored["checks"], document["checks"], "what is stored is what was printed");
}

#[test]
fn a_cell_beside_itself_is_alike_and_beside_nothing_refused() {
    need!(path::available(), report::available());
    let small = small();
    let document = |path: &Path| -> Value {
        serde_json::from_slice(&fs::read(path).expect("a document")).expect("JSON")
    };
    let reads: Vec<PathBuf> = document(&small.folder.join("run.json"))["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .filter(|cell| cell["load"] == "read")
        .map(|cell| small.folder.join(cell["dir"].as_str().expect("a directory")))
        .collect();
    let limit = Duration::from_secs(120);
    let is_valid = |dir: &&PathBuf| document(&dir.join("cell.json"))["valid"] == true;
    // One that the machine was too busy for is refused.
    if let Some(spoilt) = reads.iter().find(|dir| !is_valid(dir)) {
        run(farlun(["compare"]).arg(spoilt).arg(spoilt), limit).expect_code(2);
    }
    let all_valid = path::all_valid(&small.finished.json());
    let cell = or_undecided!(reads.iter().find(is_valid).ok_or(format!("no read was valid: {all_valid:?}")));
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compare.html");
    let mut command = farlun(["compare", "--json", "--page"]);
    let found = run(command.arg(&page).arg(cell).arg(cell), limit).expect_code(0).json();
    let rows = found["result"]["pairs"][0]["rows"].as_array().expect("figures of both");
    assert!(rows.iter().any(|row| row["name"] == "throughput"), "{found:#}");
    for row in rows {
        assert!(row["medians"][0].is_number() && row["medians"][0] == row["medians"][1], "{row}");
        assert!(row["outcome"] == "alike" || row["outcome"] == "open", "{row}");
    }
    let page = report::open(&page);
    assert_eq!(page.attribute("data-errors"), None, "no script error");
    assert!(page.dom.contains("farlun compare"), "the command that draws the page again is in it");
    let refused = run(farlun(["compare"]).arg(cell).arg("/nonexistent"), limit).expect_code(2);
    assert!(refused.stderr.contains("/nonexistent"), "{refused:#?}");
}

#[test]
fn the_whole_tour_passes() {
    need!(skip::long(), path::available());
    let _turn = path::turn();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tour");
    let _ = fs::remove_dir_all(&folder);
    let mut command = farlun(["lab", "--json", "--out"]);
    let finished = run(command.arg(&folder), Duration::from_secs(1200));
    assert_eq!(finished.code, 0, "{finished:#?}");
}
