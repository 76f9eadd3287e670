//! SIGHUP: LUNs, addresses and users that come and go while sessions are there, and a configuration that is wrong.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use e2e::ours::Target;
use e2e::process::{Service, until};
use e2e::{farlun, need, run};
use wire::iscsi::Pdu;
use wire::scsi::{Cdb, ReportLuns};

use crate::peers::raw_initiator::{Flow, Session, data_out, read, write};

const MINUTE: Duration = Duration::from_secs(60);
const POWER_ON: (u8, u8) = (0x29, 0x00);
const LUNS_CHANGED: (u8, u8) = (0x3f, 0x0e);
const NOT_SUPPORTED: (u8, u8) = (0x25, 0x00);

/// A target and the folder of its configuration. The target is dropped first, while the folder is there.
struct Served {
    target: Target,
    folder: TempDir,
}

fn lun(number: u16, spec: &str) -> String {
    format!("[[lun]]\nnumber = {number}\nspec = \"{spec}\"\n")
}

/// Another store may come under its number although sessions know the old one.
fn forced(number: u16, spec: &str) -> String {
    format!("{}replace = \"force\"\n", lun(number, spec))
}

impl Served {
    fn with(luns: &[String], more: &str) -> Served {
        let folder = tempfile::Builder::new().prefix("farlun-reload-").tempdir().expect("a folder");
        let file = folder.path().join("target.toml");
        fs::write(&file, format!("listen = [\"127.0.0.1:0\"]\n{more}{}", luns.concat())).expect("a file");
        let mut command = farlun(["target", "--json", "--config", "target.toml"]);
        let target = Target::start(command.current_dir(folder.path()));
        Served { target, folder }
    }

    /// Puts another text into the file and has it read; what the target says.
    #[track_caller]
    fn reload_text(&mut self, text: &str) -> Value {
        fs::write(self.folder.path().join("target.toml"), text).expect("a file");
        self.target.service.signal("HUP");
        let said: Value = serde_json::from_str(&self.target.service.next_line(MINUTE)).expect("a document");
        assert_eq!(said["reload"], true, "{said}");
        said
    }

    #[track_caller]
    fn reload(&mut self, luns: &[String]) -> Value {
        let said = self.reload_text(&format!("listen = [\"127.0.0.1:0\"]\n{}", luns.concat()));
        assert_eq!(said["ok"], true, "{said}");
        said
    }
}

/// What a command without data is answered: the additional sense, if there is any.
#[track_caller]
fn attention(session: &mut Session, lun: u16) -> Option<(u8, u8)> {
    session.ready(lun)
}

/// Waits until LUN 0 is there for a new session.
#[track_caller]
fn comes(target: &Target) -> Session {
    let mut session = Session::open(target);
    let mut said = None;
    until("the next LUN comes", MINUTE, || {
        said = attention(&mut session, 0);
        said != Some(NOT_SUPPORTED)
    });
    assert!(said.is_none_or(|said| [POWER_ON, LUNS_CHANGED].contains(&said)), "{said:?}");
    while attention(&mut session, 0).is_some() {}
    session
}

