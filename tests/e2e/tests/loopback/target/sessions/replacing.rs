//! Another store under the number of a LUN: refused while a session knows the old one, and closed to those that do where
//! that is forced, over logins, reloads and restarts, until they log out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use e2e::ours::Target;
use e2e::process::{output, until};
use e2e::relay::{Fate, Line};
use e2e::{Service, farlun, need, port, run, skip};
use serde_json::{Value, json};
use tempfile::TempDir;
use wire::iscsi::{LogoutRequest, Pdu, async_event, logout_reason};
use wire::scsi::{Cdb, StandardInquiry};

use crate::peers::raw_initiator::{Flow, Session};
use crate::target::files::mounts::{self, Loop, Mount, sparse};

const MINUTE: Duration = Duration::from_secs(60);
const POWER_ON: (u8, u8) = (0x29, 0x00);
const NOT_SUPPORTED: (u8, u8) = (0x25, 0x00);

const IQN: &str = "iqn.2026-11.org.example:site";
const LEN_BYTES: u64 = 1 << 20;
const OLD: [u8; 6] = [0x80, 0, 0, 0, 0, 1];
const OTHER: [u8; 6] = [0x80, 0, 0, 0, 0, 2];

/// A target with a state folder, and files for LUNs. The target is dropped first, while the folder is there.
struct Site {
    target: Target,
    folder: TempDir,
    address: String,
}

/// A LUN in the file `name`.
fn lun(number: u16, name: &str, more: &str) -> String {
    format!("[[lun]]\nnumber = {number}\nspec = \"file:{name}\"\n{more}\n")
}

const FORCE: &str = "replace = \"force\"";

impl Site {
    fn new(luns: &str) -> Site {
        let folder = tempfile::Builder::new().prefix("farlun-replacing-").tempdir().expect("a folder");
        for name in ["a", "b", "c"] {
            fs::write(folder.path().join(name), vec![0; LEN_BYTES as usize]).expect("a disk");
        }
        let address = format!("127.0.0.1:{}", port::unused());
        let target = start(&folder, &address, luns);
        Site { target, folder, address }
    }

    /// Starts the target again, which has ended or been killed.
    fn start_again(&mut self, luns: &str) {
        self.target = start(&self.folder, &self.address, luns);
    }

    #[track_caller]
    fn reload(&mut self, luns: &str) -> Value {
        fs::write(self.folder.path().join("target.toml"), text(&self.address, luns)).expect("a file");
        self.target.service.signal("HUP");
        serde_json::from_str(&self.target.service.next_line(MINUTE)).expect("a document")
    }

    /// Returns true if nobody has written to a file.
    fn is_untouched(&self, name: &str) -> bool {
        fs::read(self.folder.path().join(name)).expect("a disk").iter().all(|byte| *byte == 0)
    }

    /// Path of the register.
    fn register_path(&self) -> PathBuf {
        self.folder.path().join(format!("state/{IQN}.farlun-sessions"))
    }

    /// Text of the register.
    fn register(&self) -> String {
        fs::read_to_string(self.register_path()).unwrap_or_default()
    }
}

fn text(address: &str, luns: &str) -> String {
    format!("iqn = \"{IQN}\"\nlisten = [\"{address}\"]\nstate = \"state\"\n{luns}")
}

fn start(folder: &TempDir, address: &str, luns: &str) -> Target {
    fs::write(folder.path().join("target.toml"), text(address, luns)).expect("a file");
    Target::start(farlun(["target", "--json", "--config", "target.toml"]).current_dir(folder.path()))
}

/// A session that has used LUN 0.
#[track_caller]
fn user(target: &Target, isid: [u8; 6]) -> Session {
    let mut session = Session::open_as(target, isid);
    until("the LUN is there", MINUTE, || session.ready(0) != Some(NOT_SUPPORTED));
    while session.ready(0).is_some() {}
    session
}

