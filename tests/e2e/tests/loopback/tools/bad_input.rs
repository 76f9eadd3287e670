//! What can be wrong outside: one clear sentence, the right exit code, and no partial file that looks whole.

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use event::SocketSample;
use tables::manifest::{Cell, CellEntry, Run};
use tables::{RunDir, Writer};
use tempfile::TempDir;

use e2e::ours::Target;
use e2e::process::until;
use e2e::relay::Relay;
use e2e::{Finished, Service, farlun, farlun_path, need, run, skip};

const MINUTE: Duration = Duration::from_secs(60);

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("farlun-bad-").tempdir().expect("a temporary folder")
}

fn farlun_ends(args: &[&str]) -> Finished {
    run(&mut farlun(args), MINUTE)
}

/// Panics if the folder holds a file that is not named as partial.
#[track_caller]
fn expect_nothing_whole_in(folder: &Path) {
    let entries = fs::read_dir(folder).expect("a folder");
    let names: Vec<OsString> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    let whole = names.iter().find(|name| !name.to_string_lossy().ends_with(".partial"));
    assert_eq!(whole, None, "a partial file has the name of a whole one");
}

/// `read URL -o` into a folder of its own.
fn read_into(folder: &Path, url: &str, more: &[&str]) -> Finished {
    run(farlun(["read", url]).args(more).arg("-o").arg(folder.join("out")), MINUTE)
}

#[test]
fn wrong_urls() {
    let iqn = "iqn.2026-11.io.farlun:x";
    for url in [
        "http://127.0.0.1/".to_owned(),
        "127.0.0.1".to_owned(),
        "iscsi://".to_owned(),
        "iscsi://127.0.0.1:99999".to_owned(),
        "iscsi://127.0.0.1:x".to_owned(),
        "iscsi://[::1".to_owned(),
    ] {
        farlun_ends(&["ls", &url]).expect_code(2).expect_sentence(&["url", "port", "host", "iscsi://"]);
    }
    let folder = folder();
    for url in [
        "iscsi://127.0.0.1".to_owned(),
        format!("iscsi://127.0.0.1/{iqn}"),
        format!("iscsi://127.0.0.1/{iqn}/one"),
        format!("iscsi://127.0.0.1/{iqn}/-1"),
    ] {
        read_into(folder.path(), &url, &[]).expect_code(2).expect_sentence(&["lun", "url", "iqn", "target"]);
    }
    expect_nothing_whole_in(folder.path());
}

#[test]
fn wrong_sizes_and_flags() {
    for args in [
        ["target", "--lun", "memory:many"].as_slice(),
        &["target", "--lun", "memory:64MB64"],
        &["target", "--lun", "floppy:a"],
        &["target"],
        &["bench", "iscsi://127.0.0.1/iqn.2026-11.io.farlun:x/0", "--block", "4 potatoes"],
        &["wan", "--delay", "8 parsecs", "--", "true"],
        &["no-such-command"],
        &[],
    ] {
        let finished = farlun_ends(args);
        assert_eq!(finished.code, 2, "{finished:#?}");
        assert!(!finished.stderr.trim().is_empty(), "it says what is wrong\n{finished:#?}");
    }
}

#[test]
fn refused_connection() {
    // Port 1 is nobody's; one that was given back may be another's by now.
    let address = "127.0.0.1:1";
    farlun_ends(&["ls", &format!("iscsi://{address}")]).expect_code(1).expect_sentence(&["refused"]);
    let folder = folder();
    let url = format!("iscsi://{address}/iqn.2026-11.io.farlun:x/0");
    read_into(folder.path(), &url, &[]).expect_code(1).expect_sentence(&["refused"]);
    expect_nothing_whole_in(folder.path());
}

