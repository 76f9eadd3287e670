//! Ranges: allocation, trim, zeroes; and the errors of requests.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;
use std::time::Duration;

use e2e::ours::NbdServer;
use e2e::process::output;
use e2e::{need, run, skip};
use serde_json::Value;
use wire::nbd::{command, transmission_flag};

use super::raw::{RawClient, pattern};

const LIMIT: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;

/// Offset, length and flags of `base:allocation`.
fn map(uri: &str) -> Vec<(u64, u64, u64)> {
    let text = output(Command::new("nbdinfo").args(["--map", "--json", uri]));
    let map: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let number = |extent: &Value, name: &str| extent[name].as_u64().expect("a number");
    let extent =
        |extent: &Value| (number(extent, "offset"), number(extent, "length"), number(extent, "type"));
    map.as_array().expect("extents").iter().map(extent).collect()
}

/// Bytes that a file occupies.
fn occupied(file: &File) -> u64 {
    file.metadata().expect("metadata").blocks() * 512
}

#[test]
fn holes_of_a_file_are_its_block_status() {
    need!(skip::program("nbdinfo"));
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("disk");
    let file = File::create(&path).expect("a file");
    file.set_len(16 * MIB).expect("room");
    file.write_all_at(&pattern(1, MIB as usize), 4 * MIB).expect("data");
    file.write_all_at(&pattern(2, MIB as usize), 12 * MIB).expect("data");
    if occupied(&file) > 4 * MIB {
        fn here() {}
        return skip::say(std::any::type_name_of_val(&here), "the file system has no holes");
    }
    let server = NbdServer::serve(&format!("file:{}", path.display()));
    let expected = [
        (0, 4 * MIB, 3),
        (4 * MIB, MIB, 0),
        (5 * MIB, 7 * MIB, 3),
        (12 * MIB, MIB, 0),
        (13 * MIB, 3 * MIB, 3),
    ];
    assert_eq!(map(&server.uri()), expected);
}

#[test]
fn zeros_of_memory_are_its_block_status() {
    need!(skip::program("nbdinfo"));
    let server = NbdServer::serve("memory:16MiB");
    let mut client = RawClient::open(&server);
    assert_eq!(client.write(4 * MIB, &pattern(1, MIB as usize)), 0);
    assert_eq!(map(&server.uri()), [(0, 4 * MIB, 2), (4 * MIB, MIB, 0), (5 * MIB, 11 * MIB, 2)]);
    let null = NbdServer::serve("null:1TiB");
    let found = map(&null.uri());
    assert!(found.iter().all(|(_, _, state)| *state == 3), "{found:?}");
    assert_eq!(found.iter().map(|(_, len, _)| len).sum::<u64>(), 1 << 40);
}

#[test]
fn trim_and_zeroes_give_space_back_or_keep_it() {
    need!(skip::program("qemu-io"));
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("disk");
    let file = File::create(&path).expect("a file");
    file.set_len(16 * MIB).expect("room");
    let server = NbdServer::serve(&format!("file:{}", path.display()));
    let uri = server.uri();
    if RawClient::open(&server).flags & transmission_flag::SEND_TRIM == 0 {
        fn here() {}
        return skip::say(std::any::type_name_of_val(&here), "the file system punches no holes");
    }
    let qemu_io = |commands: &[&str]| {
        let mut qemu_io = Command::new("qemu-io");
        qemu_io.args(["-f", "raw", "-d", "unmap"]);
        for command in commands {
            qemu_io.args(["-c", command]);
        }
        let finished = run(qemu_io.arg(&uri), LIMIT).expect_code(0);
        assert!(!finished.stdout.contains("failed"), "{finished:#?}");
    };
    qemu_io(&["write -P 7 0 4M", "flush"]);
    assert_eq!(occupied(&file), 4 * MIB);
    // Trim, zeroes that may be a hole, zeroes that keep their space, with FUA and without.
    qemu_io(&["discard 0 1M", "write -z -u 1M 1M", "write -z -f 2M 512k", "write -z 2560k 512k"]);
    assert_eq!(occupied(&file), 2 * MIB, "two ranges are holes, the others keep their space");
    qemu_io(&["read -P 0 0 3M", "read -P 7 3M 1M"]);
}

