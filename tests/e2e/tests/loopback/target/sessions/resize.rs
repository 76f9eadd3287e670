//! LUNs that grow while they are served: unit attentions, and our initiator, which goes on.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use e2e::ours::Target;
use e2e::process::{output, until};
use e2e::relay::{Fate, Line};
use e2e::{Service, farlun, need, port, run, skip};
use serde_json::{Value, json};
use tempfile::TempDir;
use wire::iscsi::Pdu;
use wire::scsi::{Capacity16, Cdb};

use super::super::files::mounts::{self, Loop, sparse};
use crate::peers::raw_initiator::{Flow, Session};

const MINUTE: Duration = Duration::from_secs(60);
const CAPACITY_CHANGED: (u8, u8) = (0x2a, 0x09);
const MIB: u64 = 1 << 20;

/// A target with one LUN in a file. The target is dropped first, while the folder is there.
struct Growing {
    target: Target,
    folder: TempDir,
}

impl Growing {
    fn new(bytes: u64, listen: &str) -> Growing {
        let folder = tempfile::Builder::new().prefix("farlun-resize-").tempdir().expect("a folder");
        let text =
            format!("iqn = \"iqn.a\"\nlisten = [\"{listen}\"]\n[[lun]]\nnumber = 0\nspec = \"file:disk\"\n");
        fs::write(folder.path().join("target.toml"), text).expect("a file");
        sparse(&folder.path().join("disk"), bytes);
        let target = Growing::start(&folder);
        Growing { target, folder }
    }

    fn start(folder: &TempDir) -> Target {
        Target::start(farlun(["target", "--json", "--config", "target.toml"]).current_dir(folder.path()))
    }

    fn disk(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    fn set_len(&self, bytes: u64) {
        File::options()
            .write(true)
            .open(self.disk())
            .and_then(|file| file.set_len(bytes))
            .expect("another size");
    }

    /// Gives the file another size and has it looked at; the target's answer.
    #[track_caller]
    fn resize(&mut self, bytes: u64) -> Value {
        self.set_len(bytes);
        self.reload()
    }

    #[track_caller]
    fn reload(&mut self) -> Value {
        self.target.service.signal("HUP");
        serde_json::from_str(&self.target.service.next_line(MINUTE)).expect("a document")
    }
}

#[track_caller]
fn blocks(session: &mut Session) -> u64 {
    let command = session.command(0, Cdb::ReadCapacity16 { allocation_len: 32 }, Flow::In(32));
    session.send(command, &[]);
    let (Pdu::DataIn(_), data) = session.receive() else { panic!("no capacity") };
    Capacity16::parse(&data).expect("READ CAPACITY (16) data").last_lba + 1
}

#[test]
fn every_session_hears_that_a_file_has_grown() {
    let mut growing = Growing::new(MIB, "127.0.0.1:0");
    let mut sessions = [(); 2].map(|()| Session::open(&growing.target));
    assert_eq!(growing.reload()["grown"], json!([]), "nothing has changed");
    let said = growing.resize(3 * MIB);
    let grown = json!([{"lun": 0, "before_bytes": MIB, "bytes": 3 * MIB}]);
    assert_eq!((&said["ok"], &said["grown"]), (&json!(true), &grown), "{said}");
    for session in &mut sessions {
        assert_eq!(session.ready(0), Some(CAPACITY_CHANGED));
        assert_eq!(session.ready(0), None);
        assert_eq!(blocks(session), 3 * MIB / 512);
    }
    let last = 3 * MIB / 512 - 8;
    assert_eq!(sessions[0].write(0, last, &[7; 4096]), None);
    assert_eq!(sessions[1].read(0, last, 4096), [7; 4096]);

    // A smaller size, or one of no whole blocks, changes nothing.
    for (bytes, words) in
        [(MIB, "has shrunk from 3145728 to 1048576 bytes"), (3 * MIB + 100, "truncate -s %512")]
    {
        let said = growing.resize(bytes);
        assert!(
            said["ok"] == false && said["error"].as_str().is_some_and(|error| error.contains(words)),
            "{said}"
        );
        assert_eq!(sessions[0].ready(0), None);
        assert_eq!(blocks(&mut sessions[0]), 3 * MIB / 512);
    }
    let said = growing.resize(4 * MIB);
    assert_eq!(said["grown"][0]["bytes"], 4 * MIB, "{said}");
    assert_eq!(sessions[0].ready(0), Some(CAPACITY_CHANGED));
}

#[test]
fn others_see_the_new_size() {
    need!(skip::program("iscsi-readcapacity16"), skip::qemu_iscsi());
    let mut growing = Growing::new(MIB, "127.0.0.1:0");
    growing.resize(3 * MIB);
    let said = output(Command::new("iscsi-readcapacity16").arg(growing.target.url(0)));
    assert!(said.contains("Total size:3145728"), "{said}");
    let said = output(Command::new("qemu-img").args(["info", "--output=json", &growing.target.url(0)]));
    let said: Value = serde_json::from_str(&said).expect("a document");
    assert_eq!(said["virtual-size"], 3 * MIB, "{said}");
}

#[test]
fn a_device_grows() {
    need!(mounts::available());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("disk");
    sparse(&file, MIB);
    let device = Loop::over(&file, 512);
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\nstate = \"state\"\n[[lun]]\nnumber = 0\nspec = \"block:{}\"\n",
        device.path.display()
    );
    fs::write(folder.path().join("target.toml"), text).expect("a file");
    let mut target =
        Target::start(farlun(["target", "--json", "--config", "target.toml"]).current_dir(folder.path()));
    let mut session = Session::open(&target);
    File::options().write(true).open(&file).and_then(|file| file.set_len(2 * MIB)).expect("it grows");
    output(Command::new("losetup").arg("--set-capacity").arg(&device.path));
    target.service.signal("HUP");
    let said: Value = serde_json::from_str(&target.service.next_line(MINUTE)).expect("a document");
    assert_eq!(said["grown"], json!([{"lun": 0, "before_bytes": MIB, "bytes": 2 * MIB}]), "{said}");
    assert_eq!(session.ready(0), Some(CAPACITY_CHANGED));
    assert_eq!(session.write(0, 2 * MIB / 512 - 8, &[7; 4096]), None);
}

