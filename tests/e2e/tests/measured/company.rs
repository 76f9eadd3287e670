//! A path that is not alone: others take the processors that its commands need, and commands leave their hosts.

use std::process::{Child, Command, Stdio};
use std::thread::available_parallelism;
use std::time::Duration;

use e2e::{Finished, farlun, need, path, run, skip};

const LIMIT: Duration = Duration::from_secs(180);
/// Keeps one processor busy.
const HOG: &str = "while :; do :; done";

/// One hog for each processor, outside any path; they end when this is dropped.
struct Hogs(Vec<Child>);

impl Hogs {
    fn new(count: usize) -> Hogs {
        let hog = || {
            let mut shell = Command::new("sh");
            shell.args(["-c", HOG]).stdin(Stdio::null()).spawn().expect("a shell")
        };
        Hogs((0..count).map(|_| hog()).collect())
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

fn over(flags: &[&str], near: &str) -> Finished {
    let mut command = farlun(["wan", "--json", "--delay", "2ms"]);
    run(command.args(flags).args(["--", "sh", "-c", near]), LIMIT)
}

#[test]
fn commands_that_had_to_wait_for_others_have_no_figures() {
    need!(path::available(), skip::program("timeout"));
    let _turn = path::turn();
    let count = available_parallelism().map_or(1, usize::from);
    let hogs = Hogs::new(count);
    // Nothing is on the path, so that nothing can be late.
    let beside = over(&[], "sleep 2; exit 3");
    let asked = over(&["--validity", "throughput"], "sleep 2");
    drop(hogs);
    assert_eq!(asked.code, 4, "{asked:#?}");
    assert_eq!(beside.code, 3, "the exit code is that of COMMAND: {beside:#?}");
    let warning = "farlun: warning: the run is not valid: other programs kept ";
    assert!(beside.stderr.contains(warning), "{beside:#?}");
    let document = beside.json();
    for class in ["latency", "throughput"] {
        assert_eq!(document["validity"][class]["ok"], false, "{document:#}");
    }
    // The same work done by the path's own commands is theirs, however much of it others leave them. The shell says at last
    // what those took that it has waited for (fields 16 and 17, proc_pid_stat(5)).
    let told = r#"awk '{ print "{\"cpu_s\": " ($16 + $17) / 100 "}" }' /proc/$$/stat"#;
    let near = format!("for n in $(seq {count}); do timeout 2 sh -c '{HOG}' & done; wait; {told}");
    let document = over(&[], &near).json();
    let (own, near) = (&document["near"]["output"]["cpu_s"], &document["near"]);
    let ns = |key: &str| near[key].as_u64().expect("a time");
    let own = own.as_f64().expect("a time") / ((ns("t_end_ns") - ns("t_start_ns")) as f64 / 1e9);
    let others = document["validity"]["others_busy"].as_f64().expect("it tells");
    assert!(own > 0.0 && others < count as f64 - own + 0.2, "{own} were its own: {document:#}");
}

/// Six cells of more than a second each, so that each is judged.
const PLAN: &str = r#"
name = "mine"
title = "My stream beside others"
record = ["sockets"]

[matrix]
delay = ["1ms", "2ms", "3ms", "4ms", "5ms", "6ms"]

[path]
rate = "50mbit"

[[load]]
name = "mystream"
kind = "stream"
start = "500ms"
window = "1s"

[[expect]]
name = "something comes through"
value = "mystream.throughput"
op = ">="
bound = 1
unit = "Mbit/s"
"#;

#[test]
fn a_lab_beside_others_names_them_and_stops_or_marks_its_figures() {
    need!(path::available());
    let _turn = path::turn();
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("mine.toml");
    std::fs::write(&plan, PLAN).expect("a plan");
    let lab = |out: &str, flags: &[&str]| {
        let mut command = farlun(["lab", "--json", "--out"]);
        run(command.arg(folder.path().join(out)).args(flags).arg(&plan), LIMIT)
    };
    let hogs = Hogs::new(available_parallelism().map_or(1, usize::from));
    let stopped = lab("stopped", &[]);
    let waived = lab("waived", &["--validity", "off"]);
    drop(hogs);

    assert_eq!(stopped.code, 4, "{stopped:#?}");
    assert!(stopped.stderr.contains("this machine is busy: other programs keep "), "{stopped:#?}");
    assert!(stopped.stderr.contains(" (pid "), "{stopped:#?}");
    let document = stopped.json();
    let said = document["stopped"].as_str().unwrap_or_default();
    assert!(said.starts_with("stopped after 4 attempts in a row at 4 cells"), "{document:#}");
    assert!(said.contains(" (pid ") && said.contains("--validity off"), "{said}");
    // Others may be busier than the hogs, and only a few are named.
    let busy = document["busy"].as_array().expect("programs");
    assert!(busy.iter().any(|program| program["processors"].as_f64() > Some(0.0)), "{document:#}");

    let document = waived.expect_code(0).json();
    assert_eq!(document["unvalidated"], true, "{document:#}");
    let checks = document["checks"].as_array().expect("checks");
    assert_eq!(checks.len(), 6, "{document:#}");
    assert!(checks.iter().all(|check| check["value"].is_null()), "{document:#}");
    let run_of = |out: &str| folder.path().join(out);
    let cell = run_of("waived").join("cells/001-mystream-delay-1ms/r1");
    let text = std::fs::read_to_string(cell.join("cell.json")).expect("cell.json");
    assert!(text.contains("\"unvalidated\""), "{text}");
    let page = std::fs::read_to_string(run_of("waived").join("report.html")).expect("a page");
    assert!(page.contains("class=\"unvalidated\"") && page.contains("My stream beside others"));
    let shown = run(farlun(["report"]).arg(run_of("waived")), LIMIT).expect_code(0);
    assert!(
        shown.stdout.contains("mystream (unvalidated)") && shown.stdout.contains("not measured"),
        "{shown:#?}"
    );
    let refused = run(farlun(["compare"]).arg(&cell).arg(&cell), LIMIT).expect_code(2);
    refused.expect_sentence(&["not validated"]);
}

#[test]
fn a_selftest_beside_others_has_no_figures() {
    need!(path::available());
    let _turn = path::turn();
    let hogs = Hogs::new(available_parallelism().map_or(1, usize::from));
    let finished = run(&mut farlun(["wan", "selftest", "--quick", "--json"]), LIMIT);
    drop(hogs);
    assert_eq!(finished.code, 4, "{finished:#?}");
    let document = finished.json();
    assert_eq!(document["valid"], false, "{document:#}");
    let said = document["reasons"].as_array().expect("reasons").iter().filter_map(|reason| reason.as_str());
    assert!(said.clone().any(|reason| reason.contains("other processes kept ")), "{document:#}");
    let delay = &document["checks"][0];
    assert!(delay["name"] == "added delay, median" && delay["value"].is_null(), "{document:#}");
}

#[test]
fn a_far_command_that_has_left_its_host_and_will_not_end_is_ended() {
    need!(path::available(), skip::program("nsenter"), skip::program("perl"));
    let _turn = path::turn();
    // It listens first, as it must; then its shell goes back to the machine's own network, that of its init, deaf to SIGTERM.
    let listen = "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 1, LocalPort => 9) or die; sleep 1 while 1'";
    let far = format!("trap '' TERM; {listen} & exec nsenter --net=/proc/1/ns/net sleep 55");
    let mut command = farlun(["wan", "--json", "--validity", "off", "--far", &far, "--", "true"]);
    let finished = run(&mut command, LIMIT).expect_code(0);
    let document = finished.json();
    assert_eq!(document["far"]["exit_code"], 137, "{document:#}");
}