#[test]
fn requests_that_break_a_rule_have_the_error_of_the_protocol() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("disk");
    File::create(&path).and_then(|file| file.set_len(MIB)).expect("a file");
    for (spec, flags) in [
        ("memory:1MiB,ro".to_owned(), &["--listen", "127.0.0.1:0"][..]),
        (format!("file:{}", path.display()), &["--listen", "127.0.0.1:0", "--read-only"]),
    ] {
        let server = NbdServer::serve_with(&spec, flags);
        let mut client = RawClient::open(&server);
        assert_ne!(client.flags & transmission_flag::READ_ONLY, 0);
        assert_eq!(client.write(0, &[7; 4096]), 1, "EPERM");
        for refused in [command::TRIM, command::WRITE_ZEROES] {
            let cookie = client.send(refused, 0, 4096);
            assert_eq!(client.reply(), Some((1, cookie)), "EPERM");
        }
        assert_eq!(client.read(0, 4096), Ok(vec![0; 4096]), "the connection goes on");
    }
    let server = NbdServer::serve("memory:1MiB");
    let mut client = RawClient::open(&server);
    assert_eq!(client.write(MIB - 512, &[7; 1024]), 28, "a write behind the end: ENOSPC");
    assert_eq!(client.read(MIB - 512, 1024), Err(22), "EINVAL");
    assert_eq!(client.read(100, 512), Err(22), "no whole block");
    assert_eq!(client.write(0, &[7; 100]), 22, "no whole block");
    let cookie = client.send(99, 0, 512);
    assert_eq!(client.reply(), Some((22, cookie)), "an unknown command");
    let cookie = client.send(command::FLUSH, 0, 0);
    assert_eq!(client.reply(), Some((22, cookie)), "memory has no cache and announces no flush");
    assert_eq!(client.read(0, 512), Ok(vec![0; 512]));
}

#[test]
fn errors_of_the_device_are_answered_and_told() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("disk");
    File::create(&path).and_then(|file| file.set_len(MIB)).expect("a file");
    let file = path.display();
    let server =
        NbdServer::serve(&format!("file:{file},fault=read:lba=8-15,fault=full:lba=16-23,fault=sync:nth=1"));
    let mut client = RawClient::open(&server);
    assert_eq!(client.read(4096, 4096), Err(5), "EIO");
    assert_eq!(client.write(8192, &[7; 4096]), 28, "ENOSPC");
    let cookie = client.send(command::FLUSH, 0, 0);
    assert_eq!(client.reply(), Some((5, cookie)), "EIO");
    assert_eq!(client.read(0, 4096), Ok(vec![0; 4096]));
    let stderr = server.service.stderr();
    for words in ["Read of 4096 bytes at 4096 failed", "Write of 4096 bytes at 8192 failed", "Flush"] {
        assert!(stderr.contains(words), "{stderr}");
    }
    assert_eq!(stderr.lines().count(), 3, "{stderr}");
}

#[test]
fn data_on_a_file_are_there_for_others() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("disk");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).expect("a file");
    file.set_len(8 * MIB).expect("room");
    let server = NbdServer::serve(&format!("file:{}", path.display()));
    let mut client = RawClient::open(&server);
    for (seed, (offset_bytes, len)) in
        (1..).zip([(0, 512), (512, 4096), (MIB, 3 << 20), (8 * MIB - 512, 512)])
    {
        let data = pattern(seed, len);
        assert_eq!(client.write(offset_bytes, &data), 0);
        assert!(client.read(offset_bytes, len) == Ok(data.clone()), "{len} bytes at {offset_bytes}");
        let mut found = vec![0; len];
        file.read_exact_at(&mut found, offset_bytes).expect("the data");
        assert!(found == data, "{len} bytes at {offset_bytes} of the file");
    }
}
