//! A line is shared by weight (`farlun target --weight`): between two that read and between two that write, over a path.
//!
//! What the parts are like when somebody comes or goes is asked in virtual time (`cargo test -p control share`).

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use e2e::path::{self, FAR};
use e2e::{decide, farlun, farlun_path, need, run};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(180);
const IQN: &str = "iqn.2026-11.io.farlun:weights";
/// Each loads the line for so long, and what the first seconds carry is not counted: they are for finding the line.
const SECONDS: u32 = 30;
const UNTIL_SHARED: u32 = 10;

/// A script in which an initiator of its own name loads the line. The name is made of that of the host; one that is in a
/// file of this machine is covered up.
fn initiator(name: &str, op: &str, folder: &Path) -> String {
    format!(
        "unshare --uts --mount sh -c 'echo {name} >/proc/sys/kernel/hostname\n\
         [ ! -d /etc/iscsi ] || mount -t tmpfs none /etc/iscsi\n\
         exec {} bench iscsi://{FAR}/{IQN}/0 --json --op {op} --overwrite --time {SECONDS}s --warmup {UNTIL_SHARED}s --cc cubic' \
         >{}/{name}.json",
        farlun_path().display(),
        folder.display()
    )
}

/// Bytes per second of an initiator that has twice the weight, and of one that has not, both at work at the same time; and
/// the validity of the run.
fn shared(op: &str) -> ([f64; 2], Result<(), String>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let near = folder.path().join("near.sh");
    let [heavy, light] = ["heavy", "light"].map(|name| initiator(name, op, folder.path()));
    fs::write(&near, format!("set -eu\n{heavy} & one=$!\n{light}\nwait $one\n")).expect("a script");
    let far = format!(
        "{} target --json --iqn {IQN} --lun memory:64MiB --listen {FAR}:3260 --insecure --cc cubic \
         --weight iqn.2026-11.io.farlun:initiator.heavy=2",
        farlun_path().display()
    );
    let mut wan = farlun(["wan", "--json", "--delay", "20ms", "--rate", "100mbit"]);
    let finished = run(wan.args(["--far", &far, "--", "sh"]).arg(&near), LIMIT);
    assert_eq!(finished.code, 0, "{finished:#?}");
    let document = finished.json();
    assert_eq!(document["near"]["exit_code"], 0, "{finished:#?}");
    let rates = ["heavy", "light"].map(|name| {
        let said = fs::read(folder.path().join(format!("{name}.json"))).expect("what it said");
        let said: Value = serde_json::from_slice(&said).expect("JSON");
        said["bytes_per_s"].as_f64().expect("a rate")
    });
    (rates, path::validity(&document))
}

/// Readers and writers at the same time, each pair on a line of its own: at 100 Mb/s the machine has room for both.
#[test]
fn a_line_is_shared_by_weight() {
    need!(path::available());
    let _turn = path::turn();
    let (readers, writers) = thread::scope(|scope| {
        let readers = scope.spawn(|| shared("read"));
        let writers = shared("write");
        (readers.join().expect("the readers came to an end"), writers)
    });
    for (op, ([heavy, light], validity)) in [("read", readers), ("write", writers)] {
        let (line, ratio) = (12.5e6 * 1448.0 / 1538.0, heavy / light);
        println!("{op}: {heavy:.0} and {light:.0} bytes per second, {ratio:.2}");
        decide!((1.6..=2.4).contains(&ratio), validity, "{op}: {heavy:.0} beside {light:.0}, {ratio:.2}");
        decide!(heavy + light > 0.8 * line, validity, "{op}: {heavy:.0} and {light:.0} of {line:.0}");
    }
}
