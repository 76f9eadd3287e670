//! Captures of several stacks over several paths: what is in them is found.

use std::path::Path;
use std::process::Command;

use e2e::process::output;
use e2e::{farlun, need, path, run, skip, tgtd};
use serde_json::Value;

use super::{in_order, our_commands, their_commands};
use e2e::tap::{At, LIMIT, Served, Tap, analyzed, count, list};

/// The connection that completed most commands.
fn busiest(capture: &Value) -> &Value {
    let connections = capture["connections"].as_array().expect("connections");
    let completed = |c: &&Value| count(&c["iscsi"]["commands"]["completed"]);
    connections.iter().max_by_key(completed).expect("a connection")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn reordering_is_no_loss() {
    need!(path::available(), skip::program("tcpdump"));
    let folder = tempfile::tempdir().expect("a folder");
    let tap = Tap { path: "--delay 4ms --rate 100mbit --reorder 2% --reorder-hold 1ms", ..Tap::default() };
    let capture = analyzed(&tap.capture(folder.path(), "reorder"));
    let connection = busiest(&capture);
    let kinds = &connection["directions"][1]["kinds"];
    assert!(number(&kinds["out_of_order"]) > 0, "{kinds}");
    assert_eq!(connection["iscsi"]["commands"]["sent"], connection["iscsi"]["commands"]["completed"]);
    assert_eq!(connection["iscsi"]["framing"][1]["lost_bytes"], 0, "{connection}");
}

#[test]
fn super_packets_and_headers_alone_at_depth_32() {
    need!(path::available(), skip::program("tcpdump"), skip::program("editcap"));
    let folder = tempfile::tempdir().expect("a folder");
    let load = "FARLUN bench URL --json --op read --block 4KiB --depth 32 --random --time 1s";
    let whole = Tap { at: At::Far, path: "--delay 4ms --rate 1gbit", load, ..Tap::default() };
    let whole = whole.capture(folder.path(), "depth32");
    let headers = folder.path().join("depth32-headers.pcap");
    output(Command::new("editcap").args(["-F", "nsecpcap", "-s", "96"]).arg(&whole).arg(&headers));
    let [full, cut] = [&whole, &headers].map(|file| analyzed(file));
    let [full, cut] = [busiest(&full), busiest(&cut)];
    assert!(number(&full["directions"][1]["super_packets"]) > 0, "{full}");
    let [full, cut] = [full, cut].map(|connection| &connection["iscsi"]);
    let (all, inferred) = (number(&cut["framing"][1]["pdus"]), number(&cut["framing"][1]["inferred"]));
    assert!(inferred * 2 > all, "{inferred} of {all} headers are inferred, most should be hidden");
    let said = run(farlun(["analyze"]).arg(&headers), LIMIT).expect_code(0).stdout;
    assert!(said.contains("are inferred"), "{said}");
    // Service times exist where both headers are visible, and are those of the whole packets.
    let services = |file| {
        let rows = list(file, "commands").into_iter().filter(|row| !row[9].is_empty());
        rows.map(|row| (row[7].clone(), row[9].clone())).collect::<std::collections::BTreeSet<_>>()
    };
    let (expected, found) = (services(&whole), services(&headers));
    let right = found.intersection(&expected).count();
    println!("{} commands, {} timed with headers alone", expected.len(), found.len());
    assert_eq!(right, found.len(), "wrong service times");
    for name in ["sent", "completed"] {
        let (number, bounds) = (number(&full["commands"][name]), &cut["commands"][name]);
        let [least, most] = match bounds.as_u64() {
            Some(exact) => [exact; 2],
            None => ["least", "most"].map(|bound| bounds[bound].as_u64().expect("commands are counted")),
        };
        assert!((least..=most).contains(&number), "{name}: {bounds}, in truth {number}");
    }
    assert_eq!(full["commands"]["inferred"], 0, "{full}");
}

#[test]
fn small_windows_show() {
    need!(path::available(), skip::program("tcpdump"));
    let folder = tempfile::tempdir().expect("a folder");
    let narrow = Tap {
        settings: ["sysctl -qw net.ipv4.tcp_rmem='4096 32768 32768'", ""],
        load: "FARLUN bench URL --json --op read --block 256KiB --depth 4 --time 1s",
        ..Tap::default()
    };
    let capture = analyzed(&narrow.capture(folder.path(), "narrow"));
    let direction = &busiest(&capture)["directions"][1];
    assert!(number(&direction["window_full"]) > 10, "{direction}");
    assert!(number(&direction["flight_max_bytes"]) <= 65_536, "{direction}");
    let few = Tap {
        target: Served::Farlun("--lun memory:64MiB --window 3"),
        load: "FARLUN bench URL --json --op read --block 4KiB --depth 16 --random --time 1s",
        ..Tap::default()
    };
    let capture = analyzed(&few.capture(folder.path(), "few"));
    let iscsi = &busiest(&capture)["iscsi"];
    assert_eq!(
        (&iscsi["window"]["largest"], &iscsi["commands"]["in_flight"]["max"]),
        (&3.into(), &3.into()),
        "{iscsi}"
    );
}

/// Without the login nobody says that there are digests: tshark loses PDUs, and here the commands are those that both
/// find in the whole capture.
fn from_the_middle_on(folder: &Path, whole: &Path) {
    let all = our_commands(whole);
    assert_eq!(all, their_commands(whole, &[]), "with its login");
    let middle = folder.join("digests-middle.pcap");
    output(Command::new("editcap").args(["-F", "nsecpcap"]).arg(whole).arg(&middle).arg("1-200"));
    let later = all.iter().filter(|row| row[1].parse::<u64>().is_ok_and(|packet| packet > 200)).count();
    let (ours, theirs) = (our_commands(&middle).len(), their_commands(&middle, &[]).len());
    println!("{ours} commands of {later} from the middle on, tshark finds {theirs}");
    // Each connection has some in flight at the cut, and one may be passed over until the place is found.
    assert!(ours + 4 >= later, "{ours} of {later}");
    assert!(theirs < later, "tshark finds all {theirs}: say so in docs/internals/analyze-checks.md");
}

#[test]
fn digests_nagle_and_two_sessions() {
    need!(
        path::available(),
        skip::program("tcpdump"),
        skip::program("tshark"),
        skip::program("reordercap"),
        skip::program("editcap")
    );
    let folder = tempfile::tempdir().expect("a folder");
    let digests = Tap {
        target: Served::Farlun("--lun memory:64MiB --digest crc32c"),
        load: "FARLUN bench URL --json --op read,write --overwrite --block 64KiB --depth 4 --sessions 2 --time 1s",
        ..Tap::default()
    };
    let file = in_order(&digests.capture(folder.path(), "digests"));
    let capture = analyzed(&file);
    let loaded = capture["connections"].as_array().expect("connections").iter();
    let loaded = loaded.filter(|c| c["iscsi"]["commands"]["completed"].as_u64() > Some(20));
    let mut sessions = 0;
    for connection in loaded {
        let iscsi = &connection["iscsi"];
        assert_eq!((&iscsi["header_digest"], &iscsi["data_digest"]), (&true.into(), &true.into()), "{iscsi}");
        assert_eq!(iscsi["commands"]["sent"], iscsi["commands"]["completed"], "{iscsi}");
        assert_eq!(
            (&iscsi["framing"][0]["lost_bytes"], &iscsi["framing"][1]["lost_bytes"]),
            (&0.into(), &0.into())
        );
        sessions += 1;
    }
    assert!(sessions >= 2, "{capture}");
    from_the_middle_on(folder.path(), &file);
    let nagle = Tap {
        target: Served::Farlun("--lun memory:64MiB --compat nagle,separate-status"),
        load: "FARLUN bench URL --json --op read --block 1KiB --depth 1 --time 2s",
        ..Tap::default()
    };
    let capture = analyzed(&nagle.capture(folder.path(), "nagle"));
    let connection = busiest(&capture);
    assert!(number(&connection["directions"][1]["nagle_stalls"]) > 5, "{connection}");
    assert!(number(&connection["iscsi"]["commands"]["status_alone"]["count"]) > 5, "{connection}");
}

#[test]
fn drops_of_the_senders_own_device_are_told_from_losses() {
    need!(path::available(), skip::program("tcpdump"));
    let folder = tempfile::tempdir().expect("a folder");
    let ring = Tap {
        at: At::Far,
        settings: [path::PATIENT_TCP; 2],
        path: "--delay 50ms --rate 100mbit --queue 2MB --ring 80",
        target: Served::Farlun("--lun memory:64MiB --no-pacing"),
        load: "FARLUN bench URL --json --op read --block 1MiB --depth 8 --time 4s",
        ..Tap::default()
    };
    let capture = analyzed(&ring.capture(folder.path(), "ring"));
    let direction = &busiest(&capture)["directions"][1];
    let (again, local) = (number(&direction["retransmissions"]), number(&direction["kinds"]["local"]));
    assert!(local > 0 && local * 2 > again, "{direction}");
}

#[test]
fn libiscsi_over_a_path_against_tgt() {
    need!(path::available(), tgtd::available(), skip::program("tcpdump"), skip::qemu_iscsi());
    let folder = tempfile::tempdir().expect("a folder");
    let tap = Tap {
        target: Served::Tgt,
        load: "qemu-io -f raw -c 'write -P 7 0 4M' -c 'read -P 7 1M 1M' URL",
        path: "--delay 4ms --rate 100mbit --loss 0.5%",
        ..Tap::default()
    };
    let capture = analyzed(&tap.capture(folder.path(), "libiscsi"));
    let iscsi = &busiest(&capture)["iscsi"];
    assert_eq!(iscsi["commands"]["sent"], iscsi["commands"]["completed"], "{iscsi}");
    assert!(number(&iscsi["commands"]["r2ts_per_write"]["max"]) > 1, "{iscsi}");
}

#[test]
fn a_ring_of_files_is_one_capture_and_a_page_shows_it() {
    need!(path::available(), skip::program("tcpdump"), skip::program("editcap"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = Tap::default().capture(folder.path(), "whole");
    let whole = analyzed(&file);
    let pieces = [("a.pcap", "-r", "1-300"), ("b.pcap", "", "1-300")].map(|(name, keep, range)| {
        let piece = folder.path().join(name);
        let mut editcap = Command::new("editcap");
        editcap.args(["-F", "nsecpcap"]).args((!keep.is_empty()).then_some(keep));
        output(editcap.arg(&file).arg(&piece).arg(range));
        piece
    });
    let out = folder.path().join("out");
    let mut command = farlun(["analyze", "--json", "--out"]);
    // In any order: what came first is known.
    let pieced = run(command.arg(&out).arg(&pieces[1]).arg(&pieces[0]), LIMIT).expect_code(0).json();
    assert_eq!(pieced["connections"], whole["connections"]);
    assert_eq!(pieced["paths"].as_array().map(Vec::len), Some(2));
    let page = std::fs::read_to_string(out.join("report.html")).expect("a page");
    for word in ["Verdict", "class=\"verdict\"", "fig-packets", "SCSI Command", "farlun analyze"] {
        assert!(page.contains(word), "no {word} in the page");
    }
}

#[test]
fn the_same_traffic_in_two_files_is_not_added_up() {
    need!(path::available(), skip::program("tcpdump"), skip::program("editcap"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = Tap::default().capture(folder.path(), "once");
    let connections = analyzed(&file)["connections"].clone();
    // At the same time, and by the clock of a host that is an hour late.
    let late = folder.path().join("late.pcap");
    output(Command::new("editcap").args(["-F", "nsecpcap", "-t", "3600"]).arg(&file).arg(&late));
    for again in [&file, &late] {
        let both = run(farlun(["analyze", "--json"]).arg(again).arg(&file), LIMIT).expect_code(0).json();
        let [first, second] = [0, 1].map(|n| &both["captures"][n]);
        assert_eq!((&first["connections"], &first["shared"]), (&connections, &serde_json::json!([])));
        let all = connections.as_array().map(Vec::len);
        assert_eq!(second["shared"], serde_json::json!([{"capture": 0, "connections": all}]), "{both}");
        assert_eq!(second["connections"].as_array().map(Vec::len), all);
        let said = run(farlun(["analyze"]).arg(again).arg(&file), LIMIT).expect_code(0).stdout;
        assert!(said.contains("the same traffic at another tap"), "{said}");
    }
}