#[test]
fn a_lun_that_is_taken_out_finishes_what_is_under_way() {
    let (small, second) = (lun(0, "memory:1MiB"), lun(1, "memory:1MiB"));
    let mut served = Served::with(&[small, second.clone()], "");
    let mut session = Session::open(&served.target);
    let command = session.command(0, write(8, 4096), Flow::Out(4096));
    session.send(command, &[]);
    let (Pdu::R2t(r2t), _) = session.receive() else { panic!("the data is not sent for") };

    // Another LUN has its number from now on, as soon as it is free.
    let said = served.reload(&[forced(0, "memory:2MiB"), second.clone(), lun(5, "memory:1MiB")]);
    assert_eq!((&said["added"], &said["removed"]), (&json!([0, 5]), &json!([0])), "{said}");
    assert_eq!(said["luns"], json!([0, 1, 5]), "{said}");
    assert_eq!(attention(&mut session, 1), Some(LUNS_CHANGED));
    assert_eq!(attention(&mut session, 1), None);
    assert_eq!(attention(&mut session, 5), Some(POWER_ON));
    assert_eq!(attention(&mut session, 5), Some(LUNS_CHANGED));
    for _ in 0..10 {
        assert_eq!(attention(&mut session, 0), Some(NOT_SUPPORTED), "the write is not over");
    }

    session.send_bytes(&data_out(command.itt, r2t.ttt, 0, &[7; 4096]));
    let (Pdu::ScsiResponse(response), _) = session.receive() else { panic!("no answer to the write") };
    assert_eq!((response.itt, response.status), (command.itt, 0));
    let mut other = comes(&served.target);
    assert_eq!(other.read(0, 8, 4096), [0; 4096], "another LUN, which nobody has written to");
    assert_eq!(attention(&mut session, 0), Some(NOT_SUPPORTED), "it knows the old one");
    drop(other);

    // Who asks which LUNs there are need not be told.
    served.reload(&[second]);
    let command = session.command(1, Cdb::ReportLuns { select: 0, allocation_len: 512 }, Flow::In(512));
    session.send(command, &[]);
    let (Pdu::DataIn(_), data) = session.receive() else { panic!("no list of LUNs") };
    let listed = ReportLuns::parse(&data).expect("a list of LUNs").luns;
    assert_eq!(listed.iter().filter_map(|lun| lun.number()).collect::<Vec<_>>(), [1]);
    assert_eq!(attention(&mut session, 1), None);
}

#[test]
fn data_on_its_way_is_that_of_the_lun_that_leaves() {
    const BYTES: u32 = 256 << 10;
    let mut served = Served::with(&[lun(0, "memory:1MiB")], "");
    let image = served.folder.path().join("image");
    fs::write(&image, vec![0x5a; 1 << 20]).expect("an image");
    run(farlun(["write", &served.target.url(0), "-i"]).arg(&image), MINUTE).expect_code(0);
    let mut session = Session::open(&served.target);
    // More than sockets have room for, and nobody reads it yet.
    let asked = 64;
    for _ in 0..asked {
        let command = session.command(0, read(0, BYTES), Flow::In(BYTES));
        session.send(command, &[]);
    }
    session.wait_for_a_byte();
    served.reload(&[forced(0, "memory:2MiB")]);
    let (mut whole, mut refused) = (0, 0);
    while whole + refused < asked {
        match session.receive() {
            (Pdu::DataIn(part), data) => {
                assert!(data.iter().all(|byte| *byte == 0x5a), "data of another LUN");
                whole += i32::from(part.status == Some(0));
            }
            (Pdu::ScsiResponse(response), _) => {
                assert_ne!(response.status, 0);
                refused += 1;
            }
            found => panic!("neither data nor an answer: {found:?}"),
        }
    }
    assert!(whole > 0, "what was under way is finished");
    assert_eq!(comes(&served.target).read(0, 0, 4096), [0; 4096]);
}

#[test]
fn under_load_luns_come_and_go() {
    let folder = tempfile::Builder::new().prefix("farlun-reload-").tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    fs::File::create(&disk).and_then(|file| file.set_len(4 << 20)).expect("a disk");
    let (stays, file) = (lun(0, "memory:64MiB"), lun(7, &format!("file:{}", disk.display())));
    let goes = lun(3, "memory:64MiB");
    let mut served = Served::with(&[stays.clone(), goes.clone()], "");
    let load = |lun| {
        let mut command = farlun(["bench", &served.target.url(lun), "--json", "--time", "12s"]);
        command.args(["--op", "write", "--overwrite", "--block", "64KiB", "--depth", "16", "--random"]);
        Service::start(&mut command)
    };
    let before = served.target.service.resident_bytes();
    let (mut through, mut cut_off) = (load(0), load(3));
    // More than one of them has room for: both are at work.
    until("both loads have begun", MINUTE, || served.target.service.resident_bytes() > before + (70 << 20));
    for round in 0..10 {
        let said = served.reload(&[stays.clone(), file.clone()]);
        assert_eq!(said["removed"], if round == 0 { json!([3]) } else { json!([]) }, "{said}");
        let _ = served.reload(std::slice::from_ref(&stays));
        // The file is free again as soon as nothing is under way on it.
        let in_use = || {
            let mut check = farlun(["target", "--check", "--lun", &format!("file:{}", disk.display())]);
            run(&mut check, MINUTE).expect_code(0).stdout.contains("in use now")
        };
        until("the file is let go", MINUTE, || !in_use());
    }
    assert_eq!(through.ended(MINUTE), 0, "{}", through.stderr());
    assert_eq!(cut_off.ended(MINUTE), 1, "{}", cut_off.stderr());
    assert!(cut_off.stderr().to_lowercase().contains("logical unit not supported"), "{}", cut_off.stderr());
    assert_eq!(served.target.service.terminate(), 0);
}

