//! `farlun doctor` on real runs over the emulated path, each with one thing made small: it names that thing, from the
//! tables alone.

use std::path::Path;
use std::time::Duration;

use e2e::path::{self, FAR};
use e2e::{decide, farlun, farlun_path, need, run};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(180);
const IQN: &str = "iqn.2026-11.io.farlun:doctor";

/// One load over 8 ms each way and 1 Gb/s.
struct Case<'a> {
    /// More flags of the path, the target and the load.
    path: &'a [&'a str],
    lun: &'a str,
    target: &'a str,
    bench: &'a str,
    /// What is done at the near end first.
    before: &'a str,
}

const PLAIN: Case =
    Case { path: &[], lun: "memory:256MiB", target: "", bench: "--block 64KiB", before: "true" };

impl Case<'_> {
    /// Runs it and asks the doctor; with `near_only` as if the target had been somebody else's. What comes first is one of
    /// `expected`, unless the machine was too busy for the run to say anything.
    #[track_caller]
    fn diagnosis(&self, near_only: bool, expected: &[&str]) -> Value {
        let _turn = path::turn();
        let trace = tempfile::tempdir().expect("a folder");
        let (dir, program) = (trace.path().display(), farlun_path().display());
        let Case { lun, target, bench, before, .. } = self;
        let far_trace = if near_only { String::new() } else { format!("--trace {dir}") };
        let far = format!(
            "exec {program} target --cc cubic --insecure --lun {lun} --iqn {IQN} --listen {FAR}:3260 {target} {far_trace}"
        );
        let near = format!(
            "{before} >&2 && exec {program} bench iscsi://{FAR}/{IQN}/0 --json --cc cubic --time 3s {bench} --trace {dir}"
        );
        let mut command =
            farlun(["wan", "--json", "--validity", "throughput", "--delay", "8ms", "--far", &far]);
        if !near_only {
            command.arg("--trace").arg(trace.path());
        }
        let finished = run(command.args(self.path).args(["--", "sh", "-c", &near]), LIMIT);
        assert!(matches!(finished.code, 0 | 4), "{finished:#?}");
        let document = finished.json();
        assert_eq!(document["near"]["exit_code"], 0, "{finished:#?}");
        let diagnosis = doctor(trace.path());
        let found = first(&diagnosis);
        let reasons = &document["validity"]["reasons"];
        println!("{found:?}, expected {expected:?}; the run is not valid for: {reasons}");
        let is_right = found.is_some_and(|found| expected.contains(&found));
        decide!(is_right, path::validity(&document), "{diagnosis:#}");
        diagnosis
    }
}

fn doctor(dir: &Path) -> Value {
    let document = run(farlun(["doctor", "--json"]).arg(dir), LIMIT).expect_code(0).json();
    document["cells"][0]["diagnosis"].clone()
}

/// The name of the first verdict.
fn first(diagnosis: &Value) -> Option<&str> {
    diagnosis["verdicts"].as_array().expect("verdicts").first()?["limiter"].as_str()
}

#[test]
fn names_a_caller_with_few_requests() {
    need!(path::available());
    let case = Case { bench: "--block 4KiB --depth 2", ..PLAIN };
    let diagnosis = case.diagnosis(false, &["queue-depth"]);
    if first(&diagnosis) == Some("queue-depth") {
        let commands = &diagnosis["verdicts"][0]["remedies"][0]["commands"];
        assert!(commands.as_str().is_some_and(|text| text.contains("--depth")), "{diagnosis:#}");
    }
}

#[test]
fn names_a_small_command_window_also_from_one_side() {
    need!(path::available());
    let case = Case { target: "--window 4", ..PLAIN };
    for near_only in [false, true] {
        let diagnosis = case.diagnosis(near_only, &["command-window"]);
        let unknown = diagnosis["cannot_know"].as_array().expect("a list").len();
        assert!(if near_only { unknown >= 2 } else { unknown == 0 }, "{diagnosis:#}");
    }
}

#[test]
fn names_a_slow_store() {
    need!(path::available());
    let case = Case { lun: "memory:64MiB,delay=read:60ms", bench: "--block 16KiB --depth 8", ..PLAIN };
    case.diagnosis(false, &["store-latency"]);
}

#[test]
fn names_an_initiator_that_gives_little_to_iscsi() {
    need!(path::available());
    Case { bench: "--block 64KiB --queue-limit 4", ..PLAIN }.diagnosis(false, &["queue-limit"]);
}

#[test]
fn names_a_small_receive_buffer() {
    need!(path::available());
    let before = "sysctl -w net.ipv4.tcp_rmem='4096 65536 131072'";
    Case { before, ..PLAIN }.diagnosis(false, &["receive-window"]);
}

#[test]
fn names_a_status_that_nagle_holds() {
    need!(path::available());
    let case = Case { target: "--compat nagle,separate-status", bench: "--block 8KiB --depth 1", ..PLAIN };
    case.diagnosis(false, &["nagle", "separate-status"]);
}

#[test]
fn names_losses() {
    need!(path::available());
    Case { path: &["--loss", "0.2%"], ..PLAIN }.diagnosis(false, &["loss"]);
}

#[test]
fn a_directory_without_requests_is_refused() {
    let nothing = tempfile::tempdir().expect("a folder");
    let refused = run(farlun(["doctor"]).arg(nothing.path()), LIMIT).expect_code(2);
    assert!(
        refused.stderr.contains("expected a run, one of its cells, or what --trace wrote"),
        "{refused:?}"
    );
}
