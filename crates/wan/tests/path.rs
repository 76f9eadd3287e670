//! A whole run on a real path between two namespaces. Needs root and /dev/net/tun; passes with a message without.

use std::ffi::OsString;
use std::thread;
use std::time::Duration;

use event::BitRate;
use wan::validity::Class;
use wan::{Outcome, Settings, Spec, WanError, run};

fn settings(near: &[&str], far: Option<&str>) -> Settings {
    Settings {
        spec: Spec::new(Duration::from_millis(2), BitRate(1_000_000_000), None, 1500),
        near: near.iter().map(OsString::from).collect(),
        others: Vec::new(),
        far: far.map(str::to_owned).into_iter().collect(),
        trace: None,
        trace_kernel: false,
        keep_output: true,
        class: Class::Off,
        program: None,
    }
}

/// `None`, with the reason, where a path cannot be made.
fn outcome(settings: &Settings) -> Option<Result<Outcome, WanError>> {
    match run(settings, None) {
        Err(reason @ (WanError::Namespace(_) | WanError::Tun(_))) => {
            let test = thread::current();
            println!("skipped: {}: {reason}", test.name().unwrap_or("path"));
            None
        }
        outcome => Some(outcome),
    }
}

#[test]
fn a_connection_crosses_the_path_and_both_commands_are_heard() {
    // No listener on port 9: the SYN crosses, the RST comes back, and the shell reports the failure.
    let connect =
        "echo noise; (exec 3<>/dev/tcp/$FARLUN_FAR/9) 2>/dev/null || echo '{\"refused\":true}'; exit 7";
    let Some(outcome) = outcome(&settings(&["bash", "-c", connect], None)) else { return };
    let outcome = outcome.expect("the run ends");
    assert_eq!(outcome.near.exit_code, 7);
    assert_eq!(outcome.near.output, Some(serde_json::json!({"refused": true})));
    assert!(outcome.far.is_none());
    let validity = outcome.validity;
    assert!(validity.packets >= 2 && validity.lateness_ns.is_some(), "{validity:?}");
    assert_eq!(validity.fates.dropped_unasked, 0);
    assert_eq!(outcome.sysctls["net.ipv4.tcp_no_metrics_save"], "1");
    assert_eq!(outcome.path.queue_bytes, 1_000_000);
}

#[test]
fn namespaces_are_there_until_the_guard_has_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let guard = folder.path().join("guard.sh");
    // With the permissions of the original.
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guard.sh"), &guard).expect("a copy");
    let settings = Settings { program: Some(guard), ..settings(&["true"], None) };
    let Some(outcome) = outcome(&settings) else { return };
    assert_eq!(outcome.expect("the run ends").near.exit_code, 0);
    assert!(folder.path().join("held").exists(), "the guard found the namespaces given up");
}

#[test]
fn a_far_command_that_ends_before_it_listens_is_named() {
    let Some(outcome) = outcome(&settings(&["true"], Some("exit 3"))) else { return };
    let text = outcome.expect_err("nothing listened").to_string();
    assert_eq!(text, "the command 'exit 3' ended with exit code 3 before anything in far listened on TCP");
}

#[test]
fn a_command_that_is_not_there_is_named() {
    let Some(outcome) = outcome(&settings(&["no-such-command", "-v"], None)) else { return };
    let text = outcome.expect_err("it is not there").to_string();
    assert_eq!(text, "cannot start the command 'no-such-command -v' in near");
}

#[test]
fn the_far_command_may_finish_its_work_after_it_was_asked_to_end() {
    let script = r#"
        $SIG{TERM} = sub { select(undef, undef, undef, 0.3); print "{\"done\":true}\n"; exit 5 };
        $socket = IO::Socket::INET->new(Listen => 1, LocalPort => 9) or die;
        sleep 1 while 1;"#;
    let far = format!("perl -MIO::Socket::INET -e '{script}'; exit $?");
    let Some(outcome) = outcome(&settings(&["true"], Some(&far))) else { return };
    let far = outcome.expect("the run ends").far.expect("there is a far command");
    assert_eq!((far.exit_code, far.output), (5, Some(serde_json::json!({"done": true}))));
}

#[test]
fn hosts_with_rings_leave_one_processor_to_the_emulator() {
    let allowed = || thread::available_parallelism().expect("the kernel tells").get();
    let processors = allowed();
    let mut settings = settings(&["nproc"], None);
    for (ring_packets, left) in [(None, processors), (Some(80), (processors - 1).max(1))] {
        settings.spec.ring_packets = ring_packets;
        let Some(outcome) = outcome(&settings) else { return };
        let output = outcome.expect("the run ends").near.output;
        assert_eq!(output, Some(serde_json::json!(left)), "with rings of {ring_packets:?}");
        assert_eq!(allowed(), processors, "whoever asked is where it was");
    }
}
