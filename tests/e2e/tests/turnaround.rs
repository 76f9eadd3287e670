//! What a small read costs on a long path when the target sends as others do (`[compat]`): round trips are counted, so
//! a busy machine changes nothing that is asserted here.

use std::time::Duration;

use e2e::path::{self, FAR};
use e2e::{farlun, farlun_path, need, run};

const LIMIT: Duration = Duration::from_secs(60);
const IQN: &str = "iqn.2026-11.io.farlun:turnaround";
const RTT_NS: f64 = 8e6;

/// The quickest and the median read of `block`, one after the other, in round trips.
#[track_caller]
fn round_trips(compat: &str, block: &str) -> (f64, f64) {
    let _turn = path::turn();
    let program = farlun_path().to_str().expect("a path of plain characters");
    let flags = if compat.is_empty() { String::new() } else { format!(" --compat {compat}") };
    let far = format!(
        "exec {program} target --cc cubic --insecure --lun memory:64MiB --iqn {IQN} --listen {FAR}:3260{flags}"
    );
    let mut command = farlun(["wan", "--json", "--validity", "off", "--delay", "4ms", "--far", &far, "--"]);
    let url = format!("iscsi://{FAR}/{IQN}/0");
    command.args([program, "bench", &url, "--json", "--depth", "1", "--time", "1s", "--block", block]);
    let document = run(&mut command, LIMIT).expect_code(0).json();
    let latency = &document["near"]["output"]["latency_ns"];
    let read =
        |name: &str| latency[name].as_f64().unwrap_or_else(|| panic!("no {name}: {document}")) / RTT_NS;
    (read("min"), read("p50"))
}

#[test]
fn a_status_of_its_own_costs_a_round_trip_where_nagle_holds_it() {
    need!(path::available());
    for (compat, block) in [("nagle,separate-status", "2KiB"), ("nagle,separate-status", "8KiB")] {
        let (_, median) = round_trips(compat, block);
        assert!(median > 1.7, "{compat} {block}: {median} round trips");
    }
    // Every cure by itself: one send, no Nagle, no Response, none of it.
    for compat in ["nagle,separate-status,joined-send", "separate-status", "nagle", ""] {
        let (least, _) = round_trips(compat, "8KiB");
        assert!(least < 1.3, "{compat}: {least} round trips");
    }
}

#[test]
fn a_lone_packet_waits_for_the_delayed_acknowledgement_too() {
    need!(path::available());
    // Two round trips of 8 ms and Linux's 40 ms.
    let (_, median) = round_trips("nagle,separate-status", "1KiB");
    assert!(median > 5.0, "{median} round trips");
    let (least, _) = round_trips("nagle,separate-status,joined-send", "1KiB");
    assert!(least < 1.3, "{least} round trips");
}
