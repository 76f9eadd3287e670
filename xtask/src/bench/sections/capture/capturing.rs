//! One of the two tools, capturing while packets are sent.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use e2e::process::until;
use e2e::{Service, farlun_path};
use serde_json::Value;

use super::number_before;
use super::rooms::{DEVICE, Rooms};
use super::send::Sent;
use crate::bench::program::cpu_ns;

const PATIENCE: Duration = Duration::from_secs(60);
/// Time after which both programs have handled every packet sent, except the last block.
const SETTLED: Duration = Duration::from_millis(1200);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Farlun,
    Tcpdump,
}

pub(super) struct Capturing {
    tool: Tool,
    service: Service,
    /// Output folder; removed with the capture.
    _folder: tempfile::TempDir,
    cpu_before_ns: u64,
}

/// Figures of one run.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) sent: Sent,
    pub(super) kept: u64,
    dropped: u64,
    cpu_ns: u64,
}

impl Capturing {
    /// Starts it and waits until it listens.
    pub(super) fn start(rooms: &Rooms, tool: Tool) -> Result<Capturing> {
        let folder = tempfile::Builder::new().prefix("farlun-bench-capture-").tempdir()?;
        let mut service = match tool {
            Tool::Farlun => {
                let program = farlun_path().to_str().context("the binary's path is no text")?;
                let mut command = rooms.here(program);
                command.args(["capture", "-i", DEVICE, "--snap", "96", "--json", "-o"]).arg(folder.path());
                Service::start(&mut command)
            }
            Tool::Tcpdump => {
                let mut command = rooms.here("tcpdump");
                command.args(["-Z", "root", "-i", DEVICE, "-n", "-s", "96", "-B", "65536"]);
                command.args(["--time-stamp-precision=nano", "-w"]).arg(folder.path().join("tcpdump.pcap"));
                Service::start(&mut command)
            }
        };
        match tool {
            Tool::Farlun => drop(service.next_line(PATIENCE)),
            Tool::Tcpdump => {
                until("tcpdump listens", PATIENCE, || service.stderr().contains("listening on"));
            }
        }
        let cpu_before_ns = cpu_ns(service.id())?;
        Ok(Capturing { tool, service, _folder: folder, cpu_before_ns })
    }

    /// Ends the capture after it has seen all packets sent.
    pub(super) fn finish(mut self, sent: Sent) -> Result<Seen> {
        std::thread::sleep(SETTLED);
        let cpu_ns = cpu_ns(self.service.id())? - self.cpu_before_ns;
        self.service.signal("INT");
        let (kept, dropped) = match self.tool {
            Tool::Farlun => {
                let said: Value = serde_json::from_str(&self.service.next_line(PATIENCE))?;
                let one = &said["interfaces"][0];
                let number = |name: &str| one[name].as_u64().with_context(|| format!("no {name} in {said}"));
                (number("packets")?, number("dropped_kernel")? + number("dropped_queue")?)
            }
            Tool::Tcpdump => (0, 0),
        };
        let code = self.service.ended(PATIENCE);
        let said = self.service.stderr();
        if code != 0 {
            bail!("the capture ended with {code}: {said}");
        }
        let (kept, dropped) = match self.tool {
            Tool::Farlun => (kept, dropped),
            Tool::Tcpdump => {
                (number_before(&said, "packets captured")?, number_before(&said, "dropped by kernel")?)
            }
        };
        Ok(Seen { sent, kept, dropped, cpu_ns })
    }
}

impl Seen {
    pub(super) fn cpu_ns(&self) -> f64 {
        self.cpu_ns as f64 / self.kept.max(1) as f64
    }

    pub(super) fn kept_share(&self) -> f64 {
        self.kept as f64 / self.sent.packets as f64
    }

    /// Packets that were sent, and are neither kept nor reported as dropped.
    pub(super) fn unreported(&self) -> u64 {
        self.sent.packets.saturating_sub(self.kept + self.dropped)
    }
}
