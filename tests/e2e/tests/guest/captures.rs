//! `farlun analyze` on captures of Linux's stacks: the commands that it counts are those that Linux has counted.
//!
//! With `FARLUN_GUEST_CAPTURES=DIR` the captures are left in that folder, compressed, with a list of them.

use std::path::Path;
use std::process::Command;

use e2e::process::output;
use e2e::tap::{analyzed, count};
use e2e::{need, run};

use crate::lio;
use crate::machine::capture::{Capture, keep};
use crate::machine::{self, HOST, IQN, LIMIT, Machine};
use crate::open_iscsi::{DIGESTS, commands_sent, configure, disk, logout};

/// Compares the completed commands of a capture with those that Linux has counted, then keeps it.
#[track_caller]
fn compare(file: &Path, commands: u64, made: &str) {
    let document = analyzed(file);
    let connections = document["connections"].as_array().expect("connections");
    let completed = connections.iter().map(|c| count(&c["iscsi"]["commands"]["completed"]).unwrap_or(0));
    assert_eq!(completed.sum::<u64>(), commands, "{document:#}");
    assert!(commands > 100, "{commands} commands are too few to count");
    println!("{}: {commands} commands", file.display());
    keep(file, commands, made);
}

#[test]
fn open_iscsi_on_farlun() {
    need!(machine::available(), Capture::available());
    let mut machine = Machine::boot();
    let _target = machine.serve(["--insecure", "--lun", "memory:64MiB"]);
    configure(&mut machine, &[]);
    let discover = format!("iscsiadm -m discovery -t sendtargets -p {}:3260", HOST[0]);
    let node = format!("iscsiadm -m node -T {IQN}");
    for (name, settings, made) in [
        (
            "open-iscsi-farlun",
            &[][..],
            "open-iscsi on farlun target: 60 writes of 16 KiB, 60 reads of 64 KiB, no digests",
        ),
        ("open-iscsi-farlun-digests", DIGESTS, "the same with header and data digests"),
    ] {
        let capture = Capture::start(&machine, name);
        let settings: String = settings
            .iter()
            .map(|(name, value)| format!("{node} -o update -n '{name}' -v {value}\n"))
            .collect();
        machine.run(&format!("set -e\n{discover}\n{settings}{node} --login"));
        let disk = disk(&mut machine);
        machine.run(&load(&disk));
        let commands = commands_sent(&mut machine);
        logout(&mut machine);
        compare(&capture.end(&machine), commands, made);
    }
}

#[test]
fn farlun_on_lio() {
    need!(machine::available(), Capture::available());
    let mut machine = Machine::boot();
    lio::serve(&mut machine, "");
    let zeros = machine.disk("zeros", 4);
    for (name, parameters, digest, made) in [
        ("farlun-lio", [("InitialR2T", "No"), ("ImmediateData", "Yes")], "none", "no digests"),
        (
            "farlun-lio-digests",
            [("InitialR2T", "Yes"), ("ImmediateData", "No")],
            "crc32c",
            "header and data digests, InitialR2T=Yes, ImmediateData=No",
        ),
    ] {
        lio::set(&mut machine, &parameters);
        let before = lio::commands(&mut machine);
        let capture = Capture::start(&machine, name);
        let url = lio::url();
        for _ in 0..10 {
            let mut write = machine.farlun(["write", &url, "--digest", digest, "-i"]);
            run(write.arg(&zeros), LIMIT).expect_code(0);
        }
        let mut read =
            machine.farlun(["bench", &url, "--digest", digest, "--op", "read", "--block", "16KiB"]);
        run(read.args(["--depth", "2", "--time", "100ms"]), LIMIT).expect_code(0);
        let commands = lio::commands(&mut machine) - before;
        let made =
            format!("ten times farlun write of 4 MiB, farlun bench of reads of 16 KiB, on LIO, {made}");
        compare(&capture.end(&machine), commands, &made);
    }
}

#[test]
fn open_iscsi_on_lio() {
    need!(machine::available(), Capture::available());
    const FAR: &str = "10.77.0.3";
    let mut machine = Machine::boot_with(2);
    // Both stacks are in the guest, LIO in a namespace of its own, and the host is the switch between its two links.
    let switch = "ip link add switch type bridge; ip address flush dev tap0; ip link set tap0 master switch; \
                  ip link set tap1 master switch; ip address add 10.77.0.1/24 dev switch; ip link set switch up";
    output(&mut machine.near(Command::new("sh").args(["-ec", switch])));
    machine.run(&format!(
        "set -e\n\
         ip netns add far; ip link set eth1 netns far\n\
         ip -n far address add {FAR}/24 dev eth1; ip -n far link set eth1 up; ip -n far link set lo up"
    ));
    lio::serve_at(&mut machine, FAR, "ip netns exec far", "");
    configure(&mut machine, &[("node.session.iscsi.InitialR2T", "Yes")]);
    let capture = Capture::start(&machine, "open-iscsi-lio");
    machine.run(&format!(
        "iscsiadm -m discovery -t sendtargets -p {FAR}:3260; iscsiadm -m node -T {IQN} -p {FAR}:3260 --login"
    ));
    let disk = disk(&mut machine);
    machine.run(&load(&disk));
    let commands = commands_sent(&mut machine);
    logout(&mut machine);
    compare(
        &capture.end(&machine),
        commands,
        "open-iscsi on LIO, InitialR2T=Yes: 60 writes of 16 KiB, 60 reads of 64 KiB",
    );
}

/// Writes and reads of one block after the other.
fn load(disk: &str) -> String {
    format!(
        "dd if=/dev/zero of={disk} bs=16k count=60 oflag=direct 2>/dev/null\n\
         dd if={disk} of=/dev/null bs=64k count=60 iflag=direct 2>/dev/null"
    )
}
