//! Captures of devices: every packet is in the file or among those that are counted as lost.

use std::collections::BTreeSet;
use std::path::Path;

use e2e::process::until;
use e2e::{farlun, farlun_path, need, run, skip};
use serde_json::Value;

use super::room::{self, Rooms};
use super::taken::{Capture, LIMIT, available, files, is_over, packets, packets_so_far, talk, tshark};

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn two_devices_in_one_file_and_every_packet_is_accounted_for() {
    need!(room::available(), skip::program("tshark"));
    let (rooms, folder) = (Rooms::new(), tempfile::tempdir().expect("a folder"));
    let mut command = rooms.command(farlun_path());
    command.args(["capture", "--json", "-i", "first", "-i", "second", "-o"]).arg(folder.path());
    let before = ["first", "second"].map(|device| rooms.counted(device));
    let capture = Capture::start(&mut command);
    rooms.traffic("40M");
    let outcome = capture.end();
    let after = ["first", "second"].map(|device| rooms.counted(device));

    let [file] = &files(&outcome)[..] else { panic!("one file expected: {outcome}") };
    let frames =
        tshark(file, "frame", &["frame.interface_name", "frame.time_epoch", "frame.cap_len", "frame.len"]);
    for (index, device) in ["first", "second"].iter().enumerate() {
        let said = &outcome["interfaces"][index];
        assert_eq!(said["name"], *device);
        let dropped = number(&said["dropped_kernel"]) + number(&said["dropped_queue"]);
        assert_eq!(number(&said["accepted"]), after[index] - before[index], "the device's own count: {said}");
        assert_eq!(number(&said["packets"]) + dropped, number(&said["accepted"]), "{said}");
        let found = frames.iter().filter(|frame| frame[0] == *device).count() as u64;
        assert_eq!(found, number(&said["packets"]), "tshark's count");
        assert!(found > 100, "{found} packets are too few to compare");
    }
    // Stamps of one device may run backwards by a little; the other device's are merged in between.
    let times: Vec<f64> = frames.iter().map(|frame| frame[1].parse().expect("seconds")).collect();
    assert!(times.is_sorted_by(|a, b| *a <= *b + 0.05), "packets of both devices are in order");
    let kept = frames.iter().map(|frame| frame[2].parse::<usize>().expect("a length"));
    assert_eq!(kept.max(), Some(96));
    assert!(frames.iter().any(|frame| frame[3].parse::<usize>().is_ok_and(|len| len > 1514)));
    let said = run(farlun(["analyze", "--json"]).arg(file), LIMIT).expect_code(0).json();
    assert!(said["connections"].as_array().is_some_and(|found| found.len() >= 4), "{said}");
}

#[test]
fn a_device_that_goes_down_is_waited_for_and_one_that_is_removed_ends_the_capture() {
    need!(room::available());
    let (rooms, folder) = (Rooms::new(), tempfile::tempdir().expect("a folder"));
    let mut command = rooms.command(farlun_path());
    command.args(["capture", "--json", "-i", "first", "-o"]).arg(folder.path());
    let mut capture = Capture::start(&mut command);
    rooms.here("ip link set first down");
    until("it is told", LIMIT, || capture.0.stderr().contains("first is down"));
    rooms.here("ip link set first up");
    rooms.traffic("1M");
    rooms.here("ip link delete first");
    let outcome = capture.said();
    let said = capture.0.stderr();
    // One that is removed goes down first, which may be seen as well.
    assert!((1..=2).contains(&said.matches("is down: ").count()), "{said}");
    assert_eq!(said.matches("is gone: ").count(), 1, "{said}");
    assert!(number(&outcome["interfaces"][0]["packets"]) > 10, "{outcome}");
    assert_eq!(packets(&files(&outcome)[0]).len() as u64, number(&outcome["interfaces"][0]["packets"]));
}

