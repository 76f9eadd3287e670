//! What every command promises: help with an example, one JSON document, and a target that is careful by default.

use std::time::Duration;

use serde_json::Value;

use e2e::ours::Target;
use e2e::tgtd::{self, Tgtd};
use e2e::{farlun, image, need, run};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn help_shows_an_example() {
    for command in [
        "lab", "target", "ls", "inquiry", "read", "write", "discard", "bench", "stream", "wan", "report",
        "compare",
    ] {
        let help = run(&mut farlun([command, "--help"]), MINUTE).expect_code(0);
        assert!(help.stdout.contains("Example"), "`farlun {command} --help` has no example\n{}", help.stdout);
        assert!(help.stdout.contains("--json"), "`farlun {command}` has no --json\n{}", help.stdout);
    }
}

#[test]
fn bench_prints_one_document() {
    let target = Target::serve(&["memory:64MiB"]);
    for shape in [
        ["--op", "read", "--block", "4KiB", "--depth", "32", "--random"],
        ["--op", "write", "--block", "1MiB", "--depth", "4", "--overwrite"],
    ] {
        let mut bench = farlun(["bench", &target.url(0), "--json", "--time", "2s"]);
        let finished = run(bench.args(shape), MINUTE).expect_code(0);
        let document = finished.json();
        assert_eq!(document["kind"], "bench", "{document}");
        assert_eq!(document["op"], shape[1], "{document}");
        for figure in ["bytes", "ios", "iops", "bytes_per_s", "base_rtt_ns", "turnaround_rtt"] {
            assert!(document[figure].as_f64() > Some(0.0), "`{figure}` is no figure: {document}");
        }
        let latency = |name: &str| document["latency_ns"][name].as_f64().expect("a latency");
        let rising = ["min", "p50", "p90", "p99", "p999", "max"].map(latency);
        assert!(rising.is_sorted(), "percentiles rise: {document}");
        assert!(document["cpu"]["near_ns_per_io"].as_f64() > Some(0.0), "{document}");
        assert!(
            document["cpu"]["far_ns_per_io"].as_f64() > Some(0.0),
            "our own kind tells what it cost: {document}"
        );
    }
}

#[test]
fn a_load_writes_only_where_it_was_allowed_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    std::fs::write(&disk, vec![0x5a; 1 << 20]).expect("a disk");
    let before = image::sha256(&disk);
    let target = Target::serve(&[&format!("file:{}", disk.display())]);
    let bench = |flags: &[&str]| {
        run(farlun(["bench", &target.url(0), "--block", "64KiB", "--time", "300ms"]).args(flags), MINUTE)
    };
    for op in ["write", "read,write"] {
        bench(&["--op", op]).expect_code(2).expect_sentence(&["expected --overwrite"]);
    }
    bench(&[]).expect_code(0);
    assert_eq!(image::sha256(&disk), before, "written to without --overwrite");
    bench(&["--op", "write", "--overwrite"]).expect_code(0);
    assert_ne!(image::sha256(&disk), before, "nothing was written with --overwrite");

    let help = run(&mut farlun(["bench", "--help"]), MINUTE).stdout;
    let examples: Vec<&str> =
        help.lines().map(str::trim).filter(|line| line.starts_with("farlun bench ")).collect();
    assert!(!examples[0].contains("write"), "the first example only reads: {examples:?}");
    let writes = examples.iter().filter(|line| line.contains("write"));
    assert!(
        writes.clone().count() > 0 && writes.clone().all(|line| line.contains("--overwrite")),
        "{examples:?}"
    );
}

#[test]
fn bench_says_it_to_people_too() {
    let target = Target::serve(&["memory:64MiB"]);
    let finished = run(&mut farlun(["bench", &target.url(0), "--time", "1s"]), MINUTE).expect_code(0);
    for word in ["MB/s", "per second", "p50", "p99"] {
        assert!(finished.stdout.contains(word), "`{word}` is missing\n{finished:#?}");
    }
}

#[test]
fn times_that_leave_no_time_are_bad_usage() {
    let target = Target::serve(&["memory:1MiB"]);
    for time in ["0", "999us"] {
        for command in ["ls", "inquiry", "bench"] {
            let finished = run(&mut farlun([command, &target.url(0), "--timeout", time]), MINUTE);
            finished.expect_code(2).expect_sentence(&["at least 1ms"]);
        }
    }
    for format in [&["--json"][..], &[]] {
        let mut bench = farlun(["bench", &target.url(0), "--time", "1ns"]);
        let finished = run(bench.args(format), MINUTE).expect_code(2);
        assert_eq!(finished.stdout, "", "there is no figure");
        finished.expect_sentence(&["too short"]);
    }
}

#[test]
fn discovery_and_inquiry_as_json() {
    let target = Target::serve(&["memory:64MiB", "memory:32MiB"]);
    let listed = run(&mut farlun(["ls", &target.portal(), "--json"]), MINUTE).expect_code(0).json();
    let text = listed.to_string();
    assert!(text.contains(target.iqn()) && text.contains(target.address()), "{listed}");
    let described = run(&mut farlun(["inquiry", &target.url(1), "--json"]), MINUTE).expect_code(0).json();
    assert!(
        described.to_string().contains(&(32_u64 << 20).to_string()),
        "the size in bytes is told: {described}"
    );
}

