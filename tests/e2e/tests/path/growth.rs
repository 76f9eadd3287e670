//! Sessions whose number of connections is left open: over a path that loses packets they get more while they work,
//! and nothing is lost of what they carry; over one that loses none they keep one.
//!
//! How much that gains is a plan's business (`farlun lab questions`).

use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::path::{self, FAR};
use e2e::{farlun, farlun_path, need, run, skip, tgtd};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
const IQN: &str = "iqn.2026-11.io.farlun:growth";
/// What is moved: a connection that loses one packet in a hundred over 40 ms takes about three quarters of a minute for it.
const LEN: usize = 16 << 20;
const LOSSY: &str = "--delay 20ms --rate 100mbit --loss 1%";

/// Runs a script at each end of a path; each may use `farlun` as it is tested.
#[track_caller]
fn between(folder: &Path, flags: &str, far: &str, near: &str) {
    let script = |name: &str, text: &str| {
        let script = folder.join(name);
        fs::write(&script, format!("set -eu\n{text}\n")).expect("a script");
        script
    };
    let (far, near) = (script("far.sh", far), script("near.sh", near));
    let mut command = farlun(["wan", "--json", "--validity", "off"]);
    command.args(flags.split_whitespace()).arg("--far").arg(format!("exec sh {}", far.display()));
    run(command.args(["--", "sh"]).arg(&near), LIMIT).expect_code(0);
}

fn our_target() -> String {
    let farlun = farlun_path().display();
    format!("exec {farlun} target --iqn {IQN} --lun memory:16MiB --listen {FAR}:3260 --insecure --cc cubic")
}

/// Bytes that are the same in every run and that no other place of the image has.
fn image() -> Vec<u8> {
    let mut seed = 7_u64;
    let words = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed.to_le_bytes()
    });
    words.take(LEN / 8).flatten().collect()
}

/// What a command said, which is one JSON document.
fn said(file: impl AsRef<Path>) -> Value {
    serde_json::from_slice(&fs::read(file).expect("what farlun said")).expect("JSON")
}

/// Writes an image over a path and reads it again, both with the same flags; what both said. The copy is compared.
#[track_caller]
fn there_and_back(far: &str, ready: &str, url: &str, flags: &str) -> [Value; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let whole = image();
    fs::write(at("image"), &whole).expect("an image");
    let farlun = farlun_path().display();
    let near = format!(
        "{ready}{farlun} write {url} -i {} --json --cc cubic {flags} > {}\n\
         {farlun} read {url} -o {} --json --cc cubic {flags} > {}",
        at("image"),
        at("written"),
        at("copy"),
        at("read")
    );
    between(folder.path(), LOSSY, far, &near);
    assert!(fs::read(at("copy")).expect("a copy") == whole, "the copy is another");
    [at("written"), at("read")].map(said)
}

#[test]
fn losses_make_it_grow_and_nothing_is_lost() {
    need!(path::available());
    let url = format!("iscsi://{FAR}/{IQN}/0");
    for said in there_and_back(&our_target(), "", &url, "") {
        let found = said["connections"].as_u64().expect("a number");
        assert!((2..=4).contains(&found), "{said}");
        assert_eq!((&said["chose_connections"], &said["reconnects"]), (&true.into(), &0.into()), "{said}");
    }
}

#[test]
fn a_session_that_is_lost_after_it_grew_is_made_again_with_as_many() {
    need!(path::available(), skip::program("ss"));
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let whole = image();
    fs::write(at("image"), &whole).expect("an image");
    let disk = fs::File::create(at("disk")).expect("a disk");
    disk.set_len(LEN as u64).expect("room for the disk");
    let (farlun, cut) = (farlun_path().display(), at("cut"));
    let target = format!(
        "{farlun} target --iqn {IQN} --lun file:{} --listen {FAR}:3260 --insecure --cc cubic",
        at("disk")
    );
    let far = format!(
        "{target} & target=$!\nuntil [ -e {cut} ]; do sleep 0.05; done\n\
         kill -9 $target\nwait $target || true\nexec {target}"
    );
    // When two have carried data, both are in the session.
    let near = format!(
        "{farlun} write iscsi://{FAR}/{IQN}/0 -i {} --json --cc cubic --trace {} > {} & write=$!\n\
         until [ $(ss -Htin dst {FAR} | grep -c 'bytes_acked:[0-9]\\{{6,\\}}') -ge 2 ]; do\n\
         kill -0 $write\nsleep 0.05\ndone\n\
         touch {cut}\nwait $write",
        at("image"),
        at("tables"),
        at("said")
    );
    between(folder.path(), LOSSY, &far, &near);
    let said = said(at("said"));
    assert_eq!(said["reconnects"], 1, "{said}");
    assert!(fs::read(at("disk")).expect("the disk") == whole, "the disk differs from the image");
    let logins = tables::read::<event::Login>(&folder.path().join("tables")).expect("the table sessions");
    let all: Vec<(u64, u32)> = logins.t_ns.into_iter().zip(logins.cid).collect();
    let leading: Vec<u64> = all.iter().filter(|(_, cid)| *cid == 0).map(|(t_ns, _)| *t_ns).collect();
    // Those that a session is made with are noted at one time, those that come to it each at its own.
    let [first_ns, again_ns] = leading[..] else { panic!("two sessions: {all:?}") };
    let before = all.iter().filter(|(t_ns, _)| (first_ns..again_ns).contains(t_ns)).count();
    let again = all.iter().filter(|(t_ns, _)| *t_ns == again_ns).count();
    assert!(before >= 2 && again == before, "{all:?}");
}

#[test]
fn a_number_that_is_given_stays() {
    need!(path::available());
    let url = format!("iscsi://{FAR}/{IQN}/0");
    for said in there_and_back(&our_target(), "", &url, "--connections 2") {
        assert_eq!((&said["connections"], &said["chose_connections"]), (&2.into(), &false.into()), "{said}");
    }
}

#[test]
fn a_path_that_loses_nothing_keeps_one() {
    need!(path::available());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("said");
    let bench = format!(
        "exec {} bench iscsi://{FAR}/{IQN}/0 --op read,write --overwrite --time 8s --json --cc cubic > {}",
        farlun_path().display(),
        file.display()
    );
    between(folder.path(), "--delay 20ms --rate 100mbit", &our_target(), &bench);
    let said = said(file);
    for load in said.as_array().expect("reads and writes") {
        assert_eq!((&load["connections"], &load["chose_connections"]), (&1.into(), &true.into()), "{load}");
    }
}

/// Targets of others have one connection, whatever they agree to, unless more are asked for.
#[test]
fn a_target_of_others_has_one_connection_unless_more_are_asked_for() {
    need!(path::available(), tgtd::available());
    for (flags, expected) in [("", 1), ("--connections 4", 4)] {
        let agreed = "4";
        let disk = tempfile::NamedTempFile::new().expect("a disk");
        disk.as_file().set_len(LEN as u64).expect("room for the disk");
        let folder = tempfile::tempdir().expect("a folder");
        let ready = folder.path().join("ready");
        let parameters = [("MaxConnections", agreed)];
        let far = tgtd::script_with(&format!("{FAR}:3260"), disk.path(), &ready, &parameters);
        let wait = format!("until [ -e {} ]; do sleep 0.05; done\n", ready.display());
        let url = format!("iscsi://{FAR}/{}/1", tgtd::IQN);
        for said in there_and_back(&far, &wait, &url, flags) {
            assert_eq!((&said["connections"], &said["reconnects"]), (&expected.into(), &0.into()), "{said}");
        }
    }
}
