//! Files of captures as people have them: compressed, piped, of one direction each, one of several unreadable.

#[path = "../../../../../crates/dissect/tests/events/scene.rs"]
mod scene;
#[path = "../../../../../crates/dissect/tests/tap/mod.rs"]
mod tap;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use e2e::{Finished, farlun, farlun_path, need, run, skip};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);
/// One write of a small connection, ten packets.
const CAPTURE: &[u8] = include_bytes!("../../../../../fuzz/corpus/capture/write");
const HEADER_LEN: usize = 24;
const RECORD_LEN: usize = 16;
/// Last byte of the sender's address, behind Ethernet.
const SENDER: usize = RECORD_LEN + 14 + 15;

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("farlun-captures-").tempdir().expect("a temporary folder")
}

/// Records of the capture with their headers.
fn records() -> Vec<&'static [u8]> {
    let (mut records, mut rest) = (Vec::new(), &CAPTURE[HEADER_LEN..]);
    while !rest.is_empty() {
        let kept: [u8; 4] = rest[8..12].try_into().expect("a length");
        // Small lengths tell the byte order.
        let len = RECORD_LEN + u32::from_be_bytes(kept).min(u32::from_le_bytes(kept)) as usize;
        let (record, behind) = rest.split_at(len);
        records.push(record);
        rest = behind;
    }
    records
}

fn write(folder: &Path, name: &str, wanted: impl Fn(&[u8]) -> bool) -> PathBuf {
    let mut bytes = CAPTURE[..HEADER_LEN].to_vec();
    records().into_iter().filter(|record| wanted(record)).for_each(|record| bytes.extend(record));
    let path = folder.join(name);
    fs::write(&path, bytes).expect("a file");
    path
}

fn analyze(paths: &[&Path]) -> Finished {
    run(farlun(["analyze", "--json"]).args(paths), LIMIT)
}

/// The only connection of the only capture has its command.
#[track_caller]
fn expect_whole(document: &Value) {
    let connections = document["connections"].as_array().expect("one capture");
    assert_eq!(connections.len(), 1, "{document}");
    assert_eq!(connections[0]["iscsi"]["commands"]["completed"], 1, "{document}");
}

#[test]
fn compressed_files_and_pipes_are_read() {
    need!(
        skip::program("gzip"),
        skip::program("zstd"),
        skip::program("xz"),
        skip::program("lz4"),
        skip::program("bzip2")
    );
    let folder = folder();
    write(folder.path(), "plain.pcap", |_| true);
    let bin = farlun_path().display().to_string();
    let shell =
        |script: &str| run(Command::new("bash").args(["-c", script]).current_dir(folder.path()), LIMIT);
    for (program, suffix) in [("gzip", "gz"), ("zstd -q", "zst"), ("xz", "xz"), ("lz4 -q", "lz4")] {
        shell(&format!("{program} -c plain.pcap > c.{suffix}")).expect_code(0);
        let compressed = folder.path().join(format!("c.{suffix}"));
        expect_whole(&analyze(&[&compressed]).expect_code(0).json());
        expect_whole(&shell(&format!("{bin} analyze - --json < c.{suffix}")).expect_code(0).json());
        // A damaged end: the packets before it count.
        let bytes = fs::read(&compressed).expect("a file");
        fs::write(folder.path().join("cut"), &bytes[..bytes.len() - 9]).expect("a file");
        let finished = shell(&format!("{bin} analyze cut --json"));
        if finished.code == 0 {
            let document = finished.json();
            assert!(document["cut"].is_string(), "{program}: {document}");
        } else {
            // The only block of the archive is damaged: nothing of it can be had.
            finished.expect_code(1).expect_sentence(&["cannot read cut"]);
        }
    }
    expect_whole(&shell(&format!("cat plain.pcap | {bin} analyze --json -")).expect_code(0).json());
    // Pipes among several are read once.
    let mixed =
        shell(&format!("{bin} analyze --json <(gzip -c plain.pcap) <(tail -c 3 plain.pcap)")).expect_code(1);
    expect_whole(&mixed.json());
    shell("bzip2 -k plain.pcap").expect_code(0);
    let refused = run(farlun(["analyze"]).arg(folder.path().join("plain.pcap.bz2")), LIMIT);
    refused.expect_code(2).expect_sentence(&["bzip2 -dc", "farlun analyze -"]);
    let twice = shell(&format!("{bin} analyze - --out page < plain.pcap")).expect_code(2);
    twice.expect_sentence(&["standard input"]);
}

