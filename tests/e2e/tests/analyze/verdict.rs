//! Captures of loads whose limiter is known, because it was put there: the verdict names it.
//!
//! All of them take minutes; without `FARLUN_LONG` some are tried.

use std::path::Path;

use e2e::{need, path, skip, tgtd};

use crate::tap::{At, Served, Tap, analyzed};

/// Right in so many of a hundred at least.
const RIGHT_PERCENT: usize = 90;

/// A capture, and the limiters of which one is right.
struct Case {
    name: &'static str,
    right: &'static [&'static str],
    tap: Tap<'static>,
}

const MS8: &str = "--delay 4ms --rate 1gbit --queue 2MB";

/// A load of our own on a path of 8 ms and 1 Gb/s.
fn case(name: &'static str, right: &'static [&'static str], load: &'static str) -> Case {
    Case { name, right, tap: Tap { path: MS8, complete: false, load, ..Tap::default() } }
}

fn served(mut case: Case, flags: &'static str) -> Case {
    case.tap.target = Served::Farlun(flags);
    case
}

fn on_path(mut case: Case, path: &'static str) -> Case {
    case.tap.path = path;
    case
}

/// What is tried in any case: one of each end, of TCP and of iSCSI.
fn short() -> Vec<Case> {
    let one = "FARLUN bench URL --json --op read --block 4KiB --depth 1 --time 1s";
    let four = "FARLUN bench URL --json --op read --block 4KiB --depth 4 --time 1s";
    let many = "FARLUN bench URL --json --op read --block 4KiB --depth 32 --random --time 1s";
    let bulk = "FARLUN bench URL --json --op read --block 1MiB --depth 8 --time 2s";
    vec![
        case("one read at a time", &["round-trip"], one),
        case("four reads at a time", &["caller-depth"], four),
        served(case("a window of four", &["command-window"], many), "--lun memory:64MiB --window 4"),
        served(case("a slow store", &["store-latency"], one), "--lun memory:64MiB,delay=read:20ms"),
        on_path(case("a full line", &["link-rate"], bulk), "--delay 4ms --rate 100mbit"),
        on_path(case("losses", &["loss"], bulk), "--delay 4ms --rate 1gbit --queue 2MB --loss 1%"),
    ]
}

/// The rest of the matrix.
fn long() -> Vec<Case> {
    let one_write = "FARLUN bench URL --json --op write --block 4KiB --depth 1 --time 1s";
    let four_writes = "FARLUN bench URL --json --op write --block 4KiB --depth 4 --time 1s";
    let many_writes = "FARLUN bench URL --json --op write --block 4KiB --depth 32 --random --time 1s";
    let bulk = "FARLUN bench URL --json --op read --block 1MiB --depth 8 --time 2s";
    let bulk_writes = "FARLUN bench URL --json --op write --block 1MiB --depth 8 --time 2s";
    let nagle = "--lun memory:64MiB --compat nagle,separate-status";
    let small = "FARLUN bench URL --json --op read --block 1KiB --depth 1 --time 1s";
    let slower = "FARLUN bench URL --json --op read --block 1MiB --depth 8 --time 4s";
    let held = "FARLUN bench URL --json --op read --block 2KiB --depth 1 --time 1s";
    let lossy = "--delay 4ms --rate 1gbit --queue 2MB --loss 1%";
    let narrow = "sysctl -qw net.ipv4.tcp_rmem='4096 32768 32768'";
    let mut cases = vec![
        case("one write at a time", &["round-trip"], one_write),
        case("four writes at a time", &["caller-depth"], four_writes),
        served(
            case("a window of eight, writes", &["command-window"], many_writes),
            "--lun memory:64MiB --window 8",
        ),
        served(
            case("a slow store, writes", &["store-latency"], four_writes),
            "--lun memory:64MiB,delay=write:20ms",
        ),
        on_path(case("a full line, writes", &["link-rate"], bulk_writes), "--delay 4ms --rate 100mbit"),
        on_path(case("losses, writes", &["loss"], bulk_writes), lossy),
        served(case("delayed acknowledgements", &["nagle"], small), nagle),
        served(
            case("status on its own", &["separate-status"], held),
            "--lun memory:64MiB --compat nagle,separate-status",
        ),
        on_path(
            case(
                "four reads over a longer way",
                &["caller-depth"],
                "FARLUN bench URL --json --op read --block 64KiB --depth 4 --time 2s",
            ),
            "--delay 20ms --rate 1gbit --queue 4MB",
        ),
    ];
    let r2t = |name, load| Case {
        name,
        right: &["r2t"],
        tap: Tap { path: MS8, target: Served::Tgt, complete: false, load, ..Tap::default() },
    };
    cases.push(r2t("R2Ts of tgt", "FARLUN bench URL --json --op write --block 1MiB --depth 1 --time 1s"));
    cases.push(r2t(
        "R2Ts of tgt with libiscsi",
        "for n in 1 2 3 4 5 6 7 8; do qemu-io -f raw -c 'write -P 7 0 4M' URL; done",
    ));
    let ring = on_path(
        served(case("a small ring", &["device-ring"], slower), "--lun memory:64MiB --no-pacing"),
        "--delay 50ms --rate 100mbit --queue 2MB --ring 80",
    );
    cases.push(Case { tap: Tap { at: At::Far, ..ring.tap }, ..ring });
    let window = case("a small window of the reader", &["receive-window"], bulk);
    cases.push(Case { tap: Tap { settings: [narrow, ""], ..window.tap }, ..window });
    let window = case("a small window of the target", &["receive-window"], bulk_writes);
    cases.push(Case { tap: Tap { settings: ["", narrow], ..window.tap }, ..window });
    cases
}

/// What the verdict is, and whether that is right.
fn judge(folder: &Path, case: &Case) -> (bool, String) {
    let (file, is_valid) = case.tap.judged(folder, &case.name.replace([' ', ','], "-"));
    let capture = analyzed(&file);
    let connections = capture["connections"].as_array().expect("connections");
    // What our own initiator asks first goes over a connection of its own.
    let completed = |c: &&serde_json::Value| c["iscsi"]["commands"]["completed"].as_u64();
    let busiest = connections.iter().max_by_key(completed).expect("a connection");
    let first = &busiest["diagnosis"]["verdicts"][0];
    let found = first["limiter"].as_str().unwrap_or("nothing").to_owned();
    let is_final = matches!(found.as_str(), "round-trip" | "link-rate");
    let remedies = first["remedies"].as_array().map_or(0, Vec::len);
    assert_eq!(remedies == 0, is_final, "{}: {first}", case.name);
    // What a machine that was too busy put there beside it may be named as well.
    let right = case.right.contains(&found.as_str()) || !is_valid;
    let about =
        format!("{}: {found} {} (expected {:?}, valid {is_valid})", case.name, first["share"], case.right);
    (
        right,
        if right {
            about
        } else {
            format!("{about}\n{}\n{}", busiest["iscsi"]["time"], busiest["diagnosis"])
        },
    )
}

#[test]
fn the_verdict_names_what_was_put_there() {
    need!(path::available(), skip::program("tcpdump"));
    let folder = tempfile::tempdir().expect("a folder");
    let mut cases = short();
    if std::env::var_os("FARLUN_LONG").is_some() {
        need!(tgtd::available(), skip::qemu_iscsi());
        cases.extend(long());
    }
    let judged: Vec<(bool, String)> = cases.iter().map(|case| judge(folder.path(), case)).collect();
    judged.iter().for_each(|(_, about)| println!("{about}"));
    let wrong =
        judged.iter().filter(|(right, _)| !right).map(|(_, about)| about.as_str()).collect::<Vec<_>>();
    let right = judged.len() - wrong.len();
    assert!(
        right * 100 >= judged.len() * RIGHT_PERCENT,
        "{right} of {} are right; wrong:\n{}",
        judged.len(),
        wrong.join("\n")
    );
}
