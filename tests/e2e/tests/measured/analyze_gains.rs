//! Predicted gains of `farlun analyze` against interventions: one stack, one path, with and without a limiter.
//!
//! The capture with the limiter is analysed; both captures say how fast the load was. `--long`: all of it takes minutes.

use std::path::Path;

use e2e::tap::{At, Served, Tap, analyzed};
use e2e::{decide, need, path, skip, tgtd};
use serde_json::Value;

/// Round trip and rate of the paths.
const PATHS: [(&str, &str); 3] = [
    ("10 ms, 100 Mb/s", "--delay 5ms --rate 100mbit"),
    ("20 ms, 1 Gb/s", "--delay 10ms --rate 1gbit --queue 4MB"),
    ("100 ms, 200 Mb/s", "--delay 50ms --rate 200mbit --queue 4MB"),
];
/// Flags of the path with a long round trip.
const LONG_WAY: &str = "--delay 50ms";
/// Gain of an intervention that counts.
const GAIN: f64 = 1.25;
/// Percent of the gains that have to have a figure, and of those figures that have to be right.
const FIGURES_PERCENT: usize = 80;
const RIGHT_PERCENT: usize = 85;
/// Ratios of a right figure to the gain that follows.
const RATIO: std::ops::RangeInclusive<f64> = 0.8..=1.25;
/// Bytes of a packet that tell how fast a load was.
const SNAP: usize = 160;

/// One load, with and without a limiter.
struct Pair {
    name: &'static str,
    /// Paths that it is tried on, by their place in [`PATHS`].
    paths: &'static [usize],
    /// Names of the limiter.
    right: &'static [&'static str],
    limited: Setup<'static>,
    free: Setup<'static>,
    at: At,
}

/// Load, target, and settings of both hosts.
#[derive(Clone, Copy)]
struct Setup<'a> {
    load: &'a str,
    serve: Serve,
    near: &'static str,
    far: &'static str,
    /// Further flags of the path.
    path: &'static str,
}

