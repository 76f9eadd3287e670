//! Linux's target, LIO, with our initiator.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::image::sha256;
use e2e::{need, run};
use serde_json::Value;

use crate::machine::{self, GUEST, IQN, LIMIT, Machine};

/// Folder of the disk in configfs.
const DISK: &str = "/config/target/core/rd_mcp_0/disk";
/// Folder of the portal group.
const TPG: &str = "/config/target/iscsi/iqn.2026-11.io.farlun:guest/tpgt_1";
/// Size of the disk that LIO serves, and of the files that are written to it.
const MIB: usize = 32;

/// Configures LIO with one disk in memory, open to everybody, and runs `more` before it listens: `$TPG` is the folder of its
/// portal group.
#[track_caller]
pub(crate) fn serve(machine: &mut Machine, more: &str) {
    serve_at(machine, GUEST, "", more);
}

/// The same at another address, whose network namespace `enter` enters.
#[track_caller]
pub(crate) fn serve_at(machine: &mut Machine, address: &str, enter: &str, more: &str) {
    let pages = MIB * 256;
    machine.run(&format!(
        "set -e\n\
         modprobe -a target_core_mod iscsi_target_mod; mkdir -p /config; mount -t configfs configfs /config\n\
         DISK={DISK}; TPG={TPG}\n\
         mkdir -p $DISK; echo rd_pages={pages} >$DISK/control; echo 1 >$DISK/enable\n\
         mkdir -p /config/target/iscsi; mkdir -p $TPG/lun/lun_0; ln -s $DISK $TPG/lun/lun_0/disk\n\
         {enter} mkdir $TPG/np/{address}:3260\n\
         echo 0 >$TPG/attrib/authentication; echo 1 >$TPG/attrib/generate_node_acls\n\
         echo 0 >$TPG/attrib/demo_mode_write_protect; echo 1 >$TPG/attrib/cache_dynamic_acls\n\
         {more}\n\
         echo 1 >$TPG/enable"
    ));
}

/// SCSI commands that the disk has completed, as LIO counts them.
#[track_caller]
pub(crate) fn commands(machine: &mut Machine) -> u64 {
    let said = machine.run(&format!("cat {DISK}/statistics/scsi_lu/num_cmds"));
    said.trim().parse().unwrap_or_else(|_| panic!("no number of commands: {said}"))
}

/// Sets parameters of the sessions to come.
#[track_caller]
pub(crate) fn set(machine: &mut Machine, parameters: &[(&str, &str)]) {
    for (name, value) in parameters {
        machine.run(&format!("printf {value} >{TPG}/param/{name}"));
    }
}

pub(crate) fn url() -> String {
    format!("iscsi://{GUEST}/{IQN}/0")
}

/// A file of numbers that no two blocks share.
pub(crate) fn data(machine: &Machine, seed: u64) -> PathBuf {
    let path = machine.folder().join(format!("data-{seed}"));
    let words = (0..(MIB << 20) as u64 / 8)
        .flat_map(|word| (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed).to_le_bytes());
    fs::write(&path, words.collect::<Vec<u8>>()).expect("a file of data");
    path
}

/// Writes a file and reads it back, with these flags.
#[track_caller]
pub(crate) fn write_and_compare(machine: &Machine, data: &Path, flags: &[&str]) {
    let copy = machine.folder().join("copy");
    run(machine.farlun(["write", &url(), "--json", "-i"]).arg(data).args(flags), LIMIT).expect_code(0);
    run(machine.farlun(["read", &url(), "--json", "-o"]).arg(&copy).args(flags), LIMIT).expect_code(0);
    assert_eq!(sha256(&copy), sha256(data), "what was read is not what was written ({flags:?})");
}

/// SHA-256 of the disk as the guest reads it, by Linux's own initiator in the same kernel.
#[track_caller]
fn sum_in_guest(machine: &mut Machine) -> String {
    machine.run(&format!(
        "set -e\n\
         modprobe -a tcm_loop sd_mod\n\
         LOOP=/config/target/loopback/naa.6001405000000001/tpgt_1\n\
         mkdir -p $LOOP/lun/lun_0; echo naa.6001405000000002 >$LOOP/nexus\n\
         ln -s {DISK} $LOOP/lun/lun_0/disk\n\
         until [ -b /dev/sda ]; do sleep 0.1; done\n\
         dd if=/dev/sda bs=1M iflag=direct 2>/dev/null | sha256sum | cut -d' ' -f1"
    ))
}