/// The LUN is not there for this session, whatever it tries.
#[track_caller]
fn expect_closed(session: &mut Session) {
    let inquiry = Cdb::Inquiry { page: None, allocation_len: 96 };
    for _ in 0..2 {
        assert_eq!(session.ready(0), Some(NOT_SUPPORTED));
        assert_eq!(session.write(0, 8, &[0xee; 4096]), Some(NOT_SUPPORTED));
        // This is no sign of having noticed.
        let command = session.command(0, inquiry, Flow::In(96));
        session.send(command, &[]);
        let (Pdu::DataIn(_), data) = session.receive() else { panic!("no INQUIRY data") };
        assert_eq!(StandardInquiry::parse(&data).expect("INQUIRY data").qualifier, 3);
    }
}

#[test]
fn a_store_is_not_replaced_under_a_session() {
    let mut site = Site::new(&(lun(0, "a", "") + &lun(4, "c", "")));
    let mut session = user(&site.target, OLD);
    fs::File::options()
        .write(true)
        .open(site.folder.path().join("c"))
        .and_then(|file| file.set_len(2 * LEN_BYTES))
        .expect("it grows");
    let wanted = lun(0, "b", "") + &lun(4, "c", "") + "[[lun]]\nnumber = 9\nspec = \"memory:1MiB\"\n";
    let said = site.reload(&wanted);
    assert_eq!(said["ok"], false, "{said}");
    let error = said["error"].as_str().expect("a sentence");
    for words in [
        "LUN 0 (file:b) is another disk",
        "iqn.2026-11.org.example:raw (ISID 800000000001, 127.0.0.1:",
        FORCE,
    ] {
        assert!(error.contains(words), "'{words}' is missing in: {error}");
    }
    // Nothing of it is in force.
    assert_eq!(session.write(0, 8, &[7; 4096]), None);
    assert_eq!(session.ready(9), Some(NOT_SUPPORTED));
    assert_eq!(session.ready(4), Some(POWER_ON));
    assert_eq!(session.ready(4), None, "it has not grown");
    assert!(site.is_untouched("b") && !site.is_untouched("a"));
    // One that was lost still counts: its initiator will log in again.
    drop(session);
    until("the session is lost", MINUTE, || {
        site.reload(&wanted)["error"].as_str().is_some_and(|error| {
            error.contains("(ISID 800000000001, not connected)") && error.contains("1 of 1")
        })
    });
    Session::open_as(&site.target, OLD).log_out();
    let said = site.reload(&wanted);
    assert_eq!(
        (&said["ok"], &said["added"], &said["cut_off"]),
        (&json!(true), &json!([0, 9]), &json!([])),
        "{said}"
    );
    assert_eq!(said["grown"], json!([{"lun": 4, "before_bytes": LEN_BYTES, "bytes": 2 * LEN_BYTES}]));
}

#[test]
fn one_that_is_taken_out_and_put_in_is_another_one_by_its_name_or_blocks() {
    let mut site = Site::new(&lun(0, "a", ""));
    let session = user(&site.target, OLD);
    let elsewhere = lun(5, "c", "");
    assert_eq!(site.reload(&elsewhere)["ok"], true);
    let in_use = || {
        let mut check = farlun(["target", "--check", "--lun", "file:a"]);
        run(check.current_dir(site.folder.path()), MINUTE).expect_code(0).stdout.contains("in use now")
    };
    until("the file is let go", MINUTE, || !in_use());
    for next in [lun(0, "b", ""), lun(0, "a,block=4096", "")] {
        let said = site.reload(&(elsewhere.clone() + &next));
        assert!(said["error"].as_str().is_some_and(|error| error.contains("is another disk")), "{said}");
    }
    let said = site.reload(&(elsewhere + &lun(0, "a,ro", "")));
    assert_eq!((&said["ok"], &said["cut_off"]), (&json!(true), &json!([])), "the same one: {said}");
    let mut session = session;
    while session.ready(0).is_some() {}
    assert_eq!(session.read(0, 0, 512), [0; 512]);
}

