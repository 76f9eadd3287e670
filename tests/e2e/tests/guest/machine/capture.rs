//! A capture of a guest's link, and the copies that `FARLUN_GUEST_CAPTURES` collects.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::process::{output, until};
use e2e::{Service, skip};

use super::{GUEST, LIMIT, Machine};

/// Text of the last datagram: what was sent before is in the file with it.
const LAST: &str = "farlun-nothing-follows";

/// A tcpdump that runs on the first link.
pub(crate) struct Capture {
    tcpdump: Service,
    name: &'static str,
    raw: PathBuf,
}

impl Capture {
    /// An error with the reason where captures cannot be made.
    pub(crate) fn available() -> Result<(), String> {
        skip::program("tcpdump")?;
        skip::program("gzip")
    }

    /// Returns when tcpdump listens.
    #[track_caller]
    pub(crate) fn start(machine: &Machine, name: &'static str) -> Capture {
        let raw = machine.folder().join(format!("{name}.raw"));
        let mut command = Command::new("tcpdump");
        command.args(["-i", "tap0", "-U", "--immediate-mode", "-B", "16384", "-Z", "root", "-w"]).arg(&raw);
        let tcpdump = Service::start(&mut machine.near(&command));
        until("tcpdump listens", LIMIT, || tcpdump.stderr().contains("listening on"));
        Capture { tcpdump, name, raw }
    }

    /// Ends it when all that was sent so far is in the file: the packets of iSCSI.
    #[track_caller]
    pub(crate) fn end(mut self, machine: &Machine) -> PathBuf {
        let script = format!("printf %s {LAST} >/dev/udp/{GUEST}/9");
        output(&mut machine.near(Command::new("bash").args(["-c", &script])));
        until("the capture holds the last datagram", LIMIT, || {
            let bytes = fs::read(&self.raw).unwrap_or_default();
            bytes.windows(LAST.len()).any(|window| window == LAST.as_bytes())
        });
        self.tcpdump.terminate();
        let said = self.tcpdump.stderr();
        assert!(said.contains("\n0 packets dropped by kernel"), "tcpdump has lost packets: {said}");
        iscsi_only(&self.raw, self.name)
    }
}

/// The packets of iSCSI in `raw`, as the file NAME.pcap beside it.
#[track_caller]
pub(crate) fn iscsi_only(raw: &Path, name: &str) -> PathBuf {
    let file = raw.with_file_name(format!("{name}.pcap"));
    output(
        Command::new("tcpdump").args(["-Z", "root", "-r"]).arg(raw).arg("-w").arg(&file).arg("tcp port 3260"),
    );
    file
}

/// Leaves a compressed copy, and a line about it, in the folder of `FARLUN_GUEST_CAPTURES`, if that is set.
#[track_caller]
pub(crate) fn keep(file: &Path, commands: u64, made: &str) {
    let Some(folder) = std::env::var_os("FARLUN_GUEST_CAPTURES").map(PathBuf::from) else { return };
    fs::create_dir_all(&folder).expect("a folder for captures");
    let name = file.file_name().expect("a capture has a name").to_string_lossy();
    let packed = folder.join(format!("{name}.gz"));
    let mut gzip = Command::new("gzip");
    gzip.args(["-9nc"]).arg(file).stdout(fs::File::create(packed).expect("a file for the capture"));
    assert!(gzip.status().expect("gzip starts").success(), "gzip fails on {}", file.display());
    let list = fs::OpenOptions::new().create(true).append(true).open(folder.join("captures.txt"));
    writeln!(list.expect("a list of captures"), "{name}.gz: {commands} commands; {made}").expect("a line");
}
