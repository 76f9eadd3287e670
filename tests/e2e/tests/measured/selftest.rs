//! What the emulator says of itself: its self-test, and that a run in which it was late yields no figure.

use std::process::Command;
use std::time::Duration;

use e2e::path::{self, FAR};
use e2e::{farlun, farlun_path, need, run, skip};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(180);

#[test]
fn a_starved_emulator_says_that_its_figures_are_not_valid() {
    need!(path::available(), skip::program("ping"), skip::program("bash"));
    let _turn = path::turn();
    let stoppable = path::Stoppable::new();
    let [stop, go_on] = ["STOP", "CONT"].map(|signal| stoppable.send(signal));
    // COMMAND stops the emulator again and again. Now and then a packet is on the path then, which
    // is more often than one packet in a hundred.
    let near = format!(
        "ping -q -c 250 -i 0.002 -W 2 {FAR} & ping=$!; \
         while kill -0 $ping 2>&-; do {stop}; sleep 0.02; {go_on}; sleep 0.02; done; wait"
    );
    let command = farlun(["wan", "--delay", "2ms", "--validity", "latency", "--", "sh", "-c", &near]);
    let finished = run(&mut stoppable.runner(&command), LIMIT);
    assert_eq!(finished.code, 4, "{finished:#?}");
    assert!(finished.stderr.contains("the run is not valid: packets were late by"), "{finished:#?}");
}

#[test]
fn a_packet_that_came_while_nobody_looked_is_late() {
    need!(path::available(), skip::program("bash"));
    let _turn = path::turn();
    // Nothing is on the path while the emulator is stopped: only when somebody last looked tells that the one packet
    // came long before it was read.
    // Where nobody listens, a connection is refused after a round trip: the datagram has arrived before that.
    let stoppable = path::Stoppable::new();
    let [stop, go_on] = ["STOP", "CONT"].map(|signal| stoppable.send(signal));
    let near = format!("{stop}; echo >/dev/udp/{FAR}/9; sleep 0.05; {go_on}; ! : >/dev/tcp/{FAR}/9");
    let mut command = farlun(["wan", "--json", "--delay", "2ms", "--validity", "latency"]);
    command.args(["--", "bash", "-c", &near]);
    let finished = run(&mut stoppable.runner(&command), LIMIT);
    assert_eq!(finished.code, 4, "{finished:#?}");
    let late_ns = &finished.json()["validity"]["lateness_ns"];
    assert!(late_ns["max"].as_u64() >= Some(48_000_000), "{late_ns}");
}

#[test]
fn the_selftest_gives_figures_or_says_why_not() {
    need!(path::available());
    check_selftest(farlun(["wan"]), "real-time");
}

#[test]
fn the_selftest_of_users_who_are_not_root_has_bounds_of_its_own() {
    need!(path::available(), path::available_to_nobody());
    let mut command = path::as_nobody(farlun_path().to_str().expect("a path of plain characters"));
    command.arg("wan");
    check_selftest(command, "ordinary");
}

/// Runs the self-test of `wan`, which is to say that the bounds are these.
#[track_caller]
fn check_selftest(mut wan: Command, bounds: &str) {
    let _turn = path::turn();
    let finished = run(wan.args(["selftest", "--quick", "--json"]), LIMIT);
    let document = finished.json();
    let checks = document["checks"].as_array().expect("checks");
    assert!(checks.len() >= 9, "{document}");
    let valid = checks.iter().all(|check| !check["value"].is_null());
    let ok = checks.iter().all(|check| check["ok"] == true);
    let code = match (valid, ok) {
        (false, _) => 4,
        (true, false) => 1,
        (true, true) => 0,
    };
    assert_eq!((finished.code, &document["valid"]), (code, &Value::Bool(valid)), "{finished:#?}");
    assert_eq!(valid, document["reasons"].as_array().expect("reasons").is_empty(), "{document}");
    assert_eq!(document["bounds"], bounds, "{document}");
    let streams =
        checks.iter().filter(|check| check["path"].as_str().is_some_and(|path| path.contains("cubic")));
    assert!(streams.count() >= 3, "congestion control and queue are stated: {document}");
    assert!(document["others_busy"].is_f64(), "{document}");
}
