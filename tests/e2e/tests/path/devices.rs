//! The emulated path for users to whom /dev/net/tun is closed: veth pairs and packet sockets in its place.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use analysis::Span;
use analysis::sockets::{Connection, connections};
use e2e::path::{self, FAR, PATIENT_TCP};
use e2e::{Finished, decide, farlun_path, need, run, skip};
use event::SocketSample;
use serde_json::Value;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(120);
const IQN: &str = "iqn.2026-11.io.farlun:devices";

/// A folder into which everybody may write.
fn folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("farlun-devices-").tempdir().expect("a temporary folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("a folder of ours");
    folder
}

fn farlun(words: &[&str]) -> Command {
    let mut command =
        path::as_nobody_without_tun(farlun_path().to_str().expect("a path of plain characters"));
    command.args(words);
    command
}

/// A path with these flags between two commands for shells.
fn path_between(flags: &str, far: &str, near: &str) -> Command {
    let mut command = farlun(&["wan", "--json", "--validity", "off", "--far", far]);
    command.args(flags.split_whitespace()).args(["--", "sh", "-c", near]);
    command
}

/// What comes of such a path.
fn over(flags: &str, far: &str, near: &str) -> Finished {
    run(&mut path_between(flags, far, near), LIMIT)
}

/// The same on one processor. What is sent from two of them waits in a queue of the kernel's for each, between the two ends
/// of a veth pair: on a busy machine it may overtake, and TCP takes that for a loss.
fn over_in_order(flags: &str, far: &str, near: &str) -> Finished {
    let anywhere = path_between(flags, far, near);
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", "0"]).arg(anywhere.get_program()).args(anywhere.get_args());
    command.current_dir("/").env_remove("XDG_RUNTIME_DIR");
    run(&mut command, LIMIT)
}

#[test]
fn data_arrive_as_they_were_sent() {
    need!(path::available_without_tun());
    let farlun = farlun_path().display();
    for (flags, address) in [
        ("--mtu 1500", FAR),
        ("--mtu 1400 --segment", FAR),
        ("--mtu 9000 --ipv6", "[2001:2::2]"),
        ("--mtu 1500 --loss 0.1% --reorder 0.5% --duplicate 0.5% --ipv6", "[2001:2::2]"),
    ] {
        let files = folder();
        let url = format!("iscsi://{address}/{IQN}/0");
        let far = format!(
            "exec {farlun} target --json --insecure --iqn {IQN} --lun memory:8MiB --listen {address}:3260"
        );
        let near = format!(
            "set -e; cd {}; head -c 8388608 /dev/urandom >sent; {farlun} write {url} -i sent; \
             {farlun} read {url} -o received; cmp sent received",
            files.path().display()
        );
        let finished = over(&format!("--delay 2ms --rate 500mbit {flags}"), &far, &near).expect_code(0);
        let document = finished.json();
        assert_eq!(document["path"]["device"], "veth", "{flags}: {document:#}");
        let unasked = &document["validity"]["dropped_unasked"];
        decide!(*unasked == 0, path::kept_up(&document), "{flags}: {document:#}");
        // 16 MiB in packets of at most 8 928 bytes of payload.
        assert!(document["validity"]["segments"].as_u64() > Some(1_880), "{flags}: {document:#}");
    }
}

#[test]
fn datagrams_keep_their_edges() {
    need!(path::available_without_tun(), skip::program("perl"));
    let far = r#"exec perl -MIO::Socket::INET -e '
        $udp = IO::Socket::INET->new(Proto => "udp", LocalPort => 9); $tcp = IO::Socket::INET->new(Listen => 1, LocalPort => 9);
        while ($from = recv $udp, $data, 65536, 0) { send $udp, length($data), 0, $from }'"#;
    // SOL_UDP, UDP_SEGMENT: the kernel is given twenty datagrams at once.
    let near = format!(
        r#"exec perl -MIO::Socket::INET -e '
        $udp = IO::Socket::INET->new(Proto => "udp", PeerAddr => "{FAR}", PeerPort => 9) or die;
        setsockopt $udp, 17, 103, pack("i", 1000) or die "no UDP_SEGMENT: $!";
        send $udp, "x" x 19500, 0; alarm 60; recv $udp, $data, 100, 0 for 1 .. 20; print "{{\"last\": $data}}\n"'"#
    );
    let document = over("--delay 2ms", far, &near).expect_code(0).json();
    assert_eq!(document["near"]["output"]["last"], 500, "{document:#}");
    // Twenty there and twenty back: none crossed the line as a part of something larger.
    assert_eq!(document["validity"]["packets"], 40, "{document:#}");
}

