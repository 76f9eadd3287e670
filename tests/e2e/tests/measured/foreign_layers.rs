//! Where parallelism stops between our own end and one that others wrote, whose layers are not seen: the shipped plan
//! `layers-foreign`, with tgt behind our initiator and our target behind libiscsi.
//!
//! Requests are counted, so that a busy machine changes nothing that is asserted; whether calls per second are as
//! expected is the plan's own business.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use e2e::{Finished, decide, farlun, need, path, run, skip, tgtd};
use event::Layers;
use serde_json::Value;

/// One quick run of the plan, shared by the tests of this file.
struct Run {
    folder: PathBuf,
    document: Value,
}

fn plan() -> &'static Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(|| {
        let _turn = path::turn();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("layers-foreign");
        let _ = fs::remove_dir_all(&folder);
        let mut command = farlun(["lab", "layers-foreign", "--quick", "--json", "--out"]);
        let finished: Finished = run(command.arg(&folder), Duration::from_secs(600));
        Run { folder, document: finished.json() }
    })
}

/// The checks whose names begin with `of`, without those of rates.
#[track_caller]
fn counts_hold(of: &str) {
    let document = &plan().document;
    assert_eq!(document["failed"], serde_json::json!([]), "every command did its work");
    let checks = document["checks"].as_array().expect("a list of checks").iter();
    let counts: Vec<&Value> = checks
        .filter(|check| check["name"].as_str().is_some_and(|name| name.starts_with(of)))
        .filter(|check| !check["name"].as_str().is_some_and(|name| name.contains("calls")))
        .collect();
    assert!(counts.len() >= 3, "{document:#}");
    for check in counts {
        assert!(check["ok"] == true || check["value"].is_null(), "{check}");
        // Only an invalid cell has no value.
        decide!(check["ok"] == true, path::all_valid(document), "{check}");
    }
}

fn available() -> Result<(), String> {
    path::available()?;
    tgtd::available()?;
    skip::program("iscsi-perf")
}

#[test]
fn tgt_grants_129_commands_that_it_has_not_received_however_many_are_open() {
    need!(available());
    counts_hold("tgt: ");
    // MaxCmdSN is ExpCmdSN + MaxQueueCmds, so 129 commands go out before tgt has said anything.
    let cells = plan().document["cells"].as_array().expect("a list of cells");
    let cells: Vec<&Value> = cells.iter().filter(|cell| cell["load"] == "tgt").collect();
    // A lab that has stopped has not run all of them.
    decide!(cells.len() == 2, path::all_valid(&plan().document), "{cells:?}");
    for cell in cells {
        let dir = plan().folder.join(cell["dir"].as_str().expect("a directory"));
        let rows = tables::read::<Layers>(&dir).expect("layers");
        let first_status_ns = rows.status_t_ns.iter().copied().filter(|t| *t != 0).min().expect("an answer");
        let first = rows.granted_t_ns.iter().filter(|t| (1..first_status_ns).contains(*t)).count();
        assert_eq!(first, 129, "before the first answer: {cell}");
    }
}

#[test]
fn libiscsi_fills_the_window_of_our_target_and_no_more() {
    need!(available());
    counts_hold("libiscsi: ");
}

#[test]
fn between_our_own_ends_the_window_is_the_gate() {
    need!(available());
    counts_hold("ours: ");
}

#[test]
fn a_program_that_is_missing_is_named_with_its_package() {
    let folder = tempfile::tempdir().expect("a folder");
    let finished = run(
        farlun(["lab", "layers-foreign", "--out"]).arg(folder.path().join("run")).env("PATH", "/nowhere"),
        Duration::from_secs(60),
    )
    .expect_code(1);
    let said = "this plan needs tgtd, which is not installed; install the package tgt";
    assert!(finished.stderr.contains(said), "{finished:#?}");
    assert!(!folder.path().join("run").exists(), "nothing was begun");
}