#[test]
fn a_store_that_is_forced_in_is_closed_to_who_knows_the_old_one() {
    let mut site = Site::new(&lun(0, "a", ""));
    let mut old = user(&site.target, OLD);
    assert_eq!(old.write(0, 8, &[7; 4096]), None);
    let said = site.reload(&lun(0, "b", FORCE));
    assert_eq!(said["ok"], true, "{said}");
    let cut_off = &said["cut_off"][0];
    assert!(
        cut_off["lun"] == 0
            && cut_off["sessions"][0].as_str().is_some_and(|name| name.contains("ISID 800000000001")),
        "{said}"
    );
    expect_closed(&mut old);
    let mut other = user(&site.target, OTHER);
    expect_closed(&mut old);
    assert_eq!(other.read(0, 8, 4096), [0; 4096]);
    // A session in its place, and one after it was lost, are the same nexus.
    let mut reinstated = Session::open_as(&site.target, OLD);
    expect_closed(&mut reinstated);
    assert!(old.until_closed().len() <= 1, "the old one has ended");
    drop(reinstated);
    let mut again = Session::open_as(&site.target, OLD);
    expect_closed(&mut again);
    assert!(site.is_untouched("b"));
    again.log_out();
    let mut fresh = user(&site.target, OLD);
    assert_eq!(fresh.write(0, 8, &[9; 4096]), None);
    assert_eq!(other.read(0, 8, 4096), [9; 4096]);
    let first = fs::read(site.folder.path().join("a")).expect("the old disk");
    assert!(
        first[4096..8192].iter().all(|byte| *byte == 7)
            && first.iter().filter(|byte| **byte != 0).count() == 4096
    );
}

#[test]
fn after_a_restart_it_is_closed_likewise() {
    let mut site = Site::new(&lun(0, "a", ""));
    let _old = user(&site.target, OLD);
    until("it is written down", MINUTE, || site.register().contains("session 800000000001 "));
    site.target.service.kill();
    // Nobody has said that it may be replaced: the target serves it, but not to that one.
    site.start_again(&lun(0, "b", ""));
    let said = site.target.service.stderr();
    assert!(
        said.contains("LUN 0 (file:b) is another disk") && said.contains("ISID 800000000001, not connected"),
        "{said}"
    );
    let mut again = Session::open_as(&site.target, OLD);
    expect_closed(&mut again);
    assert_eq!(user(&site.target, OTHER).write(0, 0, &[1; 512]), None);
    // At the target's request initiators log out by themselves, and come back.
    site.target.service.signal("TERM");
    loop {
        if let (Pdu::AsyncMessage(message), _) = again.receive() {
            assert_eq!(message.event, async_event::LOGOUT_REQUESTED);
            break;
        }
    }
    let (immediate, reason, cmd_sn) = (true, logout_reason::CLOSE_SESSION, again.cmd_sn);
    again.send(LogoutRequest { immediate, reason, itt: 7, cid: 0, cmd_sn, exp_stat_sn: 0 }, &[]);
    again.until_closed();
    assert_eq!(site.target.service.ended(MINUTE), 0);
    site.start_again(&lun(0, "b", FORCE));
    let mut again = Session::open_as(&site.target, OLD);
    expect_closed(&mut again);
    again.log_out();
    user(&site.target, OLD).log_out();
    until("it is forgotten", MINUTE, || !site.register().contains("session 800000000001 "));
    // The first one's disk is the other one now.
    assert_eq!(site.target.service.terminate(), 0);
    site.start_again(&lun(0, "a", ""));
    let said = site.target.service.stderr();
    assert!(said.contains("ISID 800000000002") && !said.contains("ISID 800000000001"), "{said}");
    user(&site.target, OLD);
}

#[test]
fn our_initiator_ends_where_another_disk_is_closed_to_it() {
    let mut site = Site::new(&lun(0, "c", ""));
    let image = site.folder.path().join("image");
    fs::write(&image, vec![5; LEN_BYTES as usize]).expect("an image");
    let line = Line::to(&site.address, &[(LEN_BYTES / 2, Fate::Silent)]);
    let url = site.target.url_at(&line.address(), 0);
    let mut work = Service::start(farlun(["write", &url, "--timeout", "8s", "-i"]).arg(&image));
    until("the line is cut", MINUTE, || line.passed_bytes() >= LEN_BYTES / 2);
    until("it is written down", MINUTE, || site.register().contains("session "));
    site.target.service.kill();
    site.start_again(&lun(0, "b", ""));
    assert_eq!(work.ended(MINUTE), 1);
    assert!(work.stderr().to_lowercase().contains("logical unit not supported"), "{}", work.stderr());
    assert!(site.is_untouched("b"));
}

