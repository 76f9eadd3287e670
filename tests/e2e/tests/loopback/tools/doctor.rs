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