/// What the last statistics in a file say that the system has dropped (isb_osdrop of pcapng).
fn dropped_in(file: &Path) -> Option<u64> {
    let bytes = std::fs::read(file).expect("a file");
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    let half = |at: usize| usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes")));
    let (mut at, mut dropped) = (0, None);
    while at < bytes.len() {
        let (kind, len) = (word(at), word(at + 4));
        // Type, length, interface and time lie before the options of statistics, and the length again behind them.
        let mut option = at + 20;
        while kind == 5 && option + 4 < at + len - 4 && half(option) != 0 {
            if half(option) == 7 {
                let value: [u8; 8] = bytes[option + 4..option + 12].try_into().expect("eight bytes");
                dropped = Some(u64::from_le_bytes(value));
            }
            option += 4 + half(option + 2).next_multiple_of(4);
        }
        at += len;
    }
    dropped
}

#[test]
fn what_the_ring_had_no_room_for_is_counted_and_the_count_is_in_the_file() {
    need!(available());
    const DATAGRAMS: u64 = 60_000;
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("a path of text");
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = receiver.local_addr().expect("an address");
    let filter = format!("udp dst port {}", address.port());
    let capture = Capture::on_loopback(&["-o", dir, "--filter", &filter, "--ring", "4MiB"]);
    let state = format!("/proc/{}/stat", capture.0.id());
    capture.0.signal("STOP");
    until("it has stopped", LIMIT, || std::fs::read_to_string(&state).is_ok_and(|it| it.contains(") T ")));
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    for _ in 0..DATAGRAMS {
        sender.send_to(&[7; 100], address).expect("a datagram");
    }
    capture.0.signal("CONT");
    let outcome = capture.end();
    let said = &outcome["interfaces"][0];
    let dropped = number(&said["dropped_kernel"]);
    assert!(dropped > 0 && number(&said["packets"]) > 0, "{said}");
    assert_eq!(number(&said["accepted"]), DATAGRAMS, "{said}");
    assert_eq!(number(&said["packets"]) + dropped + number(&said["dropped_queue"]), DATAGRAMS, "{said}");
    let file = &files(&outcome)[0];
    assert_eq!(packets(file).len() as u64, number(&said["packets"]));
    assert_eq!(dropped_in(file), Some(dropped));
}

#[test]
fn a_capture_ends_when_its_time_is_over() {
    need!(available());
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("a path of text");
    let outcome = Capture::on_loopback(&["-o", dir, "--time", "1s"]).said();
    assert!(outcome["seconds"].as_f64().is_some_and(|seconds| seconds >= 1.0), "{outcome}");
}

#[test]
fn a_filter_keeps_what_it_says_and_packets_are_counted_to_the_last() {
    need!(available(), skip::program("tshark"));
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("a path of text");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let filter = format!("tcp port {port} and not (udp or ip6) and host 127.0.0.1");
    let capture = Capture::on_loopback(&["-o", dir, "--filter", &filter, "--iscsi", "--snap", "64"]);
    talk(100_000);
    super::taken::talk_to(&listener, 100_000);
    talk(100_000);
    let outcome = capture.end();
    let file = &files(&outcome)[0];
    let fields = ["tcp.srcport", "tcp.dstport", "frame.cap_len", "tcp.hdr_len", "tcp.len"];
    let frames = tshark(file, "frame", &fields);
    assert_eq!(frames.len() as u64, number(&outcome["interfaces"][0]["packets"]));
    assert!(frames.len() > 5, "{outcome}");
    for frame in &frames {
        assert!(frame[0] == port || frame[1] == port, "{frame:?}");
        let [kept, headers, payload] = [2, 3, 4].map(|at| frame[at].parse::<usize>().expect("a length"));
        assert_eq!(kept, 34 + headers + payload.min(96), "{frame:?}");
    }

    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("a path of text");
    let mut capture = Capture::on_loopback(&["-o", dir, "--packets", "7", "--filter", &filter]);
    super::taken::talk_to(&listener, 1_000_000);
    let outcome = capture.said();
    assert_eq!(packets(&files(&outcome)[0]).len(), 7, "{outcome}");
}

