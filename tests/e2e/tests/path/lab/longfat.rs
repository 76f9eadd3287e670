//! Plans over IPv6 whose rate the run finds itself, and the shipped plan `longfat`, which is one; and `gaps`, in which the
//! same analysis has to find what was put in.
//!
//! What is asserted by default does not depend on how fast the machine is; with `--long` the shipped plans must pass.

use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::{decide, farlun, need, path, run, skip};
use serde_json::{Value, json};

const SMALL: &str = r#"
name = "small"
title = "a stream and reads over IPv6, at a rate that is found first"
record = ["packets"]
draw = ["ends"]

[path]
ipv6 = true
mtu = 9000
delay = "5ms"
rate = "0.05 * first.throughput"

[[lun]]
kind = "memory"
size = "64MiB"

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

[[load]]
name = "first"
kind = "stream"
path = { rate = "10gbit", queue = "32MB" }
validity = "off"
start = "500ms"
window = "500ms"

[[expect]]
name = "every packet of a stream has passed both taps"
value = "stream.unaccounted"
op = "=="
bound = 0
unit = "packets"

[[expect]]
name = "and every packet of reads"
value = "read.unaccounted"
op = "=="
bound = 0
unit = "packets"
"#;

#[test]
fn a_rate_is_found_first_and_everything_goes_over_ipv6() {
    need!(path::available());
    let temp = tempfile::tempdir().expect("a folder");
    let (plan, out) = (temp.path().join("small.toml"), temp.path().join("run"));
    fs::write(&plan, SMALL).expect("the plan is written");
    let mut command = farlun(["lab", "--json", "--out"]);
    let document = run(command.arg(&out).arg(&plan), Duration::from_secs(600)).json();
    assert_eq!((&document["failed"], &document["stopped"]), (&json!([]), &Value::Null), "{document:#}");
    let found = document["found"]["first"].as_f64().expect("what sets the rate is told");
    let cells = document["cells"].as_array().expect("a list of cells");
    assert_eq!((cells.len(), &cells[0]["load"]), (3, &json!("first")), "{document:#}");
    for entry in &cells[1..] {
        let dir = out.join(entry["dir"].as_str().expect("a directory"));
        let cell: Value =
            serde_json::from_slice(&fs::read(dir.join("cell.json")).expect("cell.json")).expect("JSON");
        let path = &cell["wan"]["path"];
        let rate = (found * 0.05 / 1e6).floor() * 1e6;
        assert_eq!(path["rate_bits_per_s"].as_f64(), Some(rate), "{entry}");
        assert_eq!(path["ipv6"], true, "{path:#}");
        let hosts: Vec<&Value> =
            ["near", "far"].iter().flat_map(|host| path["hosts"][host].as_array()).flatten().collect();
        assert_eq!(hosts, ["2001:2::1", "2001:2::2"]);
    }
    for check in document["checks"].as_array().expect("a list of checks") {
        assert!(check["ok"] == true || check["value"].is_null(), "{check}");
        // Only an invalid cell has no value.
        decide!(check["ok"] == true, path::all_valid(&document), "{check}");
    }
    let page = fs::read_to_string(out.join("report.html")).expect("a report");
    assert!(
        page.contains("id=\"table-ends\"") && page.contains("first carried, which sets the rate of others")
    );
}

#[test]
fn the_study_holds() {
    holds("longfat");
}

#[test]
fn causes_of_gaps_are_found() {
    holds("gaps");
}

/// That every check of a shipped plan holds, in the long tests.
fn holds(plan: &str) {
    need!(skip::long(), path::available());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(plan);
    let _ = fs::remove_dir_all(&folder);
    let mut command = farlun(["lab", plan, "--json", "--out"]);
    let finished = run(command.arg(&folder), Duration::from_secs(2 * 3600));
    let failed: Vec<Value> = finished.json()["checks"]
        .as_array()
        .expect("a list of checks")
        .iter()
        .filter(|c| c["ok"] != true)
        .cloned()
        .collect();
    assert_eq!((finished.code, failed), (0, Vec::new()));
}
