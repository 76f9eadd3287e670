//! What programs of others take on the emulated path is what its model says: iperf3, and libiscsi with tgt.
//!
//! On no machine is anything faster than the line, or sooner back than a round trip; how much slower it may be is asked
//! only where the machine had time for it. Latency to the packet is `path_model.rs`' and the self-test's.

use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::path::{self, FAR};
use e2e::{decide, farlun, need, run, skip, tgtd};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(180);

/// Of a packet of 1500 bytes TCP's payload, beside what it takes on the line: Ethernet's header, checksum, preamble and gap.
const GOODPUT: f64 = 1448.0 / 1538.0;

/// Runs a script at each end of a path; the validity of the run.
#[track_caller]
fn between(folder: &Path, flags: &str, far: &str, near: &str) -> Result<(), String> {
    let _turn = path::turn();
    let script = |name: &str, text: &str| {
        let script = folder.join(name);
        fs::write(&script, format!("set -eu\n{text}\n")).expect("a script");
        script
    };
    let (far, near) = (script("far.sh", far), script("near.sh", near));
    let mut command = farlun(["wan", "--json"]);
    command.args(flags.split_whitespace()).arg("--far").arg(format!("exec sh {}", far.display()));
    let finished = run(command.args(["--", "sh"]).arg(&near), LIMIT);
    assert_eq!(finished.code, 0, "{finished:#?}");
    let document = finished.json();
    assert_eq!(document["near"]["exit_code"], 0, "{finished:#?}");
    path::validity(&document)
}

#[test]
fn iperf3_has_the_payload_of_the_line() {
    need!(path::available(), skip::program("iperf3"));
    let folder = tempfile::tempdir().expect("a folder");
    let result = folder.path().join("iperf3.json");
    for (rate, bits_per_s) in [("20mbit", 20e6), ("100mbit", 100e6)] {
        let flags = format!("--delay 5ms --rate {rate} --mtu 1500 --queue 250kB");
        let near = format!("exec iperf3 -c {FAR} -t 3 -C cubic -J > {}", result.display());
        let validity = between(folder.path(), &flags, "exec iperf3 -s -1", &near);
        let said: Value = serde_json::from_slice(&fs::read(&result).expect("a result")).expect("JSON");
        let found = said["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate");
        let share = found / (bits_per_s * GOODPUT);
        assert!(share <= 1.01, "{rate}: {found} bit/s are more than the line carries");
        decide!(share >= 0.93, validity, "{rate}: {share} of what the line carries");
    }
}

/// Seconds that `qemu-img bench` took, and the validity of the run.
#[track_caller]
fn qemu_and_tgt(flags: &str, load: &str) -> (f64, Result<(), String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let [disk, ready, said] = ["disk", "ready", "said"].map(|name| folder.path().join(name));
    fs::File::create(&disk).and_then(|file| file.set_len(64 << 20)).expect("a disk");
    let far = tgtd::script(&format!("{FAR}:3260"), &disk, &ready);
    let near = format!(
        "until [ -e {} ]; do sleep 0.05; done\nexec qemu-img bench -f raw {load} iscsi://{FAR}/{}/1 > {}",
        ready.display(),
        tgtd::IQN,
        said.display()
    );
    let validity = between(folder.path(), flags, &far, &near);
    let said = fs::read_to_string(&said).expect("what qemu-img said");
    let seconds =
        said.split("Run completed in ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    (seconds.unwrap_or_else(|| panic!("no time: {said}")), validity)
}

#[test]
fn a_read_of_libiscsi_from_tgt_takes_a_round_trip() {
    need!(path::available(), tgtd::available(), skip::qemu_iscsi());
    let (seconds, validity) = qemu_and_tgt("--delay 20ms --rate 1gbit", "-c 25 -d 1 -s 4096");
    assert!(seconds >= 25.0 * 0.040, "{seconds} s for 25 round trips of 40 ms");
    decide!(seconds <= 25.0 * 0.040 * 1.1, validity, "{seconds} s for 25 round trips of 40 ms");
}

#[test]
fn reads_of_libiscsi_from_tgt_fill_a_line() {
    need!(path::available(), tgtd::available(), skip::qemu_iscsi());
    let (seconds, validity) =
        qemu_and_tgt("--delay 2ms --rate 50mbit --queue 500kB", "-c 300 -d 16 -s 65536");
    let least = 300.0 * 65_536.0 * 8.0 / (50e6 * GOODPUT);
    assert!(seconds >= least, "{seconds} s for what takes the line {least}");
    decide!(seconds <= least * 1.1, validity, "{seconds} s for what takes the line {least}");
}