#[test]
fn who_moves_nothing_records_nothing_and_says_so() {
    let target = Target::serve(&["memory:1MiB"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path().join("trace");
    for command in ["ls", "inquiry"] {
        let finished = run(farlun([command, &target.url(0), "--trace"]).arg(&dir), MINUTE);
        finished.expect_code(2).expect_said("unexpected argument '--trace'");
        assert!(!dir.exists(), "{command} left a directory behind");
    }
}

#[test]
fn ready_line_tells_what_is_served() {
    let target = Target::serve(&["memory:64MiB", "memory:1GiB"]);
    let luns = target.ready["luns"].as_array().expect("a list of LUNs");
    let seen: Vec<(&Value, &Value, &Value)> =
        luns.iter().map(|lun| (&lun["lun"], &lun["bytes"], &lun["kind"])).collect();
    let expected = [(0, 64_u64 << 20, "memory"), (1, 1 << 30, "memory")];
    assert_eq!(seen.len(), expected.len());
    for (seen, expected) in seen.iter().zip(expected) {
        assert_eq!((seen.0, seen.1, seen.2), (&expected.0.into(), &expected.1.into(), &expected.2.into()));
    }
    assert!(target.iqn().starts_with("iqn.2026-11.io.farlun:"), "{}", target.iqn());
}

#[test]
fn a_target_without_authentication_stays_on_loopback() {
    let finished = run(&mut farlun(["target", "--lun", "memory:1MiB", "--listen", "0.0.0.0:0"]), MINUTE);
    finished.expect_code(2).expect_sentence(&["--insecure"]);
}

#[test]
fn random_requests_do_not_flood_a_near_target() {
    let target = Target::serve(&["memory:64MiB"]);
    let bench = |flags: &[&str]| {
        let mut bench = farlun(["bench", &target.url(0), "--block", "4KiB", "--time", "300ms"]);
        run(bench.args(flags), MINUTE).expect_code(0)
    };
    let document = bench(&["--random", "--json"]).json();
    let most = document["most_outstanding"].as_u64().expect("a number");
    // Eight times as many as a path needs that has no length: the round trip of a busy machine is long.
    assert!((32..=256).contains(&most), "{document}");
    let said = bench(&["--random"]).stdout;
    assert!(said.contains("outstanding: follows the path, ") && said.contains("latency"), "{said}");
    assert_eq!(bench(&["--random", "--depth", "4", "--json"]).json()["most_outstanding"], Value::Null);
}

#[test]
fn luns_that_take_no_writes_are_shown_as_such() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    std::fs::write(&disk, vec![0; 1 << 20]).expect("a disk");
    let target = Target::serve(&["memory:1MiB", &format!("file:{},ro", disk.display())]);
    let listed = run(&mut farlun(["ls", &target.portal(), "--json"]), MINUTE).expect_code(0).json();
    let luns = listed["targets"][0]["luns"].as_array().expect("LUNs").clone();
    let seen: Vec<_> = luns.iter().map(|lun| (&lun["kind"], &lun["write_protected"])).collect();
    let disk = Value::from("disk");
    assert_eq!(seen, [(&disk, &Value::from(false)), (&disk, &Value::from(true))], "{listed}");
    let said = run(&mut farlun(["ls", &target.portal()]), MINUTE).expect_code(0).stdout;
    let marked = said.lines().filter(|line| line.ends_with("/1  write-protected")).count();
    assert_eq!((marked, said.matches("write-protected").count()), (1, 1), "{said}");
    for (lun, is_protected) in [(0, false), (1, true)] {
        let document =
            run(&mut farlun(["inquiry", &target.url(lun), "--json"]), MINUTE).expect_code(0).json();
        assert_eq!(document["write_protected"], is_protected, "{document}");
    }
}

#[test]
fn a_controller_is_listed_as_one() {
    need!(tgtd::available());
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    std::fs::File::create(&disk).and_then(|file| file.set_len(16 << 20)).expect("a disk");
    let tgtd = Tgtd::serve(&disk);
    let listed = run(&mut farlun(["ls", &tgtd.portal(), "--json"]), MINUTE).expect_code(0).json();
    let luns = &listed["targets"][0]["luns"];
    assert_eq!(
        (&luns[0]["kind"], &luns[0]["bytes"]),
        (&Value::from("a controller"), &Value::Null),
        "{listed}"
    );
    assert_eq!((&luns[1]["kind"], &luns[1]["bytes"]), (&"disk".into(), &(16_u64 << 20).into()), "{listed}");
    let said = run(&mut farlun(["ls", &tgtd.portal()]), MINUTE).expect_code(0).stdout;
    assert!(said.contains("LUN 0     a controller  iscsi://"), "{said}");
}