#[test]
fn write_read_and_names() {
    need!(machine::available());
    let mut machine = Machine::boot();
    serve(&mut machine, "");
    let portal = format!("iscsi://{GUEST}");
    let listed = run(&mut machine.farlun(["ls", &portal, "--json"]), LIMIT).expect_code(0);
    assert!(listed.json().to_string().contains(IQN), "{listed:#?}");
    let described = run(&mut machine.farlun(["inquiry", &url(), "--json"]), LIMIT).expect_code(0);
    assert!(described.json().to_string().contains("LIO-ORG"), "{described:#?}");
    let data = data(&machine, 1);
    write_and_compare(&machine, &data, &[]);
    assert_eq!(sum_in_guest(&mut machine), sha256(&data), "the guest reads something else from its disk");
}

#[test]
fn mutual_chap() {
    need!(machine::available());
    let mut machine = Machine::boot();
    serve(
        &mut machine,
        "echo 1 >$TPG/attrib/authentication\n\
         printf alice >$TPG/auth/userid; printf 'secret-of-alice' >$TPG/auth/password\n\
         printf the-disk >$TPG/auth/userid_mutual; printf 'secret-of-the-disk' >$TPG/auth/password_mutual",
    );
    let url = format!("iscsi://alice@{GUEST}/{IQN}/0");
    let inquiry = |secret: &str, target: &str| {
        let mut command = machine.farlun(["inquiry", &url, "--json", "--chap-target-user", "the-disk"]);
        run(command.env("FARLUN_CHAP_SECRET", secret).env("FARLUN_CHAP_TARGET_SECRET", target), LIMIT)
    };
    let described = inquiry("secret-of-alice", "secret-of-the-disk").expect_code(0);
    assert!(described.json().to_string().contains("LIO-ORG"), "{described:#?}");
    let wrong = inquiry("not-the-secret", "secret-of-the-disk");
    assert_ne!(wrong.code, 0, "{wrong:#?}");
    wrong.expect_sentence(&["authentication", "chap", "secret"]);
    let wrong = inquiry("secret-of-alice", "not-the-secret-of-it");
    assert_ne!(wrong.code, 0, "{wrong:#?}");
    wrong.expect_sentence(&["authentication", "chap", "prove", "secret"]);
}

#[test]
fn digests() {
    need!(machine::available());
    let mut machine = Machine::boot();
    serve(&mut machine, "");
    let data = data(&machine, 2);
    write_and_compare(&machine, &data, &["--digest", "crc32c"]);
    // A target that insists.
    set(&mut machine, &[("HeaderDigest", "CRC32C"), ("DataDigest", "CRC32C")]);
    write_and_compare(&machine, &data, &[]);
    assert_eq!(sum_in_guest(&mut machine), sha256(&data), "the guest reads something else from its disk");
}

#[test]
fn every_mix_of_bursts() {
    need!(machine::available());
    let mut machine = Machine::boot();
    serve(&mut machine, "");
    let mut seed = 3;
    for initial_r2t in ["Yes", "No"] {
        for immediate in ["Yes", "No"] {
            let parameters = [
                ("InitialR2T", initial_r2t),
                ("ImmediateData", immediate),
                ("FirstBurstLength", "8192"),
                ("MaxBurstLength", "49152"),
                ("MaxOutstandingR2T", if immediate == "Yes" { "1" } else { "4" }),
            ];
            set(&mut machine, &parameters);
            // Nothing of one mix is right by what another has left.
            seed += 1;
            let data = data(&machine, seed);
            write_and_compare(&machine, &data, &[]);
        }
    }
}

#[test]
fn bench_reads_and_writes() {
    need!(machine::available());
    let mut machine = Machine::boot();
    serve(&mut machine, "");
    let mut bench = machine.farlun([
        "bench",
        &url(),
        "--json",
        "--overwrite",
        "--op",
        "read,write",
        "--digest",
        "prefer",
    ]);
    bench.args(["--random", "--block", "4KiB", "--depth", "16", "--sessions", "2", "--time", "2s"]);
    let document: Value = run(&mut bench, LIMIT).expect_code(0).json();
    println!("{document}");
    let errors = machine.run("dmesg | grep -iE 'error|warn|bug:' | grep -i -e iscsi -e target || true");
    assert_eq!(errors, "", "LIO complains");
    let key = machine.run("dmesg | grep -c X-io.farlun.peer || true");
    assert_ne!(key, "0", "the page of peers says that LIO logs the private key");
}