#[test]
fn a_host_that_accepts_and_says_nothing() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("a bound socket has an address");
    let folder = folder();
    let url = format!("iscsi://{address}/iqn.2026-11.io.farlun:x/0");
    let finished = read_into(folder.path(), &url, &["--timeout", "1s"]);
    finished.expect_code(1).expect_sentence(&[
        "timed out",
        "no answer",
        "did not answer",
        "nothing",
        "within",
    ]);
    expect_nothing_whole_in(folder.path());
}

#[test]
fn a_host_that_speaks_something_else() {
    use std::io::Write;

    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = stream;
            // Longer than a basic header segment, so that there is something to judge.
            let _ = stream.write_all(&b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".repeat(8));
        }
    });
    let folder = folder();
    let url = format!("iscsi://{address}/iqn.2026-11.io.farlun:x/0");
    let finished = read_into(folder.path(), &url, &["--timeout", "60s"]);
    assert!(matches!(finished.code, 1 | 3), "{finished:#?}");
    finished.expect_sentence(&["pdu", "iscsi", "opcode", "login", "closed", "reset"]);
    expect_nothing_whole_in(folder.path());
}

#[test]
fn wrong_iqn() {
    let target = Target::serve(&["memory:64MiB"]);
    let folder = folder();
    let url = format!("iscsi://{}/iqn.2026-11.io.farlun:another/0", target.address());
    read_into(folder.path(), &url, &[])
        .expect_code(3)
        .expect_sentence(&["iqn.2026-11.io.farlun:another", "not found"]);
    expect_nothing_whole_in(folder.path());
}

#[test]
fn a_lun_that_is_not_there() {
    let target = Target::serve(&["memory:64MiB"]);
    let folder = folder();
    let finished = read_into(folder.path(), &target.url(5), &[]);
    finished.expect_code(1).expect_sentence(&["lun 5", "no lun", "logical unit"]);
    expect_nothing_whole_in(folder.path());
}

#[test]
fn an_image_larger_than_the_lun() {
    let target = Target::serve(&["memory:8MiB"]);
    let folder = folder();
    let image = folder.path().join("image");
    fs::write(&image, vec![0x5a; 9 << 20]).expect("an image");
    let mut write = farlun(["write", &target.url(0), "-i"]);
    run(write.arg(&image), MINUTE).expect_code(1).expect_sentence(&[
        "larger",
        "too large",
        "does not fit",
        "only",
    ]);
    let copy = folder.path().join("copy");
    run(farlun(["read", &target.url(0), "-o"]).arg(&copy), MINUTE).expect_code(0);
    assert!(
        fs::read(&copy).expect("the copy").iter().all(|&byte| byte == 0),
        "nothing is written of what does not fit"
    );
}

#[test]
fn an_image_that_is_not_there() {
    let target = Target::serve(&["memory:8MiB"]);
    let mut write = farlun(["write", &target.url(0), "-i", "/nowhere/image"]);
    let finished = run(&mut write, MINUTE);
    assert!(matches!(finished.code, 1 | 2), "{finished:#?}");
    finished.expect_sentence(&["/nowhere/image"]);
}

#[test]
fn a_part_beyond_the_end() {
    let target = Target::serve(&["memory:8MiB"]);
    let folder = folder();
    let finished = read_into(folder.path(), &target.url(0), &["--offset", "7MiB", "--length", "2MiB"]);
    assert!(matches!(finished.code, 1 | 2), "{finished:#?}");
    finished.expect_sentence(&["end", "beyond", "past", "larger", "only"]);
    expect_nothing_whole_in(folder.path());
}