/// The connection that sent most, of all that have samples in `folder`.
fn busiest(folder: &Path) -> Connection {
    let table = tables::read::<SocketSample>(folder).expect("the table sockets");
    let all = connections(&table, Span { start_ns: 0, end_ns: u64::MAX }, None);
    all.into_iter().next().expect("a connection")
}

/// A stream that does not pace itself, over a path with these flags and after `before` at the near end; what its sender's
/// TCP did, and the document.
fn unpaced(flags: &str, before: &str) -> (Connection, Value) {
    let (trace, farlun) = (folder(), farlun_path().display());
    let far = format!("exec {farlun} stream serve --json --cc cubic --listen {FAR}:5201");
    let near = format!(
        "{before}exec {farlun} stream {FAR}:5201 --json --cc cubic --no-pacing --time 3s --trace {}",
        trace.path().display()
    );
    let document = over_in_order(flags, &far, &near).expect_code(0).json();
    (busiest(trace.path()), document)
}

#[test]
fn a_full_ring_cuts_the_window_and_nothing_else_happens() {
    need!(path::available_without_tun(), skip::program("taskset"));
    let (sender, document) = unpaced("--rate 200mbit --delay 10ms --ring 80", PATIENT_TCP);
    let validity = &document["validity"];
    assert!(validity["dropped_ring_full"].as_u64() > Some(0), "{document:#}");
    decide!(validity["dropped_unasked"] == 0, path::kept_up(&document), "{document:#}");
    for fate in ["dropped_queue_full", "dropped_lost"] {
        assert_eq!(validity[fate], 0, "nothing is lost on the path: {document:#}");
    }
    assert_eq!(sender.retransmitted_packets, 0, "{document:#}");
    assert!(sender.cuts.local > 0, "{:?}", sender.cwnd_bytes);
}

#[test]
fn a_loss_on_the_path_is_no_local_cut() {
    need!(path::available_without_tun(), skip::program("taskset"));
    let (sender, document) = unpaced("--rate 200mbit --delay 10ms --loss near:packets:500/2000/4000", "");
    assert!(document["validity"]["dropped_lost"].as_u64() > Some(0), "{document:#}");
    assert!(sender.retransmitted_packets > 0, "{document:#}");
    assert_eq!(sender.cuts.local, 0, "{:?}", sender.cwnd_bytes);
}

#[test]
fn plans_run_too() {
    need!(path::available_without_tun());
    let folder = folder();
    let plan = folder.path().join("plan.toml");
    let text = "name = \"small\"\ntitle = \"A second of reading\"\n[path]\ndelay = \"2ms\"\nrate = \"100mbit\"\n\
                [[lun]]\nkind = \"memory\"\nsize = \"64MiB\"\n[[load]]\nname = \"read\"\nkind = \"bench\"\n\
                op = \"read\"\nblock = \"64KiB\"\nstart = \"500ms\"\nwindow = \"500ms\"\n";
    fs::write(&plan, text).expect("a plan");
    let out = folder.path().join("run");
    let [plan, out] = [&plan, &out].map(|path| path.to_str().expect("a path of plain characters"));
    let finished = run(&mut farlun(&["lab", plan, "--json", "--out", out]), LIMIT);
    // A machine that is too busy for the figure says so; that the cell ran is what is asked here.
    assert!(matches!(finished.code, 0 | 4), "{finished:#?}");
    let document = finished.json();
    assert_eq!(document["failed"], serde_json::json!([]), "{finished:#?}");
}

#[test]
fn a_device_that_is_removed_ends_the_run_with_a_sentence() {
    need!(path::available(), skip::program("ip"));
    for (device, side) in [("veth", "near"), ("veth", "far"), ("tun", "near")] {
        let remove = "ip link delete wan0; sleep 60";
        let mut command = Command::new(farlun_path());
        command.args(["wan", "--validity", "off", "--device", device]);
        match side {
            "near" => command.args(["--", "sh", "-c", remove]),
            // It never comes to listen either: nobody waits for that any more.
            _ => command.args(["--far", remove, "--", "sleep", "60"]),
        };
        run(&mut command, LIMIT)
            .expect_code(1)
            .expect_said("the path is gone: one of its devices can be read no more");
    }
}