#[test]
fn what_is_written_down_is_looked_after() {
    let mut site = Site::new(&lun(0, "a", ""));
    let _old = user(&site.target, OLD);
    until("it is written down", MINUTE, || site.register().contains("session 800000000001 "));
    let again = |folder: &TempDir| {
        let mut command = farlun(["target", "--config", "target.toml", "--listen", "127.0.0.1:0"]);
        run(command.current_dir(folder.path()), MINUTE)
    };
    // A second target of this name; its LUN is free.
    fs::write(site.folder.path().join("target.toml"), text(&site.address, &lun(0, "b", ""))).expect("a file");
    again(&site.folder).expect_code(1).expect_sentence(&["in use by another target of the same name"]);
    site.target.service.kill();
    fs::write(site.register_path(), site.register().replace("800000000001", "800000000009")).expect("damage");
    again(&site.folder).expect_code(1).expect_sentence(&["is damaged: found 'sum "]);
    let mut check = farlun(["target", "--config", "target.toml", "--check"]);
    run(check.current_dir(site.folder.path()), MINUTE)
        .expect_code(2)
        .expect_sentence(&["is damaged: found 'sum "]);
}

#[test]
fn a_register_that_could_not_be_written_is_written_later() {
    let site = Site::new(&lun(0, "a", ""));
    let obstacle = site.folder.path().join(format!("state/{IQN}.farlun-sessions.new"));
    fs::create_dir(&obstacle).expect("a folder in the way");
    let _session = user(&site.target, OLD);
    let has_failed = || site.target.service.stderr().contains("cannot write ");
    until("the failure is reported", MINUTE, has_failed);
    assert!(!site.register().contains("session "));
    fs::remove_dir(&obstacle).expect("nothing is in the way");
    until("the register has the session", MINUTE, || site.register().contains("session 800000000001 "));
    until("the end of the failure is reported", MINUTE, || {
        site.target.service.stderr().contains(".farlun-sessions is written again")
    });
}

/// A frozen file system, until the value is dropped.
struct Frozen<'a>(&'a Path);

impl Frozen<'_> {
    #[track_caller]
    fn new(path: &Path) -> Frozen<'_> {
        output(Command::new("fsfreeze").arg("--freeze").arg(path));
        Frozen(path)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").arg("--unfreeze").arg(self.0).status();
    }
}

#[test]
fn a_state_folder_that_hangs_does_not_hold_up_a_second_signal() {
    need!(mounts::available().and_then(|()| skip::program("fsfreeze")));
    let folder = tempfile::tempdir().expect("a folder");
    let (image, state) = (folder.path().join("image"), folder.path().join("state"));
    sparse(&image, 16 << 20);
    let device = Loop::over(&image, 512);
    output(Command::new("mkfs.ext4").arg("-q").arg(&device.path));
    let mount = Mount::device(&device.path, &state);
    let mut target = Target::serve_with(&["memory:1MiB"], &["--state", &state.display().to_string()]);
    {
        // It thaws before anything waits for the target, whose thread cannot be killed until then.
        let _frozen = Frozen::new(&mount.path);
        let _session = Session::open_as(&target, OLD);
        target.service.signal("TERM");
        until("the call that hangs is reported", MINUTE, || {
            target.service.stderr().contains("or for the register have not come back (2)")
        });
        target.service.signal("TERM");
        until("the end is reported", MINUTE, || {
            target.service.stderr().contains("ended by another signal before all calls")
        });
    }
    assert_eq!(target.service.ended(MINUTE), 1);
}

/// The moment of the crash is the one at which the register is most likely behind.
#[test]
fn a_session_that_has_used_a_lun_is_known_after_a_crash() {
    let mut site = Site::new(&lun(0, "a", ""));
    for n in 0..50 {
        let isid = [0x80, 0, 0, 0, 1, n];
        Session::open_as(&site.target, isid).ready(0);
        site.target.service.kill();
        let register = site.register();
        assert!(register.contains(&format!("session 8000000001{n:02x} ")), "{n}: {register}");
        site.start_again(&lun(0, "a", ""));
    }
}
