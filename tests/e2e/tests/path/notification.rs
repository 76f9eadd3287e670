//! What a target tells its initiators: one of our own kind hears of the target's window and of its own part of a line;
//! libiscsi sees plain RFC 7143.

use std::path::Path;
use std::time::Duration;

use e2e::process::output;
use e2e::{farlun, farlun_path, need, path, run, skip};

const IQN: &str = "iqn.2026-11.io.farlun:notification";
/// 50 Mb/s.
const LINE_BYTES_PER_S: u64 = 6_250_000;
const LIMIT: Duration = Duration::from_secs(120);

/// What the last datagram of a capture says: when it is in the file, so is everything before it.
const LAST: &str = "farlun-nothing-follows";

/// AsyncEvents that cross a path behind a short ring while `near` reads; and for how many seconds that took.
fn events(folder: &Path, near: &str) -> (Vec<String>, f64) {
    let (file, log) = (folder.join("path.pcap"), folder.join("tcpdump.log"));
    let (dump, said, farlun_bin) = (file.display(), log.display(), farlun_path().display());
    let script = folder.join("near.sh");
    let text = format!(
        "set -eu\ntcpdump -Z root -i any -n -U -B 65536 -w {dump} tcp port 3260 or udp port 9 2>{said} & dump=$!\n\
         until grep -q 'listening on' {said}; do sleep 0.05; done\n{near} >/dev/null\n\
         until tail -c 65536 {dump} | grep -aq {LAST}; do echo {LAST} >/dev/udp/{}/9; sleep 0.05; done\n\
         kill -INT $dump\nwait $dump || true\n",
        path::FAR
    );
    std::fs::write(&script, text).expect("a script");
    let far = format!(
        "{farlun_bin} target --json --iqn {IQN} --lun memory:64MiB --listen {}:3260 --insecure --policy study --cc reno",
        path::FAR
    );
    let mut wan = farlun(["wan", "--json", "--validity", "off", "--delay", "8ms", "--rate", "1gbit"]);
    wan.args(["--ring", "80", "--far", &far, "--", "bash"]).arg(&script);
    run(&mut wan, LIMIT).expect_code(0);
    // What was sent again was said once.
    let told =
        "iscsi.opcode == 0x32 && !tcp.analysis.retransmission && !tcp.analysis.spurious_retransmission";
    let fields = |filter: &str, field: &str| {
        let mut tshark = std::process::Command::new("tshark");
        tshark.args(["-n", "-r"]).arg(&file).args(["-Y", filter, "-T", "fields", "-e", field]);
        output(&mut tshark).lines().map(str::to_owned).collect::<Vec<String>>()
    };
    let times: Vec<f64> =
        fields("tcp", "frame.time_relative").iter().map(|time| time.parse().expect("seconds")).collect();
    (fields(told, "iscsi.asyncevent"), times[times.len() - 1] - times[0])
}

#[test]
fn our_own_initiator_is_told_and_its_block_follows() {
    need!(path::available(), skip::program("tcpdump"), skip::program("tshark"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bench = format!(
        "{} bench iscsi://{}/{IQN}/0 --depth 1 --policy study --time 4s --trace {}",
        farlun_path().display(),
        path::FAR,
        folder.path().display()
    );
    let (events, elapsed_s) = events(folder.path(), &bench);
    assert!(!events.is_empty(), "the ring of 80 cuts the window of a megabyte");
    let all: Vec<&str> = events.iter().flat_map(|events| events.split(',')).collect();
    assert!(
        all.len() as f64 <= elapsed_s * 10.0 + 1.0,
        "ten a second at most: {} in {elapsed_s} s",
        all.len()
    );
    assert!(all.iter().all(|event| *event == "0xff"), "{events:?}");
    let io = tables::read::<event::Io>(folder.path()).expect("the table io");
    assert_eq!(io.len_bytes[0], 1 << 20, "as it begins");
    let last = *io.len_bytes.last().expect("reads");
    assert!(last < 1 << 20 && last.is_multiple_of(512), "whole blocks of the window: {last}");
}

#[test]
fn two_writers_are_told_their_parts() {
    need!(path::available());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (script, farlun_bin) = (folder.path().join("near.sh"), farlun_path().display().to_string());
    let writer = |name: &str| {
        let folder = folder.path().join(name).display().to_string();
        format!(
            "{farlun_bin} bench iscsi://{}/{IQN}/0 --op write --overwrite --time 10s --trace {folder}",
            path::FAR
        )
    };
    let text = format!(
        "set -eu\n{} >/dev/null & one=$!\n{} >/dev/null\nwait $one\n",
        writer("one"),
        writer("other")
    );
    std::fs::write(&script, text).expect("a script");
    let far = format!(
        "{farlun_bin} target --json --iqn {IQN} --lun memory:64MiB --listen {}:3260 --insecure",
        path::FAR
    );
    let mut wan = farlun(["wan", "--json", "--validity", "off", "--delay", "8ms", "--rate", "50mbit"]);
    wan.args(["--far", &far, "--", "bash"]).arg(&script);
    run(&mut wan, LIMIT).expect_code(0);
    for name in ["one", "other"] {
        let table = tables::read::<event::SocketSample>(&folder.path().join(name));
        let granted = table.expect("the table sockets").steered.granted_bytes_per_s;
        let parts: Vec<u64> = granted.into_iter().filter(|part| !matches!(*part, 0 | u64::MAX)).collect();
        assert!(!parts.is_empty(), "two bulks fill the queue of a line: {name} hears of it");
        // What arrived at one time may be more than the line carries, but not by much.
        assert!(parts.iter().all(|part| *part < 2 * LINE_BYTES_PER_S), "{name}: {parts:?}");
    }
}

#[test]
fn libiscsi_is_not() {
    need!(path::available(), skip::program("tcpdump"), skip::program("tshark"), skip::program("iscsi-perf"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let perf = format!("timeout -s INT 5 iscsi-perf -b 2048 -m 1 iscsi://{}/{IQN}/0 || true", path::FAR);
    assert_eq!(events(folder.path(), &perf).0, Vec::<String>::new());
}
