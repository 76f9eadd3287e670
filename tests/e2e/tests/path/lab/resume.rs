//! A lab that is killed at any moment leaves a directory that it goes on with, and nothing else behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use e2e::process::until;
use e2e::{Service, farlun, need, path, run};

/// Four cells of about two seconds.
const PLAN: &str = r#"
name = "small"
title = "two loads, twice"
repeats = 2

[path]
delay = "1ms"
rate = "100mbit"

[[lun]]
kind = "memory"
size = "16MiB"

[[load]]
name = "stream"
kind = "stream"
window = "500ms"

[[load]]
name = "read"
kind = "bench"
op = "read"
block = "64KiB"
window = "500ms"
"#;

/// Every cell may be run three times on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

fn lab(plan: &Path, out: &Path) -> Command {
    let mut command = farlun(["lab", "--json", "--resume", "--seed", "3"]);
    command.arg(plan).arg("--out").arg(out);
    command
}

/// When the manifest of every finished cell was written.
fn finished(out: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let repeats =
        |cell: PathBuf| fs::read_dir(cell).into_iter().flatten().flatten().map(|entry| entry.path());
    let cells =
        fs::read_dir(out.join("cells")).into_iter().flatten().flatten().flat_map(|c| repeats(c.path()));
    let manifests = cells.map(|repeat| repeat.join("cell.json")).filter(|manifest| manifest.exists());
    manifests.map(|m| (m.clone(), fs::metadata(&m).unwrap().modified().unwrap())).collect()
}

/// Processes of this run that are alive: all of them name its directory.
fn alive(out: &Path) -> usize {
    let name = out.display().to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(&name)).count()
}

#[test]
fn a_killed_lab_goes_on() {
    need!(path::available());
    let temp = tempfile::tempdir().unwrap();
    let (plan, out) = (temp.path().join("small.toml"), temp.path().join("run"));
    fs::write(&plan, PLAN).unwrap();
    // In the middle of its first cell, and after one has been written down.
    let in_a_cell = || {
        out.join("cells/001-stream/r1/wan.json").exists() || out.join("cells/002-read/r1/wan.json").exists()
    };
    let mut killed = Service::start(&mut lab(&plan, &out));
    until("a cell begins", LIMIT, in_a_cell);
    killed.kill();
    until("everything has ended", LIMIT, || alive(&out) == 0);
    let mut killed = Service::start(&mut lab(&plan, &out));
    until("a cell is written down", LIMIT, || !finished(&out).is_empty());
    killed.kill();
    until("everything has ended", LIMIT, || alive(&out) == 0);

    // The last one may have been killed before the run's manifest had it.
    let listed = fs::read_to_string(out.join("run.json")).unwrap();
    let kept: Vec<_> = finished(&out)
        .into_iter()
        .filter(|(m, _)| {
            let dir = m.parent().unwrap().strip_prefix(&out).unwrap().display().to_string();
            listed.contains(&dir) && fs::read_to_string(m).unwrap().contains("\"valid\": true")
        })
        .collect();
    let resumed = run(&mut lab(&plan, &out), LIMIT);
    let document = resumed.json();
    assert_eq!(document["cells"].as_array().map(Vec::len), Some(4), "{document:#}");
    assert_eq!(document["failed"], serde_json::json!([]), "{document:#}");
    assert_eq!(document["resumed_unix_s"].as_array().map(Vec::len), Some(2), "{document:#}");
    assert!(out.join("report.html").exists());
    let now = finished(&out);
    assert_eq!(now.len(), 4);
    for (manifest, written) in kept {
        assert_eq!(now[&manifest], written, "{} was not run again", manifest.display());
    }

    let mut other = farlun(["lab", "--json", "--resume", "--seed", "4"]);
    let other = run(other.arg(&plan).arg("--out").arg(&out), LIMIT);
    assert_eq!(other.code, 2, "{other:#?}");
}
