//! `farlun top`: connections that others made, what it says where there are none, and the terminal afterwards.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::path::{self, FAR};
use e2e::{farlun, farlun_path, need, port, run, skip, tgtd};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(180);

/// What is in a JSON document that a script has left.
#[track_caller]
fn document(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("a document");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The connections in it of this role, at the far address and the usual port.
fn of_role<'a>(document: &'a Value, role: &str) -> Vec<&'a Value> {
    let all = document["connections"].as_array().expect("connections");
    let end = if role == "target" { "local" } else { "peer" };
    let place = format!("{FAR}:3260");
    all.iter().filter(|row| row["role"] == role && row[end] == place.as_str()).collect()
}

#[track_caller]
fn check_path(row: &Value) {
    let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name} of {row:#}"));
    // 8 ms there and 8 ms back; a busy machine makes it longer, never shorter. Seconds are what it is told in.
    assert!((0.016..2.0).contains(&number("min_rtt_s")), "{row:#}");
    assert!((0.016..10.0).contains(&number("rtt_s")), "{row:#}");
    assert!(number("cwnd_packets") >= 2.0 && number("mss_bytes") > 500.0, "{row:#}");
    assert!(number("samples") >= 2.0 && number("seconds") > 0.5, "{row:#}");
    for share in ["busy", "rwnd_limited", "sndbuf_limited", "cwnd_limited"] {
        assert!((0.0..=1.0).contains(&number(share)), "{share} of {row:#}");
    }
    assert!(row["cuts"]["local"].is_u64() && row["congestion"].is_string(), "{row:#}");
}

#[test]
fn connections_of_tgt_and_libiscsi_are_seen_from_outside() {
    need!(path::available(), tgtd::available(), skip::program("iscsi-perf"));
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("plain characters").to_owned();
    fs::File::create(at("disk")).and_then(|file| file.set_len(64 << 20)).expect("a disk");
    let control = port::unused().to_string();
    let (top, iqn) = (format!("{} top --once --json", farlun_path().display()), tgtd::IQN);
    let (pid, of_far, of_near, of_all) = (at("pid"), at("far"), at("near"), at("all"));
    let far = format!("sh -c 'echo $$ > {pid} && exec tgtd -f -C {control} --iscsi portal={FAR}:3260'");
    let near = format!(
        "{}iscsi-perf -m 8 -b 512 -t 600 -x 0 iscsi://{FAR}/{iqn}/1 >{} 2>&1 & load=$!\n\
         until {top} --netns $$ --interval 100ms | grep -q '\"role\":\"initiator\"'; do :; done\n\
         {top} --netns $(cat {pid}) >{of_far}\n{top} --netns $$ >{of_near}\n{top} >{of_all}\n\
         kill $load",
        tgtd::configuration(&control, &folder.path().join("disk")),
        at("said"),
    );
    let mut command = farlun(["wan", "--json", "--validity", "off", "--delay", "8ms", "--rate", "1gbit"]);
    let finished = run(command.args(["--far", &far, "--", "sh", "-ec", &near]), LIMIT).expect_code(0);
    assert_eq!(finished.json()["near"]["exit_code"], 0, "{finished:#?}");
    for suffix in ["", ".lock"] {
        let _ = fs::remove_file(format!("/var/run/tgtd/socket.{control}{suffix}"));
    }

    let (of_far, of_near, of_all) =
        (document(Path::new(&of_far)), document(Path::new(&of_near)), document(Path::new(&of_all)));
    let pid: u64 = fs::read_to_string(&pid).expect("its pid").trim().parse().expect("a number");
    let targets = of_role(&of_far, "target");
    assert_eq!((targets.len(), of_role(&of_far, "initiator").len()), (1, 0), "{of_far:#}");
    check_path(targets[0]);
    assert_eq!((&targets[0]["process"], targets[0]["pid"].as_u64()), (&"tgtd".into(), Some(pid)));
    assert!(targets[0]["sent_bits_per_s"].as_f64() > Some(1e6), "it is read from: {of_far:#}");
    assert!(!["idle", "receiving"].contains(&targets[0]["limiter"].as_str().unwrap_or("idle")), "{of_far:#}");

    let initiators = of_role(&of_near, "initiator");
    assert_eq!((initiators.len(), of_role(&of_near, "target").len()), (1, 0), "{of_near:#}");
    check_path(initiators[0]);
    assert_eq!(
        (&initiators[0]["process"], &initiators[0]["limiter"]),
        (&"iscsi-perf".into(), &"receiving".into())
    );

    // Without --netns everything that this host has is seen, whatever else there is just now.
    let targets = of_role(&of_all, "target");
    assert!(targets.iter().any(|row| row["pid"].as_u64() == Some(pid)), "{of_all:#}");
    assert!(of_role(&of_all, "initiator").iter().any(|row| row["process"] == "iscsi-perf"), "{of_all:#}");
}

