//! Two network namespaces with a veth pair between them, `here` 10.78.0.1 and `there` 10.78.0.2.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::process::until;
use e2e::{Service, run as run_process};
use serde_json::Value;

use super::send::Sent;

pub(super) const DEVICE: &str = "here";
/// Address without a host; a static neighbour entry makes the packets leave all the same.
const NOBODY: &str = "10.78.0.77";
const PATIENCE: Duration = Duration::from_secs(30);
/// Port 5201 as /proc/net/tcp has it.
const IPERF3: &str = ":1451 ";

pub(super) struct Rooms {
    here: Service,
    there: Service,
}

impl Rooms {
    pub(super) fn new() -> Result<Rooms> {
        let room = || {
            let mut command = Command::new("unshare");
            let mut room =
                Service::start(command.args(["--net", "sh", "-c", "echo ready; exec sleep 36000"]));
            room.next_line(PATIENCE);
            room
        };
        let rooms = Rooms { here: room(), there: room() };
        let peer = rooms.there.id();
        rooms.shell(&rooms.here, &format!("ip link add {DEVICE} type veth peer name there netns {peer}"))?;
        rooms.shell(&rooms.there, "ip address add 10.78.0.2/24 dev there && ip link set there up")?;
        rooms.shell(
            &rooms.here,
            &format!(
                "ip address add 10.78.0.1/24 dev {DEVICE} && ip link set {DEVICE} up && \
                 ip neighbour add {NOBODY} lladdr 02:00:00:00:00:77 dev {DEVICE} nud permanent"
            ),
        )?;
        Ok(rooms)
    }

    /// A command that runs `program` here.
    pub(super) fn here(&self, program: &str) -> Command {
        within(&self.here, program)
    }

    /// Sends datagrams, at a rate or as fast as it goes.
    pub(super) fn send(&self, per_s: Option<u64>, seconds: u32) -> Result<Sent> {
        let program = std::env::current_exe().context("find this program")?;
        let mut command = self.here(program.to_str().context("the path of this program is no text")?);
        let rate = per_s.unwrap_or(0).to_string();
        command.args(["bench-send", &rate, &seconds.to_string(), &format!("{NOBODY}:9")]);
        let said =
            run_process(&mut command, PATIENCE + Duration::from_secs(seconds.into())).expect_code(0).stdout;
        Sent::parse(&said)
    }

    /// Mb/s of a TCP stream that is held at 2 Gb/s, and how busy the processors were.
    pub(super) fn iperf3(&self, seconds: u32) -> Result<[f64; 2]> {
        let _server = Service::start(within(&self.there, "iperf3").args(["-s", "-1"]));
        until("iperf3 listens", PATIENCE, || {
            let mut command = within(&self.there, "cat");
            let said = run_process(command.args(["/proc/net/tcp", "/proc/net/tcp6"]), PATIENCE).stdout;
            said.contains(IPERF3)
        });
        let before = busy()?;
        let mut command = self.here("iperf3");
        command.args(["-c", "10.78.0.2", "-J", "-b", "2G", "-t", &seconds.to_string()]);
        let limit = PATIENCE + Duration::from_secs(seconds.into());
        let document: Value = run_process(&mut command, limit).expect_code(0).json();
        let after = busy()?;
        let rate = document["end"]["sum_received"]["bits_per_second"].as_f64();
        let share = (after.0 - before.0) / (after.1 - before.1);
        Ok([rate.with_context(|| format!("iperf3 measured nothing: {document}"))? / 1e6, share])
    }

    fn shell(&self, room: &Service, script: &str) -> Result<()> {
        let finished = run_process(within(room, "sh").args(["-c", script]), PATIENCE);
        ensure!(finished.code == 0, "`{script}` failed: {}", finished.stderr.trim());
        Ok(())
    }
}

fn within(room: &Service, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--net", "--target", &room.id().to_string(), program]);
    command
}

/// Ticks of all processors that were not idle, and all ticks (proc(5), /proc/stat).
fn busy() -> Result<(f64, f64)> {
    let text = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    ensure!(ticks.len() >= 8, "/proc/stat begins with '{line}'");
    let all: f64 = ticks[..8].iter().sum();
    Ok((all - ticks[3] - ticks[4], all))
}