/// A load that writes, while the LUN changes its size: how it ends.
fn load(growing: &mut Growing, bytes: u64) -> Service {
    let mut command = farlun(["bench", &growing.target.url(0), "--json", "--time", "4s", "--op", "write"]);
    command.args(["--overwrite", "--block", "4KiB", "--depth", "8", "--random"]);
    let mut load = Service::start(&mut command);
    let disk = growing.disk();
    let is_written = || fs::read(&disk).expect("the disk").iter().any(|byte| *byte != 0);
    until("the load has begun", MINUTE, is_written);
    let said = growing.resize(bytes);
    assert_eq!(said["grown"][0]["bytes"], bytes, "{said}");
    load.ended(MINUTE);
    load
}

#[test]
fn our_load_goes_on_when_its_lun_grows() {
    let mut growing = Growing::new(8 * MIB, "127.0.0.1:0");
    let mut load = load(&mut growing, 16 * MIB);
    assert_eq!(load.ended(MINUTE), 0, "{}", load.stderr());
    let document: Value = serde_json::from_str(&load.next_line(MINUTE)).expect("a document");
    assert_eq!(document["reconnects"], 0, "{document}");
    // It writes to the blocks of the first size only.
    assert!(fs::read(growing.disk()).expect("the disk")[8 << 20..].iter().all(|byte| *byte == 0));
}

/// `farlun read` and `write` over a line that is cut, while the target is started again with another size of its LUN.
fn over_a_restart(bytes: u64) -> Vec<(i32, String)> {
    const LEN: u64 = 24 * MIB;
    [("write", "-i"), ("read", "-o")]
        .into_iter()
        .map(|(command, flag)| {
            let address = format!("127.0.0.1:{}", port::unused());
            let mut growing = Growing::new(LEN, &address);
            let file = growing.folder.path().join("file");
            if command == "write" {
                fs::write(&file, vec![5; LEN as usize]).expect("an image");
            }
            let line = Line::to(&address, &[(5 * MIB, Fate::Silent)]);
            let url = growing.target.url_at(&line.address(), 0);
            let mut work = Service::start(farlun([command, &url, "--timeout", "8s", flag]).arg(&file));
            until("the line is cut", MINUTE, || line.passed_bytes() >= 5 * MIB);
            growing.target.service.kill();
            growing.set_len(bytes);
            growing.target = Growing::start(&growing.folder);
            let code = work.ended(MINUTE);
            if command == "write" && code == 0 {
                let disk = fs::read(growing.disk()).expect("the disk");
                assert!(
                    disk[..LEN as usize].iter().all(|byte| *byte == 5)
                        && disk[LEN as usize..].iter().all(|byte| *byte == 0)
                );
            }
            (code, work.stderr())
        })
        .collect()
}

#[test]
fn our_initiator_goes_on_after_a_reconnect_to_a_lun_that_has_grown() {
    for (code, said) in over_a_restart(32 * MIB) {
        assert_eq!(code, 0, "{said}");
    }
}

#[test]
fn our_initiator_ends_where_a_lun_has_shrunk() {
    for (code, said) in over_a_restart(16 * MIB) {
        assert!(code == 1 && said.contains("the LUN's size is another one"), "{code}: {said}");
    }
}

#[test]
fn words_for_people() {
    let folder = tempfile::tempdir().expect("a folder");
    sparse(&folder.path().join("disk"), MIB);
    fs::write(folder.path().join("target.toml"), "[[lun]]\nnumber = 0\nspec = \"file:disk\"\n")
        .expect("a file");
    let mut command = farlun(["target", "--config", "target.toml", "--listen", "127.0.0.1:0"]);
    let mut service = Service::start(command.current_dir(folder.path()));
    assert!(service.next_line(MINUTE).starts_with("ready: "));
    File::options()
        .write(true)
        .open(folder.path().join("disk"))
        .and_then(|file| file.set_len(2 * MIB))
        .expect("it grows");
    service.signal("HUP");
    let said = service.next_line(MINUTE);
    assert!(
        said.contains("added none, removed none; LUN 0 has grown from 1MiB to 2MiB; listening on"),
        "{said}"
    );
    let mut check = farlun(["target", "--check", "--config", "target.toml"]);
    run(check.current_dir(folder.path()), MINUTE).expect_code(0);
    assert_eq!(service.terminate(), 0);
}