#[test]
fn a_full_disk() {
    need!(skip::root(), skip::program("unshare"), skip::program("mount"));
    let target = Target::serve(&["memory:64MiB"]);
    let folder = folder();
    let place = folder.path().display();
    // The small disk exists in a mount namespace of this one command; what it holds in the end is listed last.
    let script = format!(
        "mount -t tmpfs -o size=8m tmpfs {place} || exit 77\n\
         {} read {} -o {place}/out\n\
         code=$?\n\
         ls -A {place}\n\
         exit $code",
        farlun_path().display(),
        target.url(0)
    );
    let finished = run(Command::new("unshare").args(["--mount", "sh", "-c", &script]), MINUTE);
    need!(if finished.code == 77 { Err("a tmpfs cannot be mounted here".to_owned()) } else { Ok(()) });
    let finished = finished.expect_code(1).expect_sentence(&["no space", "full", "room"]);
    let whole = finished.stdout.lines().any(|name| name == "out");
    assert!(!whole, "a partial file has the name of a whole one\n{finished:#?}");
}

#[test]
fn a_run_of_another_schema_version() {
    let folder = folder();
    let run_dir = folder.path().join("run");
    let dir = RunDir::create(&run_dir).expect("a run");
    let cell_dir = dir.make_cell(1, "load", 1).expect("a cell");
    let cell = Cell { slug: "load".to_owned(), repeat: 1, ..Cell::default() };
    dir.save_cell(&cell_dir, &cell).expect("cell.json");
    let entry =
        CellEntry { dir: cell_dir.clone(), slug: "load".to_owned(), repeat: 1, ..CellEntry::default() };
    let commit = Some("1234567".to_owned());
    dir.save(&Run { farlun: "0.0.9".to_owned(), commit, cells: vec![entry], ..Run::default() })
        .expect("run.json");
    let cell_dir = run_dir.join(cell_dir);
    let table = cell_dir.join("sockets-near.parquet");
    Writer::<SocketSample>::create(&table).expect("a table").finish().expect("a table");

    let edit = |file: &Path, from: &[u8], to: &[u8]| {
        let mut bytes = fs::read(file).expect("a file");
        let at = bytes.windows(from.len()).position(|window| window == from).expect("the version");
        bytes[at..at + to.len()].copy_from_slice(to);
        fs::write(file, bytes).expect("a file");
    };
    let refused = |args: &[&str], path: &Path, words: &str| {
        run(farlun(args).arg(path), MINUTE)
            .expect_code(2)
            .expect_said(words)
            .expect_sentence(&["expected 2"]);
    };
    let policy = ["replay", "--policy", "auto"];
    // A key and its value, as Parquet's footer has them.
    edit(&table, b"farlun.schema_version\x18\x012", b"farlun.schema_version\x18\x011");
    let words = "sockets-near.parquet: found schema version 1, expected 2; run it again with this farlun, or read it with";
    refused(&policy, &run_dir, words);
    refused(&policy, &cell_dir, words);
    let traced = folder.path().join("traced");
    fs::create_dir(&traced).expect("a folder");
    fs::copy(&table, traced.join("sockets-near.parquet")).expect("a copy");
    refused(&policy, &traced, words);

    edit(&run_dir.join("run.json"), b"\"schema_version\": 2", b"\"schema_version\": 1");
    let words = "run.json: found schema version 1, expected 2; run it again with this farlun, or read it with farlun \
                 0.0.9 (1234567), which wrote it";
    for args in [["report"].as_slice(), &["doctor"], &["analyze"], &policy] {
        refused(args, &run_dir, words);
    }
    refused(&["compare", &run_dir.display().to_string()], &run_dir, words);
    refused(&["lab", "tour", "--resume", "--out"], &run_dir, words);

    edit(&cell_dir.join("cell.json"), b"\"schema_version\": 2", b"\"schema_version\": 1");
    let words = "cell.json: found schema version 1, expected 2";
    for args in [["report"].as_slice(), &["doctor"], &["analyze"], &policy] {
        refused(args, &cell_dir, words);
    }
}

