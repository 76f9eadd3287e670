//! `farlun doctor URL` on loopback: on our target, on tgt, and on what is no target.

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

use e2e::ours::Target;
use e2e::{farlun, image, need, run, tgtd};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(180);
const IQN: &str = "iqn.2026-11.io.farlun:doctor";

/// The first limiter of a step.
fn limiter(document: &Value, step: usize) -> &str {
    let found = &document["steps"][step]["diagnosis"]["verdicts"][0]["limiter"];
    found.as_str().unwrap_or_else(|| panic!("step {step} has no verdict: {document}"))
}

#[test]
fn a_run_directory_is_kept_if_it_was_asked_for() {
    let target = Target::serve(&["memory:16MiB"]);
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let mut doctor = farlun(["doctor", &target.url(0), "--json", "--time", "2s", "--out"]);
    let document = run(doctor.arg(&out), LIMIT).expect_code(0).json();
    limiter(&document, 0);
    assert_eq!(document["ending"]["why"], "not-asked");
    for file in
        ["run.json", "report.html", "cells/001-load/r1/io-near.parquet", "cells/001-load/r1/cell.json"]
    {
        assert!(out.join(file).exists(), "{file}");
    }
    let mut again = farlun(["doctor", &target.url(0), "--time", "500ms", "--out"]);
    run(again.arg(&out), LIMIT).expect_code(2).expect_sentence(&["another directory"]);
}

