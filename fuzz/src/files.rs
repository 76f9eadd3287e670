//! The targets `plan`, `parquet` and `run_json`: files of others that are read: plans in TOML, tables, and the manifest of a run.

use std::fs;

use document::Document;
use event::Io;
use lab::{Plan, Variant};
use tables::RunDir;

use crate::folder::folder;

/// Cells of a plan that are made: a plan may have many, and each costs its time.
const CELLS_MAX_BYTES: usize = 4096;

/// TOML, and a plan in each of its variants. Problems name lines that are there.
pub(crate) fn plan(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(problems) = Document::parse(text) {
        assert!(!problems.is_empty());
        let _ = document::lines("plan.toml", &problems);
    }
    for variant in [Variant::Full, Variant::Quick, Variant::Smoke] {
        match Plan::parse(text, variant) {
            Ok(plan) if text.len() <= CELLS_MAX_BYTES => assert!(!plan.cells().is_empty()),
            Ok(_) => {}
            Err(problems) => {
                assert!(!problems.is_empty());
                let _ = document::lines("plan.toml", &problems);
            }
        }
    }
}

/// A table of a cell directory. The Parquet library's panics are errors by the time that they come back, and libFuzzer, which
/// ends at any panic, takes them for findings all the same.
pub(crate) fn parquet(data: &[u8]) {
    let folder = folder();
    fs::write(folder.path().join("io-near.parquet"), data).expect("the file can be written");
    // Rows or an error.
    let _ = tables::read::<Io>(folder.path());
    let _ = tables::lost_rows(folder.path());
}

/// The manifest of a run, and of its only cell.
pub(crate) fn run_json(data: &[u8]) {
    let folder = folder();
    fs::write(folder.path().join("run.json"), data).expect("the file can be written");
    let Ok(run) = RunDir::open(folder.path()) else { return };
    let Ok(manifest) = run.manifest() else { return };
    let _ = run.cells();
    // What was read is the same when it is written and read again.
    run.save(&manifest).expect("a manifest can be written");
    let again = run.manifest().expect("what was written can be read");
    assert_eq!(serde_json::to_value(&again).ok(), serde_json::to_value(&manifest).ok());
}