#[derive(Clone, Copy)]
enum Serve {
    Farlun(&'static str),
    Tgt(&'static [(&'static str, &'static str)]),
}

const MEMORY: Serve = Serve::Farlun("--lun memory:64MiB");
const UNPACED: Serve = Serve::Farlun("--lun memory:64MiB --no-pacing");
const NAGLE: Serve = Serve::Farlun("--lun memory:64MiB --compat nagle,separate-status");
const TGT: Serve = Serve::Tgt(&[]);
const READ: &str = "FARLUN bench URL --json --op read --block 1MiB --depth 8 --time 4s";
const WRITE: &str = "FARLUN bench URL --json --op write --overwrite --block 1MiB --depth 8 --time 4s";
const RMEM: &str = "sysctl -qw net.ipv4.tcp_rmem='4096 65536 65536'";
const WMEM: &str = "sysctl -qw net.ipv4.tcp_wmem='4096 65536 65536'";
const SLOW_START: &str = "sysctl -qw net.ipv4.tcp_slow_start_after_idle=1";
const NO_SLOW_START: &str = "sysctl -qw net.ipv4.tcp_slow_start_after_idle=0";
const SHORT_BURSTS: Serve = Serve::Tgt(&[
    ("InitialR2T", "Yes"),
    ("ImmediateData", "No"),
    ("FirstBurstLength", "65536"),
    ("MaxBurstLength", "262144"),
]);
const LONG_BURSTS: Serve = Serve::Tgt(&[
    ("InitialR2T", "No"),
    ("ImmediateData", "Yes"),
    ("FirstBurstLength", "16776192"),
    ("MaxBurstLength", "16776192"),
]);

const fn setup(load: &'static str, serve: Serve) -> Setup<'static> {
    Setup { load, serve, near: "", far: "", path: "" }
}

fn pair(
    name: &'static str,
    paths: &'static [usize],
    right: &'static [&'static str],
    limited: Setup<'static>,
    free: Setup<'static>,
) -> Pair {
    Pair { name, paths, right, limited, free, at: At::Near }
}

/// Another target, or settings, for the same load.
fn of_hosts() -> Vec<Pair> {
    let all = &[0, 1, 2];
    let reads = setup(READ, MEMORY);
    let writes = setup(WRITE, MEMORY);
    let small = setup("FARLUN bench URL --json --op read --block 1KiB --depth 1 --time 2s", NAGLE);
    let random = "FARLUN bench URL --json --op read --block 64KiB --depth 32 --random --time 4s";
    let one = "FARLUN bench URL --json --op read --block 4KiB --depth 1 --time 3s";
    let four = "FARLUN bench URL --json --op read --block 64KiB --depth 4 --time 3s";
    let slow = Serve::Farlun("--lun memory:64MiB,delay=read:20ms");
    let paused = Serve::Farlun("--lun memory:64MiB,delay=read:400ms --policy none --no-pacing");
    let megabyte = "FARLUN bench URL --json --op read --block 1MiB --depth 1 --time 8s";
    let held = "FARLUN bench URL --json --op read --block 2KiB --depth 1 --time 2s";
    let lossy = "--loss 0.5%";
    let unpaced = setup("FARLUN bench URL --json --op read --block 1MiB --depth 8 --time 6s", UNPACED);
    let ring = pair(
        "short ring of the sender",
        &[0, 2],
        &["device-queue"],
        Setup { path: "--ring 40", ..unpaced },
        unpaced,
    );
    vec![
        pair("receive window, reads", all, &["receive-window"], Setup { near: RMEM, ..reads }, reads),
        pair("receive window, writes", all, &["receive-window"], Setup { far: RMEM, ..writes }, writes),
        pair("send buffer, reads", all, &["send-buffer"], Setup { far: WMEM, ..reads }, reads),
        pair("send buffer, writes", &[0, 2], &["send-buffer"], Setup { near: WMEM, ..writes }, writes),
        pair("Nagle", all, &["nagle"], small, Setup { serve: MEMORY, ..small }),
        pair(
            "status on its own",
            &[0, 1],
            &["separate-status", "nagle"],
            setup(held, NAGLE),
            setup(held, MEMORY),
        ),
        pair(
            "command window of 4",
            all,
            &["command-window"],
            setup(random, Serve::Farlun("--lun memory:64MiB --window 4")),
            setup(random, MEMORY),
        ),
        pair("slow store, depth 1", all, &["store-latency"], setup(one, slow), setup(one, MEMORY)),
        pair(
            "slow store, depth 4",
            all,
            &["store-latency", "queue-depth"],
            setup(four, slow),
            setup(four, MEMORY),
        ),
        pair("losses, reads", all, &["loss"], Setup { path: lossy, ..reads }, reads),
        pair("losses, writes", &[0, 1], &["loss"], Setup { path: lossy, ..writes }, writes),
        Pair { at: At::Far, ..ring },
        pair(
            "slow start after idle",
            &[2],
            &["congestion-window"],
            Setup { far: SLOW_START, ..setup(megabyte, paused) },
            Setup { far: NO_SLOW_START, ..setup(megabyte, paused) },
        ),
    ]
}

/// Another depth of the same requests.
fn of_depths() -> Vec<Pair> {
    let all = &[0, 1, 2];
    let one = "FARLUN bench URL --json --op read --block 64KiB --depth 1 --time 3s";
    let four = "FARLUN bench URL --json --op read --block 64KiB --depth 4 --time 3s";
    let many = "FARLUN bench URL --json --op read --block 64KiB --depth 256 --time 4s";
    let two_writes = "FARLUN bench URL --json --op write --overwrite --block 64KiB --depth 2 --time 3s";
    let many_writes = "FARLUN bench URL --json --op write --overwrite --block 64KiB --depth 256 --time 4s";
    let small = "FARLUN bench URL --json --op read --block 4KiB --depth 1 --time 3s";
    let many_small = "FARLUN bench URL --json --op read --block 4KiB --depth 256 --time 4s";
    let of = |name, paths, right, few, many, serve| {
        pair(name, paths, right, setup(few, serve), setup(many, serve))
    };
    let perf = "timeout 3 iscsi-perf -b 128 -m 4 URL || true";
    let perf_many = "timeout 4 iscsi-perf -b 128 -m 128 URL || true";
    let image = "qemu-img bench -f raw -c 300 -d 1 -s 65536 -t none URL";
    let image_many = "qemu-img bench -f raw -c 3000 -d 64 -s 65536 -t none URL";
    let depth: &[&str] = &["queue-depth"];
    let serial: &[&str] = &["round-trip"];
    vec![
        of("one read of 64 KiB at a time", all, serial, one, many, MEMORY),
        of("four reads of 64 KiB at a time", all, depth, four, many, MEMORY),
        of("two writes of 64 KiB at a time", all, depth, two_writes, many_writes, MEMORY),
        of("one read of 4 KiB at a time", all, serial, small, many_small, MEMORY),
        of("tgt and libiscsi, four reads of 64 KiB", &[0, 1], depth, perf, perf_many, TGT),
        of("tgt and QEMU, one read of 64 KiB", &[0, 1], serial, image, image_many, TGT),
    ]
}

/// Writes of a megabyte to tgt, with short bursts and with long ones.
fn of_bursts() -> Vec<Pair> {
    let one = "FARLUN bench URL --json --op write --overwrite --block 1MiB --depth 1 --time 4s";
    let short = "FARLUN bench URL --json --op write --overwrite --block 64KiB --depth 2 --time 4s";
    let of =
        |name, paths, load| pair(name, paths, &["r2t"], setup(load, SHORT_BURSTS), setup(load, LONG_BURSTS));
    vec![of("R2Ts of tgt, 1 MiB", &[0, 1, 2], one), of("R2Ts of tgt, 64 KiB", &[0, 1], short)]
}

impl Setup<'_> {
    /// The capture of this load over a path, and the validity of the run.
    fn capture(
        &self,
        folder: &Path,
        name: &str,
        path: &str,
        (at, snap): (At, usize),
    ) -> (Value, Result<(), String>) {
        let flags = format!("{path} {}", self.path);
        let tap = Tap {
            at,
            snap,
            path: &flags,
            settings: [self.near, self.far],
            target: match self.serve {
                Serve::Farlun(flags) => Served::Farlun(flags),
                Serve::Tgt(parameters) => Served::TgtWith(parameters),
            },
            complete: false,
            load: self.load,
        };
        let (file, validity) = tap.judged(folder, name);
        let capture = analyzed(&file);
        std::fs::remove_file(file).expect("a capture");
        let connections = capture["connections"].as_array().expect("connections").iter();
        let bytes = |connection: &&Value| payload(connection);
        (connections.max_by_key(bytes).expect("a connection").clone(), validity)
    }
}

/// Bytes of both directions.
fn payload(connection: &Value) -> u64 {
    let directions = connection["directions"].as_array().expect("two directions").iter();
    directions.map(|direction| direction["payload_bytes"].as_u64().expect("bytes")).sum()
}

/// Bytes that arrived per second between the first command and the last status.
fn rate(connection: &Value) -> f64 {
    let directions = connection["directions"].as_array().expect("two directions").iter();
    let bytes =
        directions.filter_map(|direction| direction["delivered"]["bytes"].as_f64()).fold(0.0, f64::max);
    bytes / connection["iscsi"]["time"]["length_s"].as_f64().expect("a time")
}

/// One pair on one path.
struct Tried {
    /// The limiter is the one that was put there.
    named: bool,
    follows: f64,
    /// Predicted gain, if it is a figure.
    figure: Option<f64>,
    validity: Result<(), String>,
    text: String,
}

fn try_one(pair: &Pair, (about, path): (&str, &str)) -> Tried {
    let folder = tempfile::tempdir().expect("a folder");
    let (limited, first) = pair.limited.capture(folder.path(), "limited", path, (pair.at, 0));
    // Over 100 ms a window takes seconds to open, which is no part of a steady rate.
    let long = pair.free.load.replace("--time 4s", "--time 12s");
    let free = Setup { load: if path.contains(LONG_WAY) { &long } else { pair.free.load }, ..pair.free };
    let (free, second) = free.capture(folder.path(), "free", path, (pair.at, SNAP));
    let follows = rate(&free) / rate(&limited);
    let verdict = &limited["diagnosis"]["verdicts"][0];
    let found = verdict["limiter"].as_str().unwrap_or("none");
    let now = limited["diagnosis"]["current"]["bytes_per_s"].as_f64().unwrap_or(f64::NAN);
    let predicted = verdict["predicted"]["bytes_per_s"].as_f64().map(|rate| rate / now);
    let certainty = verdict["certainty"].as_str().unwrap_or("none").to_owned();
    let figure = predicted.filter(|_| certainty == "figure");
    let said = predicted.map_or("–".to_owned(), |gain| format!("{gain:.2}"));
    let least = if certainty == "at-least" { "≥ " } else { "" };
    let ratio = figure.map_or("–".to_owned(), |gain| format!("{:.2}", gain / follows));
    let text = format!("| {} | {about} | `{found}` | {least}{said} | {follows:.2} | {ratio} |", pair.name);
    Tried { named: pair.right.contains(&found), follows, figure, validity: first.and(second), text }
}

#[test]
fn predicted_gains_are_those_of_an_intervention() {
    need!(skip::long(), path::available(), skip::program("tcpdump"));
    need!(tgtd::available(), skip::qemu_iscsi(), skip::program("iscsi-perf"));
    let _turn = path::turn();
    let pairs = [of_hosts(), of_depths(), of_bursts()].into_iter().flatten();
    let tried: Vec<Tried> = pairs
        .flat_map(|pair| pair.paths.iter().map(|n| try_one(&pair, PATHS[*n])).collect::<Vec<_>>())
        .inspect(|one| println!("{}", one.text))
        .collect();
    let counted: Vec<&Tried> = tried.iter().filter(|one| one.validity.is_ok()).collect();
    let gaining: Vec<_> = counted.iter().filter(|one| one.follows >= GAIN).collect();
    let ratios: Vec<f64> = gaining.iter().filter_map(|one| Some(one.figure? / one.follows)).collect();
    let right = ratios.iter().filter(|ratio| RATIO.contains(ratio)).count();
    let wrong: Vec<&str> = counted.iter().filter(|one| !one.named).map(|one| one.text.as_str()).collect();
    let share = |part: usize, all: usize| format!("{part} of {all}");
    println!("valid: {}", share(counted.len(), tried.len()));
    println!(
        "with a figure where the intervention gains {GAIN} times: {}",
        share(ratios.len(), gaining.len())
    );
    println!("figures within {RATIO:?} of what follows: {}", share(right, ratios.len()));
    println!("another limiter: {}\n{}", wrong.len(), wrong.join("\n"));
    decide!(ratios.len() * 100 >= gaining.len() * FIGURES_PERCENT, Ok(()), "too few figures");
    decide!(right * 100 >= ratios.len() * RIGHT_PERCENT, Ok(()), "too few figures are right");
}