#[test]
fn a_configuration_that_is_wrong_changes_nothing() {
    let one = lun(0, "memory:1MiB");
    let mut served = Served::with(std::slice::from_ref(&one), "");
    for (text, words) in [
        ("listn = []\n".to_owned(), "did you mean 'listen'?"),
        (lun(0, "file:/nowhere/disk"), "does not exist"),
        (format!("listen = [\"192.0.2.1:0\"]\ninsecure = true\n{one}"), "cannot listen on 192.0.2.1:0"),
        (format!("listen = [\"0.0.0.0:0\"]\n{one}"), "--insecure"),
        (format!("congestion = \"warp\"\n{one}"), "'warp' is not available"),
        ("not TOML".to_owned(), "not TOML"),
    ] {
        let said = served.reload_text(&format!("{text}{}", lun(9, "memory:1MiB")));
        assert_eq!(said["ok"], false, "{said}");
        assert!(said["error"].as_str().is_some_and(|error| error.contains(words)), "{words}: {said}");
        assert!(served.target.service.stderr().contains("nothing is changed"));
        run(&mut farlun(["inquiry", &served.target.url(0)]), MINUTE).expect_code(0);
        run(&mut farlun(["inquiry", &served.target.url(9)]), MINUTE).expect_code(1);
    }
    // Nor does a missing file; the next that is right is taken.
    fs::remove_file(served.folder.path().join("target.toml")).expect("the file is there");
    served.target.service.signal("HUP");
    assert!(served.target.service.next_line(MINUTE).contains("No such file"));
    served.reload(&[one, lun(9, "memory:1MiB")]);
    run(&mut farlun(["inquiry", &served.target.url(9)]), MINUTE).expect_code(0);
}

/// A process that has leased a file (fcntl(2)): who opens it waits, as for a server that is gone. It says so, or why not.
fn leased(file: &str, folder: &Path) -> Service {
    let script = "$| = 1; $SIG{IO} = 'IGNORE'; open my $file, '+<', $ARGV[0] or die $!;
        print fcntl($file, 1024, 1) ? \"leased\\n\" : \"$!\\n\"; sleep 600;";
    Service::start(Command::new("perl").args(["-e", script, file]).current_dir(folder))
}

#[test]
fn what_hangs_is_waited_for_until_another_signal() {
    let mut served = Served::with(&[lun(0, "memory:1MiB")], "");
    let mut lease = leased("target.toml", served.folder.path());
    let said = lease.next_line(MINUTE);
    need!(if said == "leased" { Ok(()) } else { Err(format!("this file system has no leases: {said}")) });
    let service = &mut served.target.service;
    service.signal("HUP");
    service.signal("TERM");
    until("the end waits and says so", MINUTE, || {
        service.stderr().contains("until another signal to end comes")
    });
    service.signal("TERM");
    assert_eq!(service.ended(MINUTE), 1);
    assert!(service.stderr().contains("ended by another signal"), "{}", service.stderr());
}