#[test]
fn one_unreadable_file_does_not_stop_the_others() {
    let folder = folder();
    let plain = write(folder.path(), "plain.pcap", |_| true);
    let [picture, nowhere] = ["a.gif", "nowhere"].map(|name| folder.path().join(name));
    fs::write(&picture, b"GIF89a").expect("a file");
    let finished = analyze(&[&picture, &plain, &nowhere]).expect_code(1);
    let document = finished.json();
    expect_whole(&document);
    assert_eq!(document["unreadable"].as_array().map(Vec::len), Some(2), "{document}");
    for path in [&picture, &nowhere] {
        assert!(finished.stderr.contains(&path.display().to_string()), "{finished:#?}");
    }
    analyze(&[&picture, &nowhere]).expect_code(2);
}

#[test]
fn files_of_one_direction_each_are_one_capture() {
    let folder = folder();
    let sides = [("tx.pcap", 1), ("rx.pcap", 2)]
        .map(|(name, sender)| write(folder.path(), name, |record| record[SENDER] == sender));
    let [sent, received] = &sides;
    for paths in [[sent, received], [received, sent]] {
        let document = analyze(&paths.map(PathBuf::as_path)).expect_code(0).json();
        expect_whole(&document);
        let notes = document["notes"][0].as_str().expect("a note");
        assert!(notes.contains("tx.pcap") && notes.contains("joined"), "{notes}");
        let names: Vec<_> =
            document["interfaces"].as_array().expect("two").iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["tx.pcap", "rx.pcap"], "{document}");
        let out = folder.path().join("page");
        run(farlun(["analyze", "--out"]).arg(&out).args(paths), LIMIT).expect_code(0);
        assert!(out.join("report.html").is_file());
    }
    let alone = analyze(&[sent]).expect_code(0).json();
    assert_eq!(alone["connections"][0]["one_direction"], true, "{alone}");
    let text = run(farlun(["analyze"]).arg(sent), LIMIT).expect_code(0).stdout;
    assert!(text.contains("only packets from 10.0.0.1:40000 to 10.0.0.2:3260"), "{text}");
}

#[test]
fn events_are_in_text_document_and_page() {
    let folder = folder();
    let path = folder.path().join("events.pcap");
    // Nanoseconds, Ethernet.
    let mut bytes = [0xa1b2_3c4d_u32, 0x0002_0004, 0, 0, 262_144, 1].map(u32::to_be_bytes).concat();
    for (t_ns, frame) in scene::frames() {
        let kept = frame.len() as u64;
        let words = [t_ns / 1_000_000_000, t_ns % 1_000_000_000, kept, kept];
        bytes.extend(words.map(|word| (word as u32).to_be_bytes()).concat());
        bytes.extend(frame);
    }
    fs::write(&path, bytes).expect("a file");
    let out = folder.path().join("page");
    let text = run(farlun(["analyze", "--out"]).arg(&out).arg(&path), LIMIT).expect_code(0).stdout;
    let page = fs::read_to_string(out.join("report.html")).expect("a page");
    let document = analyze(&[&path]).expect_code(0).json();
    let events = document["events"].as_array().expect("events");
    assert!(events.len() > 15, "{events:#?}");
    for event in events {
        let name = event["name"].as_str().expect("a name");
        let packet = format!("packet {}", event["example"]["packet"]);
        // Both sides may have events of one name.
        let has_row = text.lines().any(|line| line.contains(name) && line.contains(&packet));
        assert!(has_row, "no row of {event}:\n{text}");
        assert!(page.contains(name), "the page lacks {name}");
    }
}

#[test]
fn a_capture_without_tcp_says_its_contents() {
    let folder = folder();
    let path = folder.path().join("arp.pcap");
    let mut bytes = CAPTURE[..HEADER_LEN].to_vec();
    for record in records() {
        let mut record = record.to_vec();
        record[RECORD_LEN + 13] = 6;
        bytes.extend(record);
    }
    fs::write(&path, bytes).expect("a file");
    let text = run(farlun(["analyze"]).arg(&path), LIMIT).expect_code(0).stdout;
    assert!(
        text.contains("0 TCP connections") && text.contains("packets that are not TCP: ARP 10"),
        "{text}"
    );
}
