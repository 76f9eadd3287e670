//! `farlun doctor` on real runs over the emulated path, each with one thing made small: it names that thing, from the
//! tables alone.

use std::path::Path;
use std::time::Duration;

use e2e::path::{self, FAR};
use e2e::{farlun, farlun_path, need, run};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(90);
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
    /// Runs it and asks the doctor; with `near_only` as if the target had been somebody else's.
    #[track_caller]
    fn diagnosis(&self, near_only: bool) -> Value {
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
        let mut command = farlun(["wan", "--json", "--validity", "off", "--delay", "8ms", "--far", &far]);
        if !near_only {
            command.arg("--trace").arg(trace.path());
        }
        run(command.args(self.path).args(["--", "sh", "-c", &near]), LIMIT).expect_code(0);
        doctor(trace.path())
    }

    /// The names of its verdicts, the first one first.
    #[track_caller]
    fn verdicts(&self) -> Vec<String> {
        names(&self.diagnosis(false))
    }
}

fn doctor(dir: &Path) -> Value {
    let document = run(farlun(["doctor", "--json"]).arg(dir), LIMIT).expect_code(0).json();
    document["cells"][0]["diagnosis"].clone()
}

fn names(diagnosis: &Value) -> Vec<String> {
    let verdicts = diagnosis["verdicts"].as_array().expect("verdicts");
    verdicts.iter().map(|v| v["limiter"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn names_a_caller_with_few_requests() {
    need!(path::available());
    let diagnosis = Case { bench: "--block 4KiB --depth 2", ..PLAIN }.diagnosis(false);
    assert_eq!(names(&diagnosis)[0], "caller-depth", "{diagnosis:#}");
    let first = &diagnosis["verdicts"][0];
    assert!(
        first["remedies"][0]["commands"].as_str().is_some_and(|text| text.contains("--depth")),
        "{first:#}"
    );
}

#[test]
fn names_a_small_command_window_also_from_one_side() {
    need!(path::available());
    let case = Case { target: "--window 4", ..PLAIN };
    for near_only in [false, true] {
        let diagnosis = case.diagnosis(near_only);
        assert_eq!(names(&diagnosis)[0], "command-window", "{diagnosis:#}");
        let unknown = diagnosis["cannot_know"].as_array().expect("a list").len();
        assert!(if near_only { unknown >= 2 } else { unknown == 0 }, "{diagnosis:#}");
    }
}

#[test]
fn names_a_slow_store() {
    need!(path::available());
    let case = Case { lun: "memory:64MiB,delay=read:60ms", bench: "--block 16KiB --depth 8", ..PLAIN };
    assert_eq!(case.verdicts()[0], "store-latency");
}

#[test]
fn names_an_initiator_that_gives_little_to_iscsi() {
    need!(path::available());
    assert_eq!(Case { bench: "--block 64KiB --queue-limit 4", ..PLAIN }.verdicts()[0], "queue-limit");
}

#[test]
fn names_a_small_receive_buffer() {
    need!(path::available());
    let before = "sysctl -w net.ipv4.tcp_rmem='4096 65536 131072'";
    assert_eq!(Case { before, ..PLAIN }.verdicts()[0], "receive-window");
}

#[test]
fn names_a_status_that_nagle_holds() {
    need!(path::available());
    let case = Case { target: "--compat nagle,separate-status", bench: "--block 8KiB --depth 1", ..PLAIN };
    let found = case.verdicts();
    assert!(matches!(found[0].as_str(), "nagle" | "separate-status"), "{found:?}");
}

#[test]
fn names_losses() {
    need!(path::available());
    let case = Case { path: &["--loss", "0.2%"], ..PLAIN };
    assert_eq!(case.verdicts()[0], "loss");
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
