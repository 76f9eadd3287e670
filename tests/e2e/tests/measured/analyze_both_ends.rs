//! Captures of both ends of a path in one file: each connection is told once. QEMU over the emulated path.

use std::path::{Path, PathBuf};

use e2e::tap::{IQN, LIMIT, list_of};
use e2e::{decide, farlun, farlun_path, need, path, run, skip};
use serde_json::Value;

/// Runs a load over 8 ms and 1 Gb/s against our target; the capture at both ends, and the validity of the run.
fn both_ends(folder: &Path, load: &str) -> (PathBuf, Result<(), String>) {
    let _turn = path::turn();
    let (bin, far) = (farlun_path().display(), path::FAR);
    let serve =
        format!("exec {bin} target --json --iqn {IQN} --listen {far}:3260 --insecure --lun memory:64MiB");
    let load = load.replace("URL", &format!("iscsi://{far}/{IQN}/0"));
    let [far, near] = [("far.sh", serve), ("near.sh", load)].map(|(name, text)| {
        let script = folder.join(name);
        std::fs::write(&script, format!("set -eu\n{text}\n")).expect("a script");
        script
    });
    let mut command = farlun(["capture", "--at-wan", "--json", "--snap", "262144", "-o"]);
    command.arg(folder.join("capture")).args(["--", "--delay", "4ms", "--rate", "1gbit", "--queue", "2MB"]);
    command.args(["--seed", "7", "--far"]).arg(format!("sh {}", far.display())).args(["--", "sh"]).arg(&near);
    let finished = run(&mut command, LIMIT);
    assert_eq!(finished.code, 0, "{finished:#?}");
    let document = finished.json();
    assert_eq!(document["near"]["exit_code"], 0, "{finished:#?}");
    let file = PathBuf::from(document["capture"]["files"][0].as_str().expect("a file"));
    (file, path::validity(&document))
}

fn analyzed_at(file: &Path, interface: &str) -> Value {
    let mut command = farlun(["analyze", "--json", "--interface", interface]);
    run(command.arg(file), LIMIT).expect_code(0).json()
}

/// How many commands with these operation codes each initiator's address had answered, as seen at an interface.
fn answered(file: &Path, interface: &str, operations: [&str; 2]) -> Vec<(String, usize)> {
    let mut found: Vec<(String, usize)> = Vec::new();
    for row in list_of(file, "commands", &["--interface", interface]) {
        if operations.contains(&row[5].as_str()) {
            match found.iter_mut().find(|(initiator, _)| *initiator == row[1]) {
                Some((_, count)) => *count += 1,
                None => found.push((row[1].clone(), 1)),
            }
        }
    }
    found
}

const READS: [&str; 2] = ["0x28", "0x88"];
const WRITES: [&str; 2] = ["0x2a", "0x8a"];

#[test]
fn qemu_over_the_path_has_its_commands_and_its_verdict_once() {
    need!(path::available(), skip::qemu_iscsi(), skip::program("ping"));
    let folder = tempfile::tempdir().expect("a folder");
    // The ping comes back behind all that was said before it.
    let load = "qemu-img bench -f raw -c 400 -d 8 -s 4096 URL >&2\nqemu-img bench -w -f raw -c 60 -d 1 -s 4096 URL >&2\n\
                ping -q -c 1 -W 60 $FARLUN_FAR >&2";
    let (file, validity) = both_ends(folder.path(), load);
    let capture = run(farlun(["analyze", "--json"]).arg(&file), LIMIT).expect_code(0).json();
    let names: Vec<&str> = capture["interfaces"]
        .as_array()
        .expect("interfaces")
        .iter()
        .filter_map(|i| i["name"].as_str())
        .collect();
    assert_eq!(names, ["near", "far"]);
    let connections = capture["connections"].as_array().expect("connections");
    assert_eq!(connections.len(), 2, "one of each program: {capture}");
    for connection in connections {
        assert_eq!(connection["directions"][0]["interface"], 0, "{connection}");
        assert_eq!((&connection["also_at"][0], &connection["also_at"][1]), (&1.into(), &Value::Null));
        // A tail probe may be sent on a busy machine; both ends in one would be every other segment.
        for direction in connection["directions"].as_array().expect("two") {
            let [again, all] = ["retransmissions", "data_packets"].map(|key| direction[key].as_u64());
            assert!(again.map(|again| again * 10) < all, "{direction}");
        }
    }
    let far = analyzed_at(&file, "far");
    for (operations, count, limiter, deepest) in
        [(READS, 400, "queue-depth", 8), (WRITES, 60, "round-trip", 1)]
    {
        let [near_rows, far_rows] = ["near", "1"].map(|interface| answered(&file, interface, operations));
        let [(initiator, found)] = &near_rows[..] else { panic!("{operations:?}: {near_rows:?}") };
        assert_eq!(*found, count, "{operations:?}");
        assert_eq!(near_rows, far_rows);
        for (is_near, capture) in [(true, &capture), (false, &far)] {
            let mut connections = capture["connections"].as_array().expect("connections").iter();
            let of_this = |c: &&Value| c["directions"][0]["from"] == initiator.as_str();
            let connection = connections.find(of_this).expect("the connection of these commands");
            let (commands, verdicts) =
                (&connection["iscsi"]["commands"], &connection["diagnosis"]["verdicts"]);
            assert_eq!(commands["sent"], commands["completed"], "{commands}");
            // A target answers at once: beside it, the last of the commands may come after the first's answer.
            let most = commands["in_flight"]["max"].as_u64().expect("a count");
            assert!(if is_near { most == deepest } else { (1..=deepest).contains(&most) }, "{commands}");
            // Both ends say the same, wherever the time without a command is seen.
            let is_right = verdicts[0]["limiter"] == limiter;
            decide!(is_right, validity, "{}\n{verdicts}", connection["iscsi"]["time"]);
        }
    }

    // The busiest connection's settings stand in the text, as the doctor says them.
    let said = run(farlun(["analyze"]).arg(&file), LIMIT).expect_code(0).stdout;
    for expected in [
        "packets of 2 interfaces: near (",
        "2 of the connections passed several of them and are told once",
        "1. the caller keeps too few requests outstanding",
        "node.session.queue_depth",
        "What cannot be known from here:",
        "taken at near; far shows it too",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let refused = run(farlun(["analyze", "--interface", "eth7"]).arg(&file), LIMIT);
    refused.expect_code(2).expect_said("interface eth7, expected one of: 0 (near), 1 (far)");
}
