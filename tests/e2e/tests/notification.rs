//! What a target tells of its window: an initiator of our own kind hears it, libiscsi sees plain RFC 7143.

use std::path::Path;
use std::time::Duration;

use e2e::process::output;
use e2e::{farlun, farlun_path, need, path, run, skip};

const IQN: &str = "iqn.2026-11.io.farlun:notification";
const LIMIT: Duration = Duration::from_secs(120);

/// AsyncEvents that cross a path behind a short ring while `near` reads; each with the first bytes of its data.
fn events(folder: &Path, near: &str) -> Vec<String> {
    let _turn = path::turn();
    let (file, log) = (folder.join("path.pcap"), folder.join("tcpdump.log"));
    let (dump, said, farlun_bin) = (file.display(), log.display(), farlun_path().display());
    let script = folder.join("near.sh");
    let text = format!(
        "set -eu\ntcpdump -Z root -i any -n -U -B 65536 -w {dump} tcp port 3260 2>{said} & dump=$!\n\
         until grep -q 'listening on' {said}; do sleep 0.05; done\n{near} >/dev/null\n\
         sleep 1\nkill -INT $dump\nwait $dump || true\n"
    );
    std::fs::write(&script, text).expect("a script");
    let far = format!(
        "{farlun_bin} target --json --iqn {IQN} --lun memory:64MiB --listen {}:3260 --insecure --policy study --cc reno",
        path::FAR
    );
    let mut wan = farlun(["wan", "--json", "--validity", "off", "--delay", "8ms", "--rate", "1gbit"]);
    wan.args(["--ring", "80", "--far", &far, "--", "sh"]).arg(&script);
    run(&mut wan, LIMIT).expect_code(0);
    let mut tshark = std::process::Command::new("tshark");
    tshark.args(["-n", "-r"]).arg(&file).args(["-Y", "iscsi.opcode == 0x32", "-T", "fields"]);
    tshark.args(["-e", "iscsi.asyncevent"]);
    output(&mut tshark).lines().map(str::to_owned).collect()
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
    let events = events(folder.path(), &bench);
    assert!(!events.is_empty(), "the ring of 80 cuts the window of a megabyte");
    assert!(events.len() <= 45, "ten a second at most: {}", events.len());
    assert!(events.iter().all(|event| event.split(',').all(|event| event == "0xff")), "{events:?}");
    let io = store::tables::read::<event::Io>(folder.path()).expect("the table io");
    assert_eq!(io.len_bytes[0], 1 << 20, "as it begins");
    let last = *io.len_bytes.last().expect("reads");
    assert!(last < 1 << 20 && last.is_multiple_of(512), "whole blocks of the window: {last}");
}

#[test]
fn libiscsi_is_not() {
    need!(path::available(), skip::program("tcpdump"), skip::program("tshark"), skip::program("iscsi-perf"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let perf = format!("timeout -s INT 5 iscsi-perf -b 2048 -m 1 iscsi://{}/{IQN}/0 || true", path::FAR);
    assert_eq!(events(folder.path(), &perf), Vec::<String>::new());
}
