//! CHAP with LIO: its algorithms, and discovery that is checked in another way than sessions.

use e2e::{Finished, need, run};

use crate::lio;
use crate::machine::{self, GUEST, IQN, LIMIT, Machine};

const SECRET: &str = "secret-of-alice";
/// Sessions have to prove themselves.
const CHAP: &str = "echo 1 >$TPG/attrib/authentication\n\
     printf alice >$TPG/auth/userid; printf secret-of-alice >$TPG/auth/password";

/// `inquiry` by alice, who offers these algorithms.
#[track_caller]
fn inquiry(machine: &Machine, algorithms: &str) -> Finished {
    let url = format!("iscsi://alice@{GUEST}/{IQN}/0");
    let mut command = machine.farlun(["inquiry", &url, "--json"]);
    if !algorithms.is_empty() {
        command.args(["--chap-algorithms", algorithms]);
    }
    run(command.env("FARLUN_CHAP_SECRET", SECRET), LIMIT)
}

/// `ls` by alice.
#[track_caller]
fn ls(machine: &Machine) -> Finished {
    let mut command = machine.farlun(["ls", &format!("iscsi://alice@{GUEST}"), "--json"]);
    run(command.env("FARLUN_CHAP_SECRET", SECRET), LIMIT)
}

#[test]
fn algorithms() {
    need!(machine::available());
    let mut machine = Machine::boot();
    // A kernel without the algorithm that is offered first.
    machine.run("set -e; mv /usr/lib/modules/*/kernel/crypto/sha3_generic.ko /tmp; [ $(grep -c sha3 /proc/crypto) = 0 ]");
    lio::serve(&mut machine, CHAP);
    for algorithms in ["", "sha3-256,md5", "md5", "sha1", "sha256"] {
        let described = inquiry(&machine, algorithms).expect_code(0);
        assert!(described.json().to_string().contains("LIO-ORG"), "{algorithms}: {described:#?}");
    }
    let refused = inquiry(&machine, "sha3-256").expect_code(3);
    refused
        .expect_said("it refused CHAP_A=8 (--chap-algorithms sha3-256) before it saw a CHAP name or secret");
    machine.run("mv /tmp/sha3_generic.ko /usr/lib/modules/*/kernel/crypto/");
    inquiry(&machine, "sha3-256").expect_code(0);
}

#[test]
fn discovery() {
    need!(machine::available());
    let mut machine = Machine::boot();
    lio::serve(&mut machine, CHAP);
    // LIO's default: sessions are checked, and there are no names to check discovery with.
    let listed = ls(&machine).expect_code(0);
    assert!(listed.json().to_string().contains(IQN), "{listed:#?}");
    for words in ["discovery at the target refused CHAP_A=", "discovery is tried without CHAP"] {
        assert!(listed.stderr.contains(words), "no '{words}' in {listed:#?}");
    }
    // Names of its own, which alice has not.
    let own = "/config/target/iscsi/discovery_auth";
    machine.run(&format!(
        "printf finder >{own}/userid; printf another-secret >{own}/password; echo 1 >{own}/enforce_discovery_auth"
    ));
    let refused = ls(&machine).expect_code(3);
    assert!(refused.stderr.contains("discovery at the target does not take this CHAP name"), "{refused:#?}");
    machine.run(&format!("printf alice >{own}/userid; printf {SECRET} >{own}/password"));
    let listed = ls(&machine).expect_code(0);
    assert!(listed.json().to_string().contains(IQN), "{listed:#?}");
    assert!(!listed.stderr.contains("without CHAP"), "{listed:#?}");
}
