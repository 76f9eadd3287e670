//! Our target under libiscsi's test suite: every test of it has the verdict that `docs/reference/conformance.md` says.
//!
//! Each run has a fresh target, to which the suite holds two sessions: its tests of several paths need a second. Most
//! of a run is waiting for what must not come, so that the runs go side by side.

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use e2e::conformance::{Document, Verdict, verdicts};
use e2e::ours::Target;
use e2e::{need, run, skip};
use tempfile::TempDir;

/// Name that the suite logs in with.
const SUITE: &str = "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test";

/// A run takes half a minute where nothing else runs.
const LIMIT: Duration = Duration::from_secs(300);

/// The log of the tests that `pattern` names against LUN 0, reached twice.
#[track_caller]
fn suite(target: &Target, pattern: &str) -> String {
    let url = target.url(0);
    let mut command = Command::new("iscsi-test-cu");
    // The exit code says whether a test failed, and the log says which.
    run(command.args(["-d", "-t", pattern, &url, &url]), LIMIT).stdout
}

/// A LUN in a sparse file, and the folder that the file is in.
fn file() -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("disk");
    File::create(&path).and_then(|file| file.set_len(64 << 20)).expect("a file for the disk");
    let lun = format!("file:{}", path.display());
    (folder, lun)
}

/// Runs the whole suite against a LUN and panics with whatever is otherwise than the document says of `name`.
#[track_caller]
fn expect_as_written(name: &str, lun: &str) {
    // One of its tests resets the target while the other session is there.
    let target = Target::serve_with(&[lun], &["--cold-reset", SUITE]);
    let log = suite(&target, "ALL");
    let found = Document::read().differences(name, &verdicts(&log));
    assert!(
        found.is_empty(),
        "against {lun}, {} things are otherwise than docs/reference/conformance.md says:\n- {}",
        found.len(),
        found.join("\n- ")
    );
}

#[test]
fn a_lun_in_memory() {
    need!(skip::program("iscsi-test-cu"));
    expect_as_written("memory", "memory:64MiB");
}

#[test]
fn a_lun_in_a_file() {
    need!(skip::program("iscsi-test-cu"));
    let (_folder, lun) = file();
    expect_as_written("file", &lun);
}

#[test]
fn a_lun_with_blocks_of_4096_bytes() {
    need!(skip::program("iscsi-test-cu"));
    expect_as_written("4096", "memory:64MiB,block=4096");
}

/// Its one test for these is skipped on every other LUN.
#[test]
fn a_lun_that_is_read_only() {
    need!(skip::program("iscsi-test-cu"));
    let (_folder, lun) = file();
    let target = Target::serve(&[&format!("{lun},ro")]);
    let verdicts = verdicts(&suite(&target, "ALL.ReadOnly"));
    let expected = [("ReadOnly.ReadOnlySBC".to_owned(), Verdict::Passed)];
    assert_eq!(verdicts, expected.into());
}
