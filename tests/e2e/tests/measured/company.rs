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

fn over(near: &str) -> Finished {
    run(farlun(["wan", "--json", "--delay", "2ms", "--", "sh", "-c"]).arg(near), LIMIT)
}

#[test]
fn commands_that_had_to_wait_for_others_have_no_figures() {
    need!(path::available(), skip::program("timeout"));
    let _turn = path::turn();
    let count = available_parallelism().map_or(1, usize::from);
    let hogs = Hogs::new(count);
    // Nothing is on the path, so that nothing can be late.
    let beside = over("sleep 2");
    drop(hogs);
    assert_eq!(beside.code, 4, "{beside:#?}");
    assert!(beside.stderr.contains("the run is not valid: other programs kept "), "{beside:#?}");
    let document = beside.json();
    for class in ["latency", "throughput"] {
        assert_eq!(document["validity"][class]["ok"], false, "{document:#}");
    }
    // The same work done by the path's own commands is theirs, however much of it others leave them. The shell says at last
    // what those took that it has waited for (fields 16 and 17, proc_pid_stat(5)).
    let told = r#"awk '{ print "{\"cpu_s\": " ($16 + $17) / 100 "}" }' /proc/$$/stat"#;
    let near = format!("for n in $(seq {count}); do timeout 2 sh -c '{HOG}' & done; wait; {told}");
    let document = over(&near).json();
    let (own, near) = (&document["near"]["output"]["cpu_s"], &document["near"]);
    let ns = |key: &str| near[key].as_u64().expect("a time");
    let own = own.as_f64().expect("a time") / ((ns("t_end_ns") - ns("t_start_ns")) as f64 / 1e9);
    let others = document["validity"]["others_busy"].as_f64().expect("it tells");
    assert!(own > 0.0 && others < count as f64 - own + 0.2, "{own} were its own: {document:#}");
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
    // It listens first, as it must; then its shell goes back to the machine's own network, deaf to SIGTERM.
    let listen = "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 1, LocalPort => 9) or die; sleep 1 while 1'";
    let far = format!("trap '' TERM; {listen} & exec nsenter --net=/proc/$PPID/ns/net sleep 55");
    let mut command = farlun(["wan", "--json", "--validity", "off", "--far", &far, "--", "true"]);
    let finished = run(&mut command, LIMIT).expect_code(0);
    let document = finished.json();
    assert_eq!(document["far"]["exit_code"], 137, "{document:#}");
}
