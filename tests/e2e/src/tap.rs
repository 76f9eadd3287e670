//! Captures made over an emulated path, and what tools say of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::process::output;
use crate::{farlun, farlun_path, path, run, tgtd};

/// Longest time that a command may take.
pub const LIMIT: Duration = Duration::from_secs(120);
/// Name of the target.
pub const IQN: &str = "iqn.2026-11.io.farlun:analyze";

/// What the last datagram of a capture says: when it is in the file, so is everything before it.
const LAST: &str = "farlun-nothing-follows";

/// Place at which packets are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The initiator's host.
    Near,
    /// The target's host.
    Far,
}

/// A load over a path, and a tap at one of its ends.
pub struct Tap<'a> {
    /// Place of the tap.
    pub at: At,
    /// Bytes that are kept of each packet; 0 for all.
    pub snap: usize,
    /// Flags of `farlun wan`.
    pub path: &'a str,
    /// What to set at the near end, and at the far end, before anything is started.
    pub settings: [&'a str; 2],
    /// The target's LUN and further flags; of tgt nothing.
    pub target: Served<'a>,
    /// A packet that tcpdump has lost is a failure.
    pub complete: bool,
    /// Commands of the initiator: `URL` stands for the LUN, `FARLUN` for the binary.
    pub load: &'a str,
}

/// The target.
pub enum Served<'a> {
    /// `farlun target` with these flags.
    Farlun(&'a str),
    /// tgt with a disk of 64 MiB.
    Tgt,
    /// The same with parameters of its sessions, by name and value.
    TgtWith(&'a [(&'a str, &'a str)]),
}

impl Default for Tap<'_> {
    /// 8 ms and 100 Mb/s, 64 KiB reads at depth 4 for a second from our own target, seen at the near end.
    fn default() -> Self {
        Tap {
            at: At::Near,
            snap: 0,
            path: "--delay 4ms --rate 100mbit",
            settings: ["", ""],
            complete: true,
            target: Served::Farlun("--lun memory:64MiB"),
            load: "FARLUN bench URL --json --op read --block 64KiB --depth 4 --time 1s",
        }
    }
}

impl Tap<'_> {
    /// Makes the capture `NAME.pcap` in a folder.
    pub fn capture(&self, folder: &Path, name: &str) -> PathBuf {
        self.judged(folder, name).0
    }

    /// The same, and the validity of the run.
    pub fn judged(&self, folder: &Path, name: &str) -> (PathBuf, Result<(), String>) {
        let (file, log) = (folder.join(format!("{name}.pcap")), folder.join(format!("{name}.log")));
        let [near_tap, far_tap] = [At::Near, At::Far].map(|at| match at == self.at {
            true => tcpdump(&file, &log, self.snap),
            false => String::new(),
        });
        let bin = farlun_path().display().to_string();
        let (serve, url) = self.target.script(folder, name);
        let load = self.load.replace("URL", &url).replace("FARLUN", &bin);
        let [near_settings, far_settings] = self.settings;
        // The tap at the far end is ended with its host.
        let end = if near_tap.is_empty() {
            String::new()
        } else {
            let all = format!("grep -q '^0 packets dropped by kernel' {}\n", log.display());
            format!("kill -INT $dump\nwait $dump || true\n{}", if self.complete { all.as_str() } else { "" })
        };
        let script = |name: &str, text: String| {
            let file = folder.join(name);
            std::fs::write(&file, format!("set -eu\n{text}")).expect("a script");
            file
        };
        let ready = ready(folder, name);
        let near = format!(
            "{near_settings}\n{near_tap}until [ -e {} ]; do sleep 0.05; done\n{{ {load}\n}} >&2\n\
             until tail -c 65536 {} | grep -aq {LAST}; do echo {LAST} >/dev/udp/{}/9; sleep 0.05; done\n{end}",
            ready.display(),
            file.display(),
            path::FAR
        );
        let near = script(&format!("{name}-near.sh"), near);
        let far = script(&format!("{name}-far.sh"), format!("{far_settings}\n{far_tap}{serve}"));
        let mut command = farlun(["wan", "--json", "--seed", "7"]);
        command.args(self.path.split_whitespace()).arg("--far").arg(format!("sh {}", far.display()));
        let finished = run(command.args(["--", "bash"]).arg(&near), LIMIT);
        assert_eq!(finished.code, 0, "{name}: {finished:#?}");
        let document = finished.json();
        assert_eq!(document["near"]["exit_code"], 0, "{name}: {finished:#?}");
        (file, path::validity(&document))
    }
}

impl Served<'_> {
    /// The far end's script, and the LUN's URL.
    fn script(&self, folder: &Path, name: &str) -> (String, String) {
        let (far, ready) = (path::FAR, ready(folder, name));
        match self {
            Served::Farlun(flags) => {
                let bin = farlun_path().display();
                let serve = format!(
                    "touch {}\nexec {bin} target --json --iqn {IQN} --listen {far}:3260 --insecure {flags}\n",
                    ready.display()
                );
                (serve, format!("iscsi://{far}/{IQN}/0"))
            }
            Served::Tgt => Served::TgtWith(&[]).script(folder, name),
            Served::TgtWith(parameters) => {
                let disk = folder.join(format!("{name}.disk"));
                std::fs::File::create(&disk).and_then(|file| file.set_len(64 << 20)).expect("a disk");
                let serve = tgtd::script_with(&format!("{far}:3260"), &disk, &ready, parameters);
                (serve, format!("iscsi://{far}/{}/1", tgtd::IQN))
            }
        }
    }
}

/// Made when the target can be asked.
fn ready(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.ready"))
}

fn tcpdump(file: &Path, log: &Path, snap: usize) -> String {
    let (file, log) = (file.display(), log.display());
    // Some tcpdumps give up root and may then not write here.
    format!(
        "tcpdump -Z root -i wan0 -n -U -s {snap} -B 65536 --time-stamp-precision=nano -w {file} \
         tcp port 3260 or udp port 9 2>{log} & dump=$!\n\
         until grep -q 'listening on' {log}; do sleep 0.05; done\n"
    )
}

/// The lines of a list, without the heading, split into fields.
pub fn list(file: &Path, what: &str) -> Vec<Vec<String>> {
    list_of(file, what, &[])
}

/// The same with more flags.
pub fn list_of(file: &Path, what: &str, flags: &[&str]) -> Vec<Vec<String>> {
    let mut command = farlun(["analyze", "--list", what]);
    let said = run(command.args(flags).arg(file), LIMIT).expect_code(0).stdout;
    said.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Everything as one document.
pub fn analyzed(file: &Path) -> Value {
    run(farlun(["analyze", "--json"]).arg(file), LIMIT).expect_code(0).json()
}

/// A count of commands: the number, or the middle of its bounds; `None` if they are not counted.
pub fn count(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| Some((value["least"].as_u64()? + value["most"].as_u64()?) / 2))
}

/// What tshark says of the packets that `filter` lets through.
pub fn tshark(file: &Path, decode: &[&str], filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(file).args(decode).args(["-Y", filter, "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    output(&mut command).lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}
