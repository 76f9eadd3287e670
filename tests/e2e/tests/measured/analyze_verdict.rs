//! Captures of loads whose limiter is known, because it was put there: the verdict names it.
//!
//! All of them take minutes; without `FARLUN_LONG` some are tried.

use std::path::Path;

use e2e::tap::{At, Served, Tap, analyzed};
use e2e::{decide, need, path, skip, tgtd};

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
        case("four reads at a time", &["queue-depth"], four),
        served(case("a window of four", &["command-window"], many), "--lun memory:64MiB --window 4"),
        served(case("a slow store", &["store-latency"], one), "--lun memory:64MiB,delay=read:20ms"),
        on_path(case("a full line", &["link-rate"], bulk), "--delay 4ms --rate 100mbit"),
        on_path(case("losses", &["loss"], bulk), "--delay 4ms --rate 1gbit --queue 2MB --loss 1%"),
    ]
}

/// The rest of the matrix.
fn long() -> Vec<Case> {
    let one_write = "FARLUN bench URL --json --op write --overwrite --block 4KiB --depth 1 --time 1s";
    let four_writes = "FARLUN bench URL --json --op write --overwrite --block 4KiB --depth 4 --time 1s";
    let many_writes =
        "FARLUN bench URL --json --op write --overwrite --block 4KiB --depth 32 --random --time 1s";
    let bulk = "FARLUN bench URL --json --op read --block 1MiB --depth 8 --time 2s";
    let bulk_writes = "FARLUN bench URL --json --op write --overwrite --block 1MiB --depth 8 --time 2s";
    let nagle = "--lun memory:64MiB --compat nagle,separate-status";
    let small = "FARLUN bench URL --json --op read --block 1KiB --depth 1 --time 1s";
    let slower = "FARLUN bench URL --json --op read --block 1MiB --depth 8 --time 4s";
    let held = "FARLUN bench URL --json --op read --block 2KiB --depth 1 --time 1s";
    let lossy = "--delay 4ms --rate 1gbit --queue 2MB --loss 1%";
    let narrow = "sysctl -qw net.ipv4.tcp_rmem='4096 32768 32768'";
    let mut cases = vec![
        case("one write at a time", &["round-trip"], one_write),
        case("four writes at a time", &["queue-depth"], four_writes),
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
                &["queue-depth"],
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
    cases.push(r2t(
        "R2Ts of tgt",
        "FARLUN bench URL --json --op write --overwrite --block 1MiB --depth 1 --time 1s",
    ));
    cases.push(r2t(
        "R2Ts of tgt with libiscsi",
        "for n in 1 2 3 4 5 6 7 8; do qemu-io -f raw -c 'write -P 7 0 4M' URL; done",
    ));
    let ring = on_path(
        served(case("a small ring", &["device-queue"], slower), "--lun memory:64MiB --no-pacing"),
        "--delay 50ms --rate 100mbit --queue 2MB --ring 80",
    );
    cases.push(Case { tap: Tap { at: At::Far, ..ring.tap }, ..ring });
    let window = case("a small window of the reader", &["receive-window"], bulk);
    cases.push(Case { tap: Tap { settings: [narrow, ""], ..window.tap }, ..window });
    let window = case("a small window of the target", &["receive-window"], bulk_writes);
    cases.push(Case { tap: Tap { settings: ["", narrow], ..window.tap }, ..window });
    cases
}

/// Verdict on one case: it is right, the validity of its run, and the verdict in words.
fn judge(folder: &Path, case: &Case) -> (bool, Result<(), String>, String) {
    let (file, validity) = case.tap.judged(folder, &case.name.replace([' ', ','], "-"));
    let capture = analyzed(&file);
    let connections = capture["connections"].as_array().expect("connections");
    // What our own initiator asks first goes over a connection of its own.
    let completed = |c: &&serde_json::Value| e2e::tap::count(&c["iscsi"]["commands"]["completed"]);
    let busiest = connections.iter().max_by_key(completed).expect("a connection");
    let first = &busiest["diagnosis"]["verdicts"][0];
    let found = first["limiter"].as_str().unwrap_or("nothing").to_owned();
    let remedies = first["remedies"].as_array().map_or(0, Vec::len);
    assert_eq!(remedies == 0, found == "link-rate", "{}: {first}", case.name);
    let right = case.right.contains(&found.as_str());
    let about = format!("{}: {found} {} (expected {:?})", case.name, first["share"], case.right);
    let about = match right {
        true => about,
        false => format!("{about}\n{}\n{}", busiest["iscsi"]["time"], busiest["diagnosis"]),
    };
    (right, validity, about)
}

#[test]
fn the_verdict_names_what_was_put_there() {
    need!(path::available(), skip::program("tcpdump"));
    let _turn = path::turn();
    let folder = tempfile::tempdir().expect("a folder");
    let mut cases = short();
    if skip::is_long() {
        need!(tgtd::available(), skip::qemu_iscsi());
        cases.extend(long());
    }
    let judged: Vec<_> = cases.iter().map(|case| judge(folder.path(), case)).collect();
    judged.iter().for_each(|(.., about)| println!("{about}"));
    // A busy machine adds limiters of its own: what it spoiled is undecided, each case by itself.
    let spoilt = judged.iter().filter(|(right, validity, _)| !right && validity.is_err());
    spoilt.for_each(|(right, validity, about)| decide!(*right, validity.clone(), "{about}"));
    let counted = judged.iter().filter(|(right, validity, _)| *right || validity.is_ok());
    let wrong: Vec<&str> =
        counted.clone().filter(|(right, ..)| !right).map(|(.., about)| about.as_str()).collect();
    let all = counted.count();
    decide!(
        (all - wrong.len()) * 100 >= all * RIGHT_PERCENT,
        Ok(()),
        "{} of {all} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
