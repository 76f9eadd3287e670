//! Sessions of several connections to LIO, and such sessions that are lost and made again.

use std::process::Command;

use e2e::image::sha256;
use e2e::process::{output, until};
use e2e::{Service, need, run, skip};
use serde_json::Value;

use crate::lio;
use crate::machine::{self, GUEST, LIMIT, Machine};

/// LIO that takes four connections a session, and unsolicited data.
const FOUR: &[(&str, &str)] = &[("MaxConnections", "4"), ("ImmediateData", "No"), ("InitialR2T", "No")];

/// Connections that the host has to LIO.
#[track_caller]
fn established(machine: &mut Machine) -> usize {
    machine.expect_running();
    let mut command = Command::new("ss");
    command.args(["-Htn", "state", "established", "dst", GUEST, "dport", "=", ":3260"]);
    output(&mut machine.near(&command)).lines().count()
}

/// LIO lives and has not complained.
#[track_caller]
fn expect_alive(machine: &mut Machine) {
    let traces = machine.run(
        "dmesg | grep -E 'Oops:|BUG:|Kernel panic|general protection|Call Trace|blocked for more' || true",
    );
    assert_eq!(traces, "", "the guest's kernel complains\n{}", machine.console());
}

#[test]
fn writes_over_four_connections() {
    need!(machine::available());
    let mut machine = Machine::boot();
    lio::serve(&mut machine, "");
    lio::set(&mut machine, FOUR);
    let url = lio::url();
    for (seed, (flags, connections)) in
        [(&[][..], 1), (&["--connections", "4"][..], 4)].into_iter().enumerate()
    {
        let data = lio::data(&machine, 100 + seed as u64);
        let copy = machine.folder().join("copy");
        let written = run(machine.farlun(["write", &url, "--json", "-i"]).arg(&data).args(flags), LIMIT);
        let read = run(machine.farlun(["read", &url, "--json", "-o"]).arg(&copy).args(flags), LIMIT);
        for finished in [written, read] {
            assert_eq!(finished.expect_code(0).json()["connections"], connections, "with {flags:?}");
        }
        assert_eq!(sha256(&copy), sha256(&data), "what was read is not what was written ({flags:?})");
    }
    expect_alive(&mut machine);
}

/// A load over four connections that goes on for some seconds, once its connections are there.
#[track_caller]
fn loaded(machine: &mut Machine, op: &str, time: &str) -> Service {
    let url = lio::url();
    let mut bench =
        machine.farlun(["bench", &url, "--json", "--overwrite", "--op", op, "--connections", "4"]);
    bench.args(["--block", "64KiB", "--depth", "8", "--random", "--timeout", "4s", "--time", time]);
    let before = lio::commands(machine);
    let load = Service::start(&mut bench);
    until("there are four connections", LIMIT, || established(machine) == 4);
    until("something is read or written", LIMIT, || lio::commands(machine) > before + 100);
    load
}

/// The load ends well, after its session was made again so often.
#[track_caller]
fn expect_made_again(machine: &mut Machine, mut load: Service, reconnects: u64) {
    let line = load.next_line(LIMIT);
    assert_eq!(load.ended(LIMIT), 0, "{}", load.stderr());
    let document: Value = serde_json::from_str(&line).expect("a document");
    assert_eq!(document["reconnects"], reconnects, "{document}");
    assert!(document["bytes"].as_u64() > Some(0), "{document}");
    expect_alive(machine);
    let data = lio::data(machine, 200);
    lio::write_and_compare(machine, &data, &[]);
}

#[test]
fn four_connections_that_are_reset() {
    need!(machine::available(), skip::program("ss"));
    let mut machine = Machine::boot();
    lio::serve(&mut machine, "");
    lio::set(&mut machine, FOUR);
    let load = loaded(&mut machine, "write", "10s");
    let mut reset = Command::new("ss");
    output(&mut machine.near(reset.args(["-K", "dst", GUEST, "dport", "=", ":3260"])));
    until("they are gone", LIMIT, || established(&mut machine) == 0);
    until("there are four connections again", LIMIT, || established(&mut machine) == 4);
    expect_made_again(&mut machine, load, 1);
}

/// LIO still has the old session when its initiator logs in again, as reads have no timer there that would end it. With the
/// same ISID that would be a reinstatement, in which LIO uses connections that it has freed, and its kernel panics.
#[test]
fn four_connections_that_fall_silent() {
    need!(machine::available(), skip::program("ss"));
    let mut machine = Machine::boot();
    lio::serve(&mut machine, "");
    lio::set(&mut machine, FOUR);
    let load = loaded(&mut machine, "read", "16s");
    machine.set_link(0, "down");
    until("they are given up", LIMIT, || established(&mut machine) == 0);
    machine.set_link(0, "up");
    until("there are four connections again", LIMIT, || established(&mut machine) == 4);
    expect_made_again(&mut machine, load, 1);
}