#[test]
fn where_there_is_no_connection_it_says_so_and_where_to_look() {
    need!(path::available());
    // A namespace of its own; port 1 is nobody's.
    let alone = |flags: &str| {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-ec"]);
        command.arg(format!("{} top --once --interval 50ms --netns $$ {flags}", farlun_path().display()));
        run(&mut command, LIMIT).expect_code(0)
    };
    let said = alone("").stdout;
    for words in ["no iSCSI connection", "port 3260", "nothing listens", "--port", "ss -ti"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let none = alone("--json --port 860 --port 3260").json();
    assert_eq!(none["connections"].as_array().map(Vec::len), Some(0), "{none}");
    assert_eq!(none["listeners"].as_array().map(Vec::len), Some(0), "{none}");
}

#[test]
fn what_cannot_be_meant_is_said_in_a_sentence() {
    for (flags, words) in [
        ("--once --netns /nowhere", "is no network namespace"),
        ("--once --netns /etc/passwd", "is no network namespace"),
        ("--once --netns 999999999", "is no network namespace"),
        ("--once --interval 1ms", "expected 50ms to"),
        ("--once --port 0", "0 is not in 1..=65535"),
        ("--once --port 99999", "99999 is not in 1..=65535"),
        ("", "no terminal to draw on"),
    ] {
        let finished = run(farlun(["top"]).args(flags.split_whitespace()), LIMIT);
        assert!(finished.stderr.contains(words), "{flags}: {finished:#?}");
        finished.expect_code(2);
    }
}

/// Runs a shell script on a terminal of its own with these keys; all that the terminal showed.
fn on_a_terminal(script: &str, keys: &str) -> String {
    let mut command = Command::new("sh");
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    command.arg("-c").arg(format!("printf '{keys}' | script -qec '{script}' /dev/null"));
    run(&mut command, LIMIT).expect_code(0).stdout
}

#[test]
fn the_terminal_is_as_it_was_however_it_ends() {
    need!(skip::program("script"), skip::program("stty"));
    let top = format!("{} top --port 1 --interval 50ms", farlun_path().display());
    let ended = format!(
        "{top} </dev/tty & until stty -a </dev/tty | grep -q -- -icanon; do :; done; kill $!; wait $!; stty -a"
    );
    for (script, keys) in [(format!("{top}; stty -a"), "ssp q"), (ended, "")] {
        let shown = on_a_terminal(&script, keys);
        let (before, after) = shown.split_once("\x1b[?1049l").unwrap_or_else(|| panic!("{shown:?}"));
        assert!(before.contains("\x1b[?1049h") && before.contains("farlun top"), "{shown:?}");
        for setting in [" icanon", " echo ", "susp = ^Z"] {
            assert!(after.contains(setting), "{setting:?} in {after}");
        }
    }
}

#[test]
fn nobody_is_told_for_ever() {
    let line = format!("{} top --json --interval 100ms | head -1", farlun_path().display());
    let told = run(Command::new("sh").args(["-c", &line]), LIMIT).expect_code(0);
    assert_eq!(told.stdout.lines().count(), 1, "{told:#?}");
}