#[test]
fn a_report_opens_with_the_verdict() {
    let target = Target::serve(&["memory:16MiB"]);
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let mut doctor = farlun(["doctor", &target.url(0), "--json", "--time", "500ms", "--depth", "2", "--out"]);
    let document = run(doctor.arg(&out), LIMIT).expect_code(0).json();
    let page = std::fs::read_to_string(out.join("report.html")).expect("a report");
    let headline = page.split("<h1>").nth(1).and_then(|rest| rest.split("</h1>").next()).expect("a headline");
    let name = format!("({})", limiter(&document, 0));
    assert!(headline.contains(&name) && headline.contains("MB/s"), "{headline}, expected {name}");
    // Drawn again, and judged again, it says the same.
    let again = run(farlun(["doctor", "--json"]).arg(&out), LIMIT).expect_code(0).json();
    let cells = again["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 1, "other steps have no diagnosis of their own: {again:#}");
    assert_eq!(cells[0]["diagnosis"]["verdicts"][0]["limiter"], limiter(&document, 0), "{again:#}");
}

#[test]
fn a_gentle_doctor_never_passes_the_load_that_was_asked_for() {
    let target = Target::serve(&["memory:16MiB"]);
    let mut doctor = farlun(["doctor", &target.url(0), "--json", "--time", "500ms", "--gentle"]);
    let finished = run(doctor.args(["--depth", "8", "--block", "16KiB"]), LIMIT).expect_code(0);
    assert!(finished.stderr.contains("one request at a time"), "it says what it will do: {finished:?}");
    let document = finished.json();
    let loads = document["steps"][0]["loads"].as_array().expect("loads");
    assert!(loads.len() >= 3, "{document:#}");
    assert_eq!((&loads[0]["role"], &loads[1]["role"]), (&"low".into(), &"nominal".into()), "{document:#}");
    for load in loads {
        let number = |name: &str| load[name].as_u64().expect("a number");
        let bytes = number("sessions") * number("depth") * number("request_bytes");
        assert!(bytes <= 8 * 16_384, "{load:#}");
    }
    let mut both = farlun(["doctor", &target.url(0), "--gentle", "--fix"]);
    run(&mut both, LIMIT).expect_code(2);
}

#[test]
fn what_is_no_disk_is_said_with_the_next_step() {
    need!(tgtd::available());
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    std::fs::write(&disk, vec![0x5a; 4 << 20]).expect("a disk");
    let tgt = tgtd::Tgtd::serve(&disk);
    let refused = |lun| run(&mut farlun(["doctor", &tgt.url(lun)]), LIMIT).expect_code(1);
    let next = format!("LUNs with disks here: 1: use {}", tgt.url(1));
    let controller = refused(0);
    let expected = format!("LUN 0 is a controller (device type 0x0c), not a disk; {next}");
    assert!(controller.stderr.contains(&expected), "{controller:?}, expected {expected}");
    let none = refused(7);
    assert!(none.stderr.contains(&format!("there is no LUN 7; {next}")), "{none:?}, expected {next}");
    let text = run(&mut farlun(["doctor", "10.0.0.7"]), LIMIT).expect_code(2);
    assert!(text.stderr.contains("neither the URL of a LUN nor a directory"), "{text:?}");
    assert!(text.stderr.contains("farlun ls iscsi://HOST"), "{text:?}");
    let no_lun = run(&mut farlun(["doctor", "iscsi://127.0.0.1/iqn.a:b"]), LIMIT).expect_code(2);
    assert!(no_lun.stderr.contains("the LUN is missing, `farlun ls iscsi://HOST` lists LUNs"), "{no_lun:?}");
}

#[test]
fn tgt_is_examined_and_nothing_is_written_to_it() {
    need!(tgtd::available());
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    std::fs::write(&disk, vec![0x5a; 4 << 20]).expect("a disk");
    let before = image::sha256(&disk);
    let tgt = tgtd::Tgtd::serve(&disk);
    let doctor = |flags: &[&str]| {
        let mut doctor = farlun(["doctor", &tgt.url(1), "--json", "--time", "2s", "--block", "4KiB"]);
        run(doctor.args(flags), LIMIT)
    };
    let document = doctor(&["--fix"]).expect_code(0).json();
    limiter(&document, 0);
    let unknown = document["steps"][0]["diagnosis"]["cannot_know"].as_array().expect("a list");
    assert!(!unknown.is_empty(), "one end alone does not tell everything: {document:#}");
    doctor(&["--op", "write"]).expect_code(2).expect_sentence(&["--overwrite"]);
    assert_eq!(image::sha256(&disk), before, "written to without being told");
    doctor(&["--op", "write", "--overwrite"]).expect_code(0);
    assert_ne!(image::sha256(&disk), before, "told to write, and nothing was written");
}

#[test]
fn what_is_no_target_is_said_in_a_sentence() {
    let doctor = |url: &str| run(&mut farlun(["doctor", url, "--timeout", "500ms"]), LIMIT);
    let url =
        |listener: &TcpListener| format!("iscsi://{}/{IQN}/0", listener.local_addr().expect("an address"));
    // Port 1 is nobody's.
    doctor(&format!("iscsi://127.0.0.1:1/{IQN}/0")).expect_code(1).expect_sentence(&["refused"]);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    doctor(&url(&silent)).expect_code(1).expect_sentence(&["did not", "500ms"]);
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let web = url(&other);
    thread::spawn(move || {
        for mut stream in other.incoming().map_while(Result::ok) {
            // Longer than a basic header segment, so that there is something to judge.
            let _ = stream.write_all(&b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".repeat(8));
        }
    });
    run(&mut farlun(["doctor", &web]), LIMIT)
        .expect_code(1)
        .expect_sentence(&["pdu", "opcode", "login", "closed", "reset"]);
    doctor("iscsi://127.0.0.1/").expect_code(2);
    doctor("runs/none").expect_code(2);
    let mut fix = farlun(["doctor", "--fix", "runs/none"]);
    run(&mut fix, LIMIT).expect_code(2).expect_sentence(&["--fix is for a load on a target"]);
}

#[test]
fn a_target_that_wants_to_know_who_asks_refuses() {
    let folder = tempfile::tempdir().expect("a folder");
    let secrets = folder.path().join("secrets");
    write_secret(&secrets);
    let file = secrets.to_str().expect("plain characters");
    let target = Target::serve_with(&["memory:16MiB"], &["--chap", "alice", "--chap-secret-file", file]);
    run(&mut farlun(["doctor", &target.url(0)]), LIMIT)
        .expect_code(3)
        .expect_sentence(&["CHAP", "authenticat"]);
    let url = target.url(0).replace("iscsi://", "iscsi://alice%the-secret-of-alice@");
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    run(farlun(["doctor", &url, "--time", "300ms", "--out"]).arg(&out), LIMIT).expect_code(0);
    let secret = b"the-secret-of-alice";
    let (mut dirs, mut files) = (vec![out], Vec::new());
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { dirs.push(path) } else { files.push(path) }
        }
    }
    assert!(files.iter().any(|file| file.extension().is_some_and(|kind| kind == "parquet")), "{files:?}");
    for file in files {
        let bytes = std::fs::read(&file).expect("the file");
        assert!(!bytes.windows(secret.len()).any(|part| part == secret), "{file:?} tells the secret");
    }
}

fn write_secret(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, "alice the-secret-of-alice\n").expect("a file");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("its mode");
}
