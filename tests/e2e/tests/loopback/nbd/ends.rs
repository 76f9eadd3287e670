//! Ends under load: of a client, of the server.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;
use std::thread;
use std::time::Duration;

use e2e::ours::NbdServer;
use e2e::{Service, farlun, need, run, skip, until};
use wire::nbd::command;

use super::raw::{RawClient, pattern};

const LIMIT: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

/// A file for an export, and its specification.
fn disk(dir: &tempfile::TempDir, len_bytes: u64) -> (File, String) {
    let path = dir.path().join("disk");
    let file = File::create(&path).expect("a file");
    file.set_len(len_bytes).expect("room");
    (File::open(&path).expect("the file"), format!("file:{}", path.display()))
}

/// Random writes without an end, by one process: a job of its own would survive it.
fn writer(uri: &str, dir: &tempfile::TempDir) -> Service {
    let mut fio = Command::new("fio");
    fio.current_dir(dir.path()).args([
        "--name=job",
        "--thread",
        "--ioengine=nbd",
        "--rw=randwrite",
        "--bs=64k",
    ]);
    fio.args(["--iodepth=32", "--size=32m", "--time_based", "--runtime=600"]);
    Service::start(fio.arg(format!("--uri={uri}")))
}

#[test]
fn a_client_that_is_killed_under_load_leaves_nothing_behind() {
    need!(skip::program("fio"));
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (file, spec) = disk(&dir, 32 * MIB);
    let mut server = NbdServer::serve(&spec);
    let mut fio = writer(&server.uri(), &dir);
    let is_written = || file.metadata().is_ok_and(|found| found.blocks() > 0);
    until("fio writes", LIMIT, is_written);
    fio.kill();
    // Requests to all of its blocks: none of its writes comes later.
    let mut client = RawClient::open(&server);
    let data = pattern(5, 1 << 20);
    (0..32).for_each(|at| assert_eq!(client.write(at * MIB, &data), 0));
    (0..32).for_each(|at| assert!(client.read(at * MIB, data.len()) == Ok(data.clone()), "MiB {at}"));
    drop(client);
    assert_eq!(server.service.terminate(), 0, "{}", server.service.stderr());
    let mut found = vec![0; data.len()];
    (0..32).for_each(|at| {
        file.read_exact_at(&mut found, at * MIB).expect("the file");
        assert!(found == data, "MiB {at} of the file");
    });
}

#[test]
fn a_signal_under_load_loses_no_answered_write() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (file, spec) = disk(&dir, 64 * MIB);
    let mut server = NbdServer::serve(&spec);
    let writers: Vec<_> = (0..4u64)
        .map(|number| {
            let mut client = RawClient::open(&server);
            thread::spawn(move || {
                let mut answered = 0;
                for at in 0..2048u64 {
                    client.send(command::WRITE, number * 16 * MIB + at * 8192, 8192);
                    if client.stream.write_all(&pattern(number * 4096 + at, 8192)).is_err() {
                        break;
                    }
                    match client.reply() {
                        Some((0, _)) => answered += 1,
                        _ => break,
                    }
                }
                answered
            })
        })
        .collect();
    let has_begun = || {
        let mut bytes = [0; 8192];
        file.read_exact_at(&mut bytes, 48 * MIB).is_ok() && bytes[..] == pattern(3 * 4096, 8192)
    };
    until("the last of them has written", LIMIT, has_begun);
    assert_eq!(server.service.terminate(), 0, "{}", server.service.stderr());
    for (number, writer) in (0..).zip(writers) {
        let answered: u64 = writer.join().expect("a writer");
        for at in 0..answered {
            let mut found = vec![0; 8192];
            file.read_exact_at(&mut found, number * 16 * MIB + at * 8192).expect("the file");
            assert!(found == pattern(number * 4096 + at, 8192), "write {at} of {answered}");
        }
    }
}

#[test]
fn a_device_that_cannot_be_flushed_is_told() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (_, spec) = disk(&dir, MIB);
    let mut server = NbdServer::serve(&format!("{spec},fault=sync"));
    let mut client = RawClient::open(&server);
    assert_eq!(client.write(0, &[7; 8192]), 0);
    assert_eq!(server.service.terminate(), 1);
    let stderr = server.service.stderr();
    assert!(stderr.contains("8KiB written since the last flush may not be on stable storage"), "{stderr}");
}

#[test]
fn without_clients_it_ends_at_once_and_removes_its_socket() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let socket = dir.path().join("socket");
    let text = socket.to_str().expect("a plain path");
    let mut server = NbdServer::serve_with("null:1GiB", &["--socket", text]);
    assert!(server.ready["addresses"].as_array().is_some_and(Vec::is_empty), "{}", server.ready);
    let mut second = farlun(["serve-nbd", "null:1GiB", "--socket", text]);
    let refused = run(&mut second, LIMIT).expect_code(1);
    assert!(refused.stderr.contains("is in use"), "{refused:#?}");
    assert_eq!(server.service.terminate(), 0);
    assert!(!socket.exists());
    // One that was killed leaves its socket behind, which is replaced.
    let mut killed = NbdServer::serve_with("null:1GiB", &["--socket", text]);
    killed.service.kill();
    assert!(fs::symlink_metadata(&socket).is_ok());
    let mut next = NbdServer::serve_with("null:1GiB", &["--socket", text]);
    assert_eq!(next.service.terminate(), 0);
}

#[test]
fn bad_usage_is_refused_with_a_sentence() {
    let check = |args: &[&str], code: i32, words: &str| {
        let mut command = farlun(["serve-nbd"]);
        let finished = run(command.args(args), LIMIT).expect_code(code);
        assert!(finished.stderr.contains(words), "{words:?} is missing in {finished:#?}");
    };
    check(&[], 2, "SPEC");
    check(&["mem:1MiB"], 2, "did you mean 'memory:1MiB'?");
    check(&["memory:1MiB,serial=a"], 2, "'serial' is for LUNs of 'farlun target'");
    check(&["memory:1MiB", "--listen", "0.0.0.0:0"], 2, "give --insecure");
    check(&["memory:1MiB", "--listen", "nowhere"], 2, "expected ADDR:PORT");
    check(&["memory:1000"], 1, "not a positive multiple of the block size");
    check(&["file:/nonexistent/disk"], 1, "does not exist");
    check(&["null:1MiB", "--export", &"x".repeat(5000)], 2, "name of NBD export 0 has 5000 bytes");
}
