//! `farlun analyze` against tshark and tcptrace on the same files: packets, round trips, bytes in flight, commands,
//! retransmissions. `stacks` has captures of several stacks and paths, `dropped` those that lack packets.

mod dropped;
mod stacks;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::image::Image;
use e2e::process::{output, until};
use e2e::tap::{LIMIT, Tap, analyzed, list, tshark};
use e2e::tgtd::{self, Tgtd};
use e2e::{Service, farlun, need, path, run, skip};
use serde_json::Value;

/// The capture in the order of its stamps. Packets of several processors stand in a file out of order by microseconds:
/// `farlun analyze` sorts them, and other tools take them as they stand.
fn in_order(file: &Path) -> PathBuf {
    let ordered = file.with_extension("ordered.pcap");
    output(Command::new("reordercap").arg(file).arg(&ordered));
    ordered
}

fn ns(seconds: &str) -> String {
    let seconds: f64 = seconds.parse().expect("a number of seconds");
    format!("{}", (seconds * 1e9).round())
}

/// Numbers, lengths and flags of every segment are those of tshark; so are round trips and bytes in flight if `all`. Where
/// tail probes `may_be` sent on a busy machine though nothing is lost, what they spoil is not told here.
fn compare_packets(file: &Path, all: bool, may_be: bool) {
    let fields = [
        "frame.number",
        "tcp.seq_raw",
        "tcp.len",
        "tcp.flags",
        "tcp.analysis.ack_rtt",
        "tcp.analysis.bytes_in_flight",
    ];
    let theirs = tshark(file, &[], "tcp", &fields);
    let ours = list(file, "packets");
    let again = ["fast", "timeout", "spurious", "local"];
    let probed = ours.iter().any(|row| again.contains(&row[7].as_str()));
    assert!(!all || may_be || !probed, "nothing is sent again where nothing is lost");
    assert!(ours.len() > 100, "{} packets are too few to compare", ours.len());
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let flags = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).expect("flags");
        let what = format!("ours {ours:?}\ntheirs {theirs:?}");
        assert_eq!((&ours[0], &ours[4], &ours[5]), (&theirs[0], &theirs[1], &theirs[2]), "{what}");
        assert_eq!(flags(&ours[6]), flags(&theirs[3]), "{what}");
        if all {
            let rtt = if theirs[4].is_empty() { String::new() } else { ns(&theirs[4]) };
            assert!(ours[8] == rtt || probed && ours[8].is_empty(), "{what}");
            assert!(theirs[5].is_empty() || ours[9] == theirs[5] || probed, "{what}");
        }
    }
}

/// tcptrace counts segments that it has seen before; here `unseen` ones fill gaps, which it calls out of order. To it a FIN
/// is a byte of data, also one that is sent again.
fn compare_retransmissions(file: &Path, connection: &Value) {
    let said = output(Command::new("tcptrace").args(["-n", "-l"]).arg(file));
    // "rexmt data pkts:   12   rexmt data pkts:   0", of both directions from the first packet's sender on.
    let line = said.lines().find(|line| line.contains("rexmt data pkts:")).expect("tcptrace counts them");
    let mut theirs = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let fins = tshark(file, &[], "tcp.flags.fin == 1 && tcp.len == 0", &["tcp.srcport"]);
    for direction in connection["directions"].as_array().expect("two directions") {
        let port = direction["from"].as_str().and_then(|from| from.rsplit(':').next()).expect("a port");
        let fins_again = fins.iter().filter(|fin| fin[0] == port).count().saturating_sub(1) as u64;
        let kinds = &direction["kinds"];
        let of = |name: &str| kinds[name].as_u64().expect("a count");
        let seen_before = of("fast") + of("timeout") + of("spurious") + of("local");
        assert_eq!(theirs.next(), Some(seen_before + fins_again), "{direction}\n{line}");
    }
    let all = connection["directions"][0]["retransmissions"].as_u64();
    assert!(all > Some(0), "nothing was lost: {connection}");
}

/// Packet of the response, packet of the command, service time of every command, as tshark says it.
fn their_commands(file: &Path, decode: &[&str]) -> BTreeSet<[String; 3]> {
    let fields = ["frame.number", "iscsi.request_frame", "iscsi.time"];
    let mut commands = BTreeSet::new();
    for row in tshark(file, decode, "iscsi.request_frame && iscsi.time", &fields) {
        for (request, time) in row[1].split(',').zip(row[2].split(',')) {
            commands.insert([row[0].clone(), request.to_owned(), ns(time)]);
        }
    }
    commands
}

fn our_commands(file: &Path) -> BTreeSet<[String; 3]> {
    let rows = list(file, "commands");
    rows.iter().map(|row| [row[8].clone(), row[7].clone(), row[9].clone()]).collect()
}

#[test]
fn a_clean_path_agrees_with_tshark_in_everything() {
    need!(path::available(), skip::program("tcpdump"), skip::program("tshark"), skip::program("reordercap"));
    let folder = tempfile::tempdir().expect("a folder");
    let tap = Tap { settings: [path::PATIENT_TCP; 2], ..Tap::default() };
    let file = in_order(&tap.capture(folder.path(), "clean"));
    compare_packets(&file, true, false);
    let (ours, theirs) = (our_commands(&file), their_commands(&file, &[]));
    assert!(ours.len() > 20, "{} commands are too few to compare", ours.len());
    assert_eq!(ours, theirs);

    // The same from the middle on: nothing is known of the login, and still every command is found.
    let middle = folder.path().join("middle.pcap");
    output(Command::new("editcap").args(["-F", "nsecpcap"]).arg(&file).arg(&middle).arg("1-200"));
    let capture = analyzed(&middle);
    let iscsi = &capture["connections"][0]["iscsi"];
    assert_eq!((&iscsi["login"], &iscsi["header_digest"]), (&false.into(), &false.into()), "{iscsi}");
    let begun_later = ours.iter().filter(|row| row[1].parse::<u64>().is_ok_and(|packet| packet > 200));
    let found = our_commands(&middle).len();
    let expected = begun_later.count();
    assert!((expected..=expected + 4).contains(&found), "{found} commands of {expected} and those in flight");

    // Cut off in the middle of a packet.
    let bytes = std::fs::read(&file).expect("a capture");
    let cut = folder.path().join("cut.pcap");
    std::fs::write(&cut, &bytes[..bytes.len() - 7]).expect("a file");
    let said = analyzed(&cut);
    assert!(said["cut"].as_str().is_some_and(|why| why.contains("ends at byte")), "{said}");
}