#[test]
fn files_are_rotated_and_the_oldest_are_removed() {
    need!(available(), skip::program("tshark"));
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("a path of text");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let filter = format!("tcp port {}", listener.local_addr().expect("an address").port());
    let rotation = ["--rotate-size", "1MiB", "--files", "3", "--snap", "262144"];
    let capture = Capture::on_loopback(&[&["-o", dir, "--filter", &filter][..], &rotation].concat());
    super::taken::talk_to(&listener, 8 << 20);
    let outcome = capture.end();
    let said = files(&outcome);
    let there: BTreeSet<_> = std::fs::read_dir(folder.path())
        .expect("a folder")
        .map(|entry| entry.expect("a file").path())
        .collect();
    assert_eq!((said.len(), said.iter().cloned().collect::<BTreeSet<_>>()), (3, there), "{outcome}");
    assert!(number(&outcome["removed_files"]) >= 4, "{outcome}");
    for file in &said {
        assert!(file.metadata().expect("a file").len() <= 1 << 20, "{}", file.display());
        assert_eq!(tshark(file, "frame", &["frame.number"]).len(), packets(file).len());
    }
    // Whole packets: the last file ends with the end of the connection.
    let last = packets(&said[2]);
    assert!(last.iter().all(|(len, bytes)| *len == bytes.len()));
}

#[test]
fn a_capture_that_is_killed_leaves_a_whole_file() {
    need!(available());
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("a path of text");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let filter = format!("tcp port {}", listener.local_addr().expect("an address").port());
    let mut capture = Capture::on_loopback(&["-o", dir, "--filter", &filter]);
    let file = folder.path().join("capture-00001.pcapng");
    super::taken::talk_to(&listener, 1_000_000);
    until("packets are in the file", LIMIT, || is_over(&packets_so_far(&file)));
    capture.0.kill();
    assert!(is_over(&packets(&file)));
    // The next one leaves it alone.
    let outcome = Capture::on_loopback(&["-o", dir]).end();
    assert_eq!(files(&outcome), [folder.path().join("capture-00002.pcapng")]);
}

#[test]
fn what_cannot_be_captured_is_said_in_a_sentence() {
    need!(available());
    let refused = |flags: &[&str], code: i32, words: &str| {
        run(farlun(["capture"]).args(flags), LIMIT).expect_code(code).expect_said(words);
    };
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("a path of text");
    refused(&["-i", "nosuch0", "-o", dir], 2, "there is no device nosuch0; there are");
    refused(&["-i", "lo", "-i", "lo", "-o", dir], 2, "-i lo is there twice");
    refused(&["-i", "lo", "-o", dir, "--filter", "tcp prot 3"], 2, "'prot' in the filter, expected");
    refused(&["-i", "lo", "-o", dir, "--snap", "63"], 2, "63");
    refused(&["-i", "lo", "-o", dir, "--files", "3"], 2, "add --rotate-size or --rotate-time");
    refused(&["-i", "lo", "-o", dir, "--stamps", "hardware"], 2, "does not stamp");
    refused(&["-i", "lo", "-o", "/dev/null/x"], 1, "/dev/null/x");
    refused(&["-i", "lo", "--to", "127.0.0.1:1"], 1, "cannot record on 127.0.0.1:1");
    let nobody = e2e::path::as_nobody(farlun_path().to_str().expect("a path of text"));
    if e2e::path::available_to_nobody().is_ok() {
        let mut nobody = nobody;
        let finished = run(nobody.args(["capture", "-i", "lo", "-o", "/tmp"]), LIMIT);
        finished.expect_code(1).expect_said("needs root, or CAP_NET_RAW");
    }
    assert!(!Path::new("/tmp/capture-00001.pcapng").exists());
}