#[test]
fn who_may_log_in_changes_for_new_logins() {
    let one = lun(0, "memory:1MiB");
    let mut served = Served::with(std::slice::from_ref(&one), "");
    let mut session = Session::open(&served.target);
    let alice = "[[chap.user]]\nname = \"alice\"\nsecret = \"the-secret-of-alice\"\n";
    let listen = "listen = [\"127.0.0.1:0\"]\n";
    assert_eq!(served.reload_text(&format!("{listen}{alice}{one}"))["ok"], true);
    let url = served.target.url(0);
    run(&mut farlun(["inquiry", &url]), MINUTE).expect_code(3);
    let named = |secret: &str| url.replace("iscsi://", &format!("iscsi://alice%{secret}@"));
    run(&mut farlun(["inquiry", &named("the-secret-of-alice")]), MINUTE).expect_code(0);
    assert_eq!(attention(&mut session, 0), None, "a session that is there stays");
    let changed = alice.replace("of-alice", "of-alice-now");
    assert_eq!(served.reload_text(&format!("{listen}{changed}{one}"))["ok"], true);
    run(&mut farlun(["inquiry", &named("the-secret-of-alice")]), MINUTE).expect_code(3);
    run(&mut farlun(["inquiry", &named("the-secret-of-alice-now")]), MINUTE).expect_code(0);
    let allow = "allow = [\"iqn.2026-11.org.example:nobody\"]\n";
    assert_eq!(served.reload_text(&format!("{listen}{allow}{one}"))["ok"], true);
    run(&mut farlun(["inquiry", &url]), MINUTE).expect_code(3);
    served.reload(&[one]);
    run(&mut farlun(["inquiry", &url]), MINUTE).expect_code(0);
}

#[test]
fn addresses_come_and_go_and_a_name_stays() {
    let one = lun(0, "memory:1MiB");
    let mut served = Served::with(std::slice::from_ref(&one), "");
    let first = served.target.address().to_owned();
    let mut session = Session::open(&served.target);
    let said = served.reload_text(&format!("listen = [\"127.0.0.1:0\", \"127.0.0.2:0\"]\n{one}"));
    let addresses: Vec<&str> =
        said["addresses"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!((addresses.len(), addresses[0]), (2, first.as_str()), "{said}");
    let second = addresses[1].to_owned();
    let listed = run(&mut farlun(["ls", &format!("iscsi://{second}")]), MINUTE).expect_code(0).stdout;
    assert!(listed.contains(&first) || listed.contains(served.target.iqn()), "{listed}");
    let said = served.reload_text(&format!("iqn = \"iqn.a\"\nlisten = [\"127.0.0.2:0\"]\n{one}"));
    assert_eq!(said["addresses"], json!([second]), "{said}");
    assert!(said["stays"][0].as_str().is_some_and(|text| text.contains(served.target.iqn())), "{said}");
    assert!(served.target.service.stderr().contains("the name stays"));
    run(&mut farlun(["inquiry", &served.target.url_at(&second, 0)]), MINUTE).expect_code(0);
    run(&mut farlun(["inquiry", &served.target.url_at(&first, 0)]), MINUTE).expect_code(1);
    assert_eq!(attention(&mut session, 0), None, "a session that came in there stays");
}

#[test]
fn without_a_file_a_hangup_ends_the_target() {
    let mut target = Target::serve(&["memory:1MiB"]);
    target.service.signal("HUP");
    assert_eq!(target.service.ended(MINUTE), 0);
}

#[test]
fn words_for_people() {
    let folder = tempfile::Builder::new().prefix("farlun-reload-").tempdir().expect("a folder");
    let write = |text: &str| fs::write(folder.path().join("target.toml"), text).expect("a file");
    write(&lun(0, "memory:1MiB"));
    let mut command: Command = farlun(["target", "--config", "target.toml", "--listen", "127.0.0.1:0"]);
    let mut service = Service::start(command.current_dir(folder.path()));
    assert!(service.next_line(MINUTE).starts_with("ready: "));
    write(&lun(4, "memory:1MiB"));
    service.signal("HUP");
    let said = service.next_line(MINUTE);
    assert!(said.starts_with("reloaded: LUNs 4; added 4, removed 0; listening on 127.0.0.1:"), "{said}");
    assert_eq!(service.terminate(), 0);
}
