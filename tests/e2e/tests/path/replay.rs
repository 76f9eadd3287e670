//! `farlun replay`: the samples of a load, shown to a policy afterwards.

use std::time::Duration;

use e2e::ours::Target;
use e2e::path::{self, FAR};
use e2e::{farlun, farlun_path, need, run};
use event::{Granted, Host, SocketSample};
use net::threshold::is_free;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(180);

#[test]
fn a_recorded_load_is_shown_to_a_policy() {
    let trace = tempfile::tempdir().expect("a folder");
    let folder = trace.path().to_str().expect("plain characters");
    let target = Target::serve(&["memory:64MiB"]);
    let bench = ["--json", "--block", "64KiB", "--depth", "4", "--time", "1s", "--trace", folder];
    run(farlun(["bench", &target.url(0)]).args(bench), LIMIT).expect_code(0);
    let replay = |flags: &[&str]| run(farlun(["replay", folder]).args(flags), LIMIT);

    let document = replay(&["--policy", "auto", "--every", "100ms", "--json"]).expect_code(0).json();
    let connection = &document["cells"][0]["connections"][0];
    assert_eq!((&document["policy"], &connection["host"]), (&"auto".into(), &"near".into()), "{document:#}");
    // A hundred samples a second; how many there are on a busy machine is its own affair.
    assert!(connection["samples"].as_u64() >= Some(2), "{connection:#}");
    let steps = connection["steps"].as_array().expect("steps");
    let step = &steps[steps.len() / 2];
    assert!(step["recorded"]["cwnd_bytes"].as_u64() > Some(0), "{step:#}");
    let outstanding = step["recorded"]["outstanding_bytes"].as_u64().expect("requests were recorded");
    assert!((1..=4 * 65_536).contains(&outstanding), "{step:#}");
    assert!(step["decided"]["outstanding_bytes"].as_u64() >= Some(8 << 20), "{step:#}");
    assert!(step["decided"]["command_window"].as_u64() > Some(0), "{step:#}");

    let text = replay(&["--policy", "auto"]).expect_code(0).stdout;
    assert!(text.contains("near · connection") && text.contains("decided"), "{text}");
    replay(&["--policy", "best"]).expect_code(2).expect_said("auto");
    let empty = tempfile::tempdir().expect("a folder");
    let nothing = run(farlun(["replay", "--policy", "auto"]).arg(empty.path()), LIMIT);
    nothing.expect_code(2).expect_sentence(&["expected a run directory"]);
}

/// Records reads of a megabyte over an emulated path, at both ends, and replays them with `policy`; the document, and
/// the rows.
#[track_caller]
fn replayed(flags: &str, reads: &str, policy: &str) -> (Value, Vec<SocketSample>) {
    let trace = tempfile::tempdir().expect("a folder");
    let folder = trace.path().to_str().expect("plain characters");
    let (farlun_path, iqn) = (farlun_path().display(), "iqn.2026-11.io.farlun:replay");
    let far = format!(
        "exec {farlun_path} target --insecure --lun memory:64MiB --iqn {iqn} --listen {FAR}:3260 --trace {folder} \
         --policy {policy} --cc reno"
    );
    let near = format!(
        "exec {farlun_path} bench iscsi://{FAR}/{iqn}/0 --block 1MiB --time 2s --trace {folder} --policy {policy} \
         --cc reno {reads} >&2"
    );
    let mut command = farlun(["wan", "--json", "--validity", "off"]);
    command.args(flags.split_whitespace()).args(["--far", &far, "--", "sh", "-c", &near]);
    run(&mut command, LIMIT).expect_code(0);
    let replay = ["--policy", policy, "--every", "100ms", "--json"];
    let document = run(farlun(["replay", folder]).args(replay), LIMIT).expect_code(0).json();
    let table = tables::read::<SocketSample>(trace.path()).expect("the table");
    (document, (0..table.t_ns.len()).map(|row| table.sample(row)).collect())
}

/// Every recorded decision is one that the replay comes to; how many there are.
#[track_caller]
fn check_the_same(document: &Value) -> u64 {
    let connections = document["cells"][0]["connections"].as_array().expect("connections");
    let counts = connections.iter().map(|connection| {
        let decisions = &connection["decisions"];
        assert_eq!(decisions["same"], decisions["recorded"], "{connection:#}");
        decisions["recorded"].as_u64().expect("a number")
    });
    counts.sum()
}

/// Whether bulk is handed over at a rate because its device takes packets one by one.
fn is_by_hand(row: &SocketSample) -> bool {
    let is_bulk = row.unsent_bytes + u64::from(row.notsent_bytes) >= 2 << 20;
    row.steered.is_some_and(|steered| {
        let decided = steered.decided;
        let is_handed = decided.burst_bytes_per_s < u64::MAX && decided.pacing_bytes_per_s == u64::MAX;
        steered.paced_one_by_one && is_bulk && is_handed
    })
}

#[test]
fn what_a_policy_decided_it_decides_again() {
    need!(path::available());
    // Lone requests that are held back, and windows that a ring cuts.
    let (document, rows) = replayed("--delay 8ms --ring 256", "--depth 1", "auto");
    assert!(check_the_same(&document) > 20, "both ends look a hundred times a second, if they may");
    let steered = || rows.iter().filter_map(|row| row.steered);
    assert!(steered().any(|steered| steered.was_spaced && steered.handed_bytes_per_s > 0));
    assert!(steered().any(|steered| steered.decided.burst_bytes_per_s < u64::MAX));
    // One that cuts them to much less than a block, on a line that is slower than a first block is handed over: the threshold
    // that is left is gone at the next look, or cut again.
    let (document, rows) = replayed("--delay 8ms --rate 200mbit --ring 80", "--depth 1", "auto");
    check_the_same(&document);
    let forgotten =
        |row: &SocketSample| row.steered.map_or(0, |steered| steered.decided.thresholds_forgotten);
    let far: Vec<&SocketSample> = rows.iter().filter(|row| row.host == Host::Far).collect();
    let freed = far.windows(2).filter(|step| {
        let is_free = step[1].steered.is_some_and(|steered| steered.forgets_freely);
        is_free && step[0].connection == step[1].connection && forgotten(step[1]) > forgotten(step[0])
    });
    let next = freed.filter_map(|step| far.iter().find(|row| row.t > step[1].t));
    let after: Vec<u32> = next.map(|row| row.ssthresh_packets).collect();
    assert!(!is_free() || after.iter().any(|packets| *packets > 1 << 30), "{after:?}");
    // Sessions that share the line.
    let (document, rows) = replayed("--delay 8ms --rate 200mbit", "--sessions 2", "auto");
    assert!(check_the_same(&document) > 20);
    let is_part = |row: &SocketSample| row.steered.is_some_and(|s| matches!(s.granted, Granted::Part(_)));
    assert!(rows.iter().any(is_part), "the target has shared the line");
    assert!(!rows.iter().any(is_by_hand), "its device takes super-packets");
    // A lot to send through a device that takes packets one by one: handed over, and not paced by the kernel.
    let (document, rows) = replayed("--delay 8ms --rate 200mbit --ring 256", "--depth 16", "auto");
    assert!(check_the_same(&document) > 20);
    assert!(rows.iter().any(is_by_hand), "the far device takes no super-packets");
    // A policy that listens to what the other end tells.
    let (document, rows) = replayed("--delay 8ms --ring 80", "--depth 1", "study");
    check_the_same(&document);
    assert!(rows.iter().any(|row| row.steered.is_some_and(|steered| steered.told.is_some())));
}