#[test]
fn plans_with_mistakes() {
    let folder = folder();
    let plan = folder.path().join("plan.toml");
    let text = plan.to_str().expect("a path of plain characters");
    for (mistake, word) in [("colour = \"blue\"\n", "colour"), ("this is = no = toml", "plan.toml")] {
        fs::write(&plan, mistake).expect("a plan");
        farlun_ends(&["lab", "check", text]).expect_code(2);
        let finished = farlun_ends(&["lab", text]).expect_code(2);
        assert!(finished.stderr.contains(word), "`{word}` is not named\n{finished:#?}");
    }
    farlun_ends(&["lab", "check", "/nowhere/plan.toml"])
        .expect_code(2)
        .expect_sentence(&["/nowhere/plan.toml"]);
    farlun_ends(&["lab", "check", "tour"]).expect_code(0);
}

#[test]
fn a_plan_with_a_wrong_unit() {
    let shipped = include_str!("../../../../../experiments/tour.toml");
    assert!(shipped.contains("\"8ms\""), "the tour has a delay of 8 ms to spoil");
    let folder = folder();
    let plan = folder.path().join("plan.toml");
    fs::write(&plan, shipped.replace("\"8ms\"", "\"8 parsecs\"")).expect("a plan");
    let text = plan.to_str().expect("a path of plain characters");
    let finished = farlun_ends(&["lab", "check", text]).expect_code(2);
    assert!(finished.stderr.contains("8 parsecs"), "the value found is shown\n{finished:#?}");
}

#[test]
fn a_target_that_vanishes_half_way_through_a_read() {
    let mut target = Target::serve(&["memory:64MiB"]);
    let relay = Relay::to(target.address(), 20 << 20);
    let folder = folder();
    let url = target.url_at(&relay.address(), 0);
    let mut read =
        Service::start(farlun(["read", &url, "--timeout", "20s", "-o"]).arg(folder.path().join("out")));
    until("20 MiB have passed", MINUTE, || relay.is_full() || !read.alive());
    assert!(relay.is_full(), "it ended before it got half-way: {}", read.stderr());
    target.service.kill();
    assert_eq!(read.ended(MINUTE), 1, "{}", read.stderr());
    expect_given_up(&read.stderr(), &relay.address());
    expect_nothing_whole_in(folder.path());
}

#[test]
fn a_target_that_vanishes_half_way_through_a_write() {
    let mut target = Target::serve(&["memory:64MiB"]);
    let relay = Relay::to(target.address(), 20 << 20);
    let folder = folder();
    let image = folder.path().join("image");
    fs::write(&image, vec![0x5a; 64 << 20]).expect("an image");
    let url = target.url_at(&relay.address(), 0);
    let mut write = Service::start(farlun(["write", &url, "--timeout", "20s", "-i"]).arg(&image));
    until("20 MiB have passed", MINUTE, || relay.is_full() || !write.alive());
    assert!(relay.is_full(), "it ended before it got half-way: {}", write.stderr());
    target.service.kill();
    assert_eq!(write.ended(MINUTE), 1, "{}", write.stderr());
    let said = write.stderr();
    expect_given_up(&said, &relay.address());
    assert!(said.contains("only partly written") && said.contains("of 64MiB were confirmed"), "{said}");
}

/// Panics unless it is said that the connection to `address` ended and was tried again. How it ended depends on where the
/// kernel notices: a read sees it closed or reset, a write a broken pipe.
#[track_caller]
fn expect_given_up(said: &str, address: &str) {
    assert!(said.contains(address), "{said}");
    assert!(said.contains("; connecting again\n"), "{said}");
    assert!(said.contains("; gave up connecting again after"), "{said}");
}

#[test]
fn a_peer_that_falls_silent_half_way() {
    let target = Target::serve(&["memory:64MiB"]);
    let relay = Relay::to(target.address(), 20 << 20);
    let folder = folder();
    let url = target.url_at(&relay.address(), 0);
    let finished = read_into(folder.path(), &url, &["--timeout", "2s"]);
    finished.expect_code(1).expect_sentence(&[
        "timed out",
        "no answer",
        "did not answer",
        "nothing",
        "within",
    ]);
    expect_nothing_whole_in(folder.path());
}