#[test]
fn with_loss_packets_and_retransmissions_agree_and_every_command_is_found() {
    need!(
        path::available(),
        skip::program("tcpdump"),
        skip::program("tshark"),
        skip::program("reordercap"),
        skip::program("tcptrace")
    );
    let folder = tempfile::tempdir().expect("a folder");
    let file = Tap {
        path: "--delay 4ms --rate 100mbit --loss 1%",
        load: "FARLUN bench URL --json --op write --overwrite --block 64KiB --depth 4 --time 1s",
        ..Tap::default()
    };
    let file = in_order(&file.capture(folder.path(), "loss"));
    compare_packets(&file, false, true);
    let capture = analyzed(&file);
    let connection = &capture["connections"][0];
    compare_retransmissions(&file, connection);
    let commands = &connection["iscsi"]["commands"];
    assert_eq!(commands["sent"], commands["completed"], "{commands}");
    assert!(commands["completed"].as_u64() > Some(20), "{commands}");
    assert_eq!(connection["iscsi"]["framing"][0]["lost_bytes"], 0, "{connection}");
}

#[test]
fn headers_alone_say_what_was_inferred() {
    need!(path::available(), skip::program("tcpdump"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = Tap {
        snap: 160,
        load: "FARLUN bench URL --json --op write --overwrite --block 64KiB --depth 4 --time 1s",
        ..Tap::default()
    };
    let file = file.capture(folder.path(), "headers");
    let capture = analyzed(&file);
    let connection = &capture["connections"][0];
    assert!(connection["directions"][0]["kept_share"].as_f64() < Some(0.2), "{connection}");
    let iscsi = &connection["iscsi"];
    // What the target says is small and wholly there; of the initiator's data most is hidden.
    assert_eq!(iscsi["framing"][1]["lost_bytes"], 0, "{iscsi}");
    let said = run(farlun(["analyze"]).arg(&file), LIMIT).expect_code(0).stdout;
    let hidden = iscsi["framing"][0]["inferred"].as_u64() > Some(0)
        || iscsi["framing"][0]["lost_bytes"].as_u64() > Some(0);
    assert_eq!(said.contains("are inferred"), hidden, "{said}");
    assert!(e2e::tap::count(&iscsi["commands"]["completed"]) > Some(20), "{iscsi}");
}

#[test]
fn libiscsi_against_tgt_with_r2ts_agrees_with_tshark() {
    need!(
        tgtd::available(),
        skip::program("tcpdump"),
        skip::program("tshark"),
        skip::program("reordercap"),
        skip::qemu_iscsi(),
        e2e::image::available()
    );
    let image = Image::ext4();
    let disk = image.file("tgt");
    std::fs::File::create(&disk).and_then(|file| file.set_len(64 << 20)).expect("a disk");
    let tgt = Tgtd::serve(&disk);
    let port = tgt.portal().rsplit(':').next().expect("a port").to_owned();
    let file = image.file("tgt.pcap");
    let mut dump = Command::new("tcpdump");
    dump.args(["-Z", "root", "-i", "lo", "-n", "-U", "-B", "65536", "--time-stamp-precision=nano", "-w"]);
    let mut dump = Service::start(dump.arg(&file).args(["tcp", "port", &port]));
    until("tcpdump listens", LIMIT, || dump.stderr().contains("listening on"));
    let write = ["-f", "raw", "-c", "write -P 7 0 4M", "-c", "read -P 7 1M 1M", &tgt.url(1)];
    output(Command::new("qemu-io").args(write));
    // The logout's last acknowledgement closes the connection.
    until("tcpdump has written the end", LIMIT, || {
        list(&file, "pdus").iter().any(|row| row[3] == "LogoutResponse")
    });
    dump.signal("INT");
    dump.ended(LIMIT);
    let file = in_order(&file);
    compare_packets(&file, true, true);
    let decode = format!("tcp.port=={port},iscsi");
    let (ours, theirs) = (our_commands(&file), their_commands(&file, &["-d", &decode]));
    assert!(!ours.is_empty());
    assert_eq!(ours, theirs);
    let capture = analyzed(&file);
    let mut told = capture["connections"].as_array().expect("connections").iter().map(|c| &c["iscsi"]);
    assert!(told.any(|iscsi| iscsi["commands"]["r2ts_per_write"]["max"].as_u64() > Some(0)), "{capture}");
}

#[test]
fn what_is_no_capture_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |path: &Path, word: &str| {
        run(farlun(["analyze"]).arg(path), LIMIT).expect_code(2).expect_sentence(&[word]);
    };
    let text = folder.path().join("text");
    refused(&text, "no such file");
    std::fs::write(&text, "no capture").expect("a file");
    refused(&text, "expected a pcap or pcapng file");
    std::fs::write(&text, "").expect("a file");
    refused(&text, "has 0 bytes");
    refused(folder.path(), "run.json");
}
