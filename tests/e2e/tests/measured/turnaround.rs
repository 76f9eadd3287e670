//! What a small read costs on a long path when the target sends as others do (`[compat]`): round trips are counted, so
//! a busy machine changes nothing that is asserted here.

use std::path::Path;
use std::time::Duration;

use e2e::path::{self, FAR};
use e2e::{farlun, farlun_path, need, run};
use event::{Host, Layers};

const LIMIT: Duration = Duration::from_secs(180);
const IQN: &str = "iqn.2026-11.io.farlun:turnaround";
/// So long that what a busy machine adds is little of it.
const RTT_NS: f64 = 40e6;

/// The quickest and the median read of `block`, one after the other, in round trips.
#[track_caller]
fn round_trips(compat: &str, block: &str) -> (f64, f64) {
    recorded(compat, block, None)
}

/// The same, with every PDU recorded in `trace`.
#[track_caller]
fn recorded(compat: &str, block: &str, trace: Option<&Path>) -> (f64, f64) {
    let _turn = path::turn();
    let program = farlun_path().to_str().expect("a path of plain characters");
    let flags = if compat.is_empty() { String::new() } else { format!(" --compat {compat}") };
    let trace = trace.map(|dir| format!(" --trace-pdus 1 --trace {}", dir.display())).unwrap_or_default();
    let far = format!(
        "exec {program} target --cc cubic --insecure --lun memory:64MiB --iqn {IQN} --listen {FAR}:3260{flags}{trace}"
    );
    let mut command = farlun(["wan", "--json", "--validity", "off", "--delay", "20ms", "--far", &far, "--"]);
    let url = format!("iscsi://{FAR}/{IQN}/0");
    command
        .args([program, "bench"])
        .args(trace.split_whitespace())
        .args([&url, "--json", "--depth", "1", "--time", "1s", "--block", block]);
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
    // Two round trips of 40 ms and Linux's 40 ms.
    let (_, median) = round_trips("nagle,separate-status", "1KiB");
    assert!(median > 2.7, "{median} round trips");
    let (least, _) = round_trips("nagle,separate-status,joined-send", "1KiB");
    assert!(least < 1.3, "{least} round trips");
}

#[test]
fn recording_changes_nothing_of_it() {
    need!(path::available());
    let cell = tempfile::tempdir().expect("a folder");
    let (_, median) = recorded("nagle,separate-status", "8KiB", Some(cell.path()));
    assert!(median > 1.7, "{median} round trips");
    let (least, _) = recorded("nagle,separate-status,joined-send", "8KiB", Some(cell.path()));
    assert!(least < 1.3, "{least} round trips");
}

#[test]
fn tcp_has_a_byte_acknowledged_a_round_trip_after_the_device_had_it() {
    need!(path::available());
    let cell = tempfile::tempdir().expect("a folder");
    recorded("", "4KiB", Some(cell.path()));
    let layers = tables::read::<Layers>(cell.path()).expect("layers");
    for (host, before, after) in [
        (Host::Near, &layers.started_t_ns, &layers.status_t_ns),
        (Host::Far, &layers.answered_t_ns, &layers.answered_t_ns),
    ] {
        let rows = (0..layers.host.len()).filter(|row| layers.host[*row] == host);
        let (mut seen, mut least_ns) = (0, u64::MAX);
        for row in rows.filter(|row| layers.tcp_acked_t_ns[*row] != 0 && layers.tcp_wire_t_ns[*row] != 0) {
            let (queued, wire) = (layers.tcp_queued_t_ns[row], layers.tcp_wire_t_ns[row]);
            let acked = layers.tcp_acked_t_ns[row];
            // Two clocks were read for the offset between them.
            let slack_ns = 100_000;
            assert!(
                before[row] <= queued + slack_ns && queued <= wire,
                "{host:?}: {} {queued} {wire}",
                before[row]
            );
            assert!(acked >= wire + RTT_NS as u64, "{host:?}: {wire} {acked}");
            if host == Host::Near {
                // The answer brings the acknowledgement.
                assert!(acked <= after[row] + slack_ns, "{acked} {}", after[row]);
            }
            least_ns = least_ns.min(acked - wire);
            seen += 1;
        }
        assert!(seen > 3, "{host:?}: {seen} requests have all times");
        assert!(least_ns < RTT_NS as u64 * 13 / 10, "{host:?}: {least_ns} ns");
    }
}
