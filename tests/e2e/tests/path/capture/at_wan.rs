//! `farlun capture --at-wan`: both ends of an emulated path in one file.

use std::collections::HashMap;

use e2e::{farlun, farlun_path, need, path, run, skip};
use event::{Direction, Fate, Packet};
use serde_json::{Value, json};

use super::taken::{LIMIT, tshark};

#[test]
fn both_ends_see_every_packet_on_one_clock() {
    need!(path::available(), skip::program("tshark"), skip::program("iperf3"));
    let folder = tempfile::tempdir().expect("a folder");
    let (dir, trace) = (folder.path().join("capture"), folder.path().join("trace"));
    let mut command = farlun(["capture", "--at-wan", "--json", "-o"]);
    command.arg(&dir).args(["--", "--delay", "5ms", "--rate", "200mbit", "--loss", "near:0.5%", "--trace"]);
    command.arg(&trace).args([
        "--far",
        "iperf3 -s -1",
        "--",
        "iperf3",
        "-c",
        path::FAR,
        "-n",
        "8M",
        "-C",
        "cubic",
    ]);
    let finished = run(&mut command, LIMIT);
    assert_eq!(finished.code, 0, "{finished:#?}");
    let document = finished.json();
    assert_eq!(document["near"]["exit_code"], 0, "{document}");
    assert!(document["validity"].is_object(), "what farlun wan says is said as well: {document}");
    let capture = &document["capture"];
    let file = capture["files"][0].as_str().expect("a file").to_owned();
    let fields = [
        "frame.interface_name",
        "ip.src",
        "frame.time_epoch",
        "tcp.seq_raw",
        "tcp.len",
        "ip.id",
        "frame.len",
    ];
    let frames = tshark(file.as_ref(), "frame", &fields);

    // The table of the same run has a row for each, with the same times but for a constant.
    let table = tables::read::<Packet>(&trace).expect("a table");
    let delivered = table.fate.iter().filter(|fate| **fate == Fate::Delivered).count();
    let lost = table.fate.iter().filter(|fate| **fate == Fate::Lost).count();
    assert!(lost > 0 && delivered > 3000, "{lost} lost, {delivered} delivered");
    let sum =
        |of: &str| (0..2).filter_map(|end| capture["interfaces"][end][of].as_u64()).sum::<u64>() as usize;
    assert_eq!(sum("packets"), frames.len());
    // Packets that were under way when the path ended have a tap and no row. What found no room is counted.
    let (rows, dropped) = (table.fate.len() + delivered, sum("dropped_queue"));
    let seen = frames.len() + dropped;
    assert!((rows..rows + 50).contains(&seen), "{} frames, {dropped} dropped, {rows} expected", frames.len());

    // What one end sent the other got 5 ms later at the soonest, or never.
    let seconds = |frame: &[String]| frame[2].parse::<f64>().expect("seconds");
    assert!(frames.is_sorted_by(|a, b| seconds(a) <= seconds(b)), "in the order of time");
    let (mut sent, mut got) = (HashMap::new(), 0);
    // Packets with data: two of others may be the same in everything.
    for frame in frames.iter().filter(|frame| !matches!(frame[4].as_str(), "" | "0")) {
        let is_near = frame[0] == "near";
        assert!(is_near || frame[0] == "far", "{frame:?}");
        let key = (frame[1].clone(), frame[3].clone(), frame[4].clone(), frame[5].clone());
        let from_near = frame[1] != path::FAR;
        if is_near == from_near {
            sent.insert(key, seconds(frame));
        } else if let Some(then) = sent.get(&key) {
            got += 1;
            assert!(seconds(frame) - then > 0.004_999, "{frame:?}");
        }
    }
    let data = table.payload_bytes.iter().zip(&table.fate);
    let data = data.filter(|(bytes, fate)| **bytes > 0 && **fate == Fate::Delivered).count();
    assert!(got + dropped > 2000 && got + dropped + 50 >= data, "{got} of {data} are found at both ends");
    assert!(
        frames.iter().all(|frame| frame[6].parse::<u32>().is_ok_and(|len| len <= 1500)),
        "single packets"
    );

    // The gaps of a capture with two taps have what the path made of acknowledgements.
    let pages = folder.path().join("pages");
    let analyzed = run(farlun(["analyze", "--json", "--out"]).arg(&pages).arg(&file), LIMIT).json();
    assert_eq!(analyzed["gaps_of"]["two_taps"], true, "{}", analyzed["gaps_of"]);
    assert!(analyzed["gaps"]["compression"]["p50"].is_number(), "{}", analyzed["gaps"]);
    let page = std::fs::read_to_string(pages.join("report.html")).expect("a page");
    assert!(page.contains("id=\"fig-gaps-1-data-time\"") && page.contains("id=\"table-gaps\""));
    let one_end = ["analyze", "--json", "--interface", "near", "--packets"];
    let near = run(farlun(one_end).arg(&pages).arg(&file), LIMIT).json();
    assert_eq!((&near["gaps_of"]["two_taps"], &near["gaps"]["compression"]), (&false.into(), &Value::Null));

    // As a table: the segments of one tap, each once.
    let seen = tables::read::<Packet>(&pages).expect("a table");
    assert!(seen.fate.iter().all(|fate| *fate == Fate::Seen) && seen.ingress_t_ns == seen.egress_t_ns);
    assert_eq!(
        (seen.fate.len() as u64, &near["packets_table"]["rows"]),
        (rows_of(&near), &rows_of(&near).into())
    );
    assert_eq!(near["packets_table"]["hosts"], json!({"0": "198.18.0.1", "100": path::FAR}));
    let sent =
        seen.payload_bytes.iter().zip(&seen.direction).filter(|(_, way)| **way == Direction::NearToFar);
    assert!(sent.map(|(bytes, _)| u64::from(*bytes)).sum::<u64>() >= 4 << 20);
}

/// Segments of all connections that are told.
fn rows_of(analyzed: &Value) -> u64 {
    let connections = analyzed["connections"].as_array().into_iter().flatten();
    let each = |connection: &Value| {
        (0..2).filter_map(|way| connection["directions"][way]["packets"].as_u64()).sum::<u64>()
    };
    connections.map(each).sum()
}

/// The command ends when the packet that it sent is in the file, and sends nothing else meanwhile.
#[test]
fn the_last_packets_of_an_idle_path_are_in_the_file() {
    need!(path::available());
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("capture");
    let script = "from=$(stat -c %s $0); printf x >/dev/udp/198.18.0.2/9; for i in $(seq 600); do [ $(stat -c %s $0) -gt \
                  $from ] && exit 0; sleep 0.1; done; exit 1";
    let mut command = farlun(["capture", "--at-wan", "--json", "-o"]);
    command.arg(&dir).args(["--", "--delay", "5ms", "--", "bash", "-c", script]);
    command.arg(dir.join("capture-00001.pcapng"));
    let document = run(&mut command, LIMIT).json();
    assert_eq!(document["near"]["exit_code"], 0, "{document}");
}

#[test]
fn flags_for_the_path_are_checked_by_the_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("a path of text");
    let refused = |words: &[&str], said: &str| {
        let mut command = farlun(["capture", "--at-wan", "-o", dir]);
        run(command.args(words), LIMIT).expect_code(2).expect_said(said);
    };
    refused(&["--", "--delay", "never", "--", "true"], "never");
    refused(&[], "WAN");
    refused(&["-i", "lo", "--", "--", "true"], "--at-wan");
    assert!(farlun_path().exists());
}
