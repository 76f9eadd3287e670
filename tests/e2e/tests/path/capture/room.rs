//! Two network namespaces with devices between them on which nothing happens by itself.

use std::process::Command;

use e2e::process::{output, until};
use e2e::{Service, skip};
use serde_json::Value;

use super::taken::LIMIT;

/// Two rooms, `here` and `there`, joined by the devices `first` and `second`: 10.77.0.1 and 10.77.1.1 here, .2 there.
pub(crate) struct Rooms {
    here: Service,
    there: Service,
}

/// Whether there can be rooms.
pub(crate) fn available() -> Result<(), String> {
    skip::root()?;
    for program in ["unshare", "nsenter", "ip", "iperf3"] {
        skip::program(program)?;
    }
    e2e::path::available()
}

impl Rooms {
    #[track_caller]
    pub(crate) fn new() -> Rooms {
        let room = || {
            let mut command = Command::new("unshare");
            let mut room = Service::start(command.args(["--net", "sh", "-c", "echo ready; exec sleep 3600"]));
            room.next_line(LIMIT);
            room
        };
        let rooms = Rooms { here: room(), there: room() };
        let peer = rooms.there.id().to_string();
        for (network, device) in [(0, "first"), (1, "second")] {
            rooms.here(&format!("ip link add {device} type veth peer name {device} netns {peer}"));
            for (room, end) in [(&rooms.here, 1), (&rooms.there, 2)] {
                // No neighbour discovery: every packet is one of the test's.
                within(room, &format!("echo 1 > /proc/sys/net/ipv6/conf/{device}/disable_ipv6"));
                within(room, &format!("ip address add 10.77.{network}.{end}/24 dev {device}"));
                within(room, &format!("ip link set {device} up"));
            }
        }
        rooms.here("ip link set lo up");
        rooms
    }

    /// What a shell says that runs `script` in the first room.
    #[track_caller]
    pub(crate) fn here(&self, script: &str) -> String {
        within(&self.here, script)
    }

    /// A command that starts `program` in the first room.
    pub(crate) fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &self.here.id().to_string()]).arg(program);
        command
    }

    /// Packets that a device of the first room has sent and got.
    #[track_caller]
    pub(crate) fn counted(&self, device: &str) -> u64 {
        let said = self.here(&format!("ip -json -statistics link show {device}"));
        let said: Value = serde_json::from_str(&said).expect("JSON of ip");
        let of = |way: &str| said[0]["stats64"][way]["packets"].as_u64();
        of("rx").zip(of("tx")).map(|(rx, tx)| rx + tx).unwrap_or_else(|| panic!("no counters in {said}"))
    }

    /// Sends `bytes` from the first room over each of the two devices.
    #[track_caller]
    pub(crate) fn traffic(&self, bytes: &str) {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &self.there.id().to_string(), "iperf3", "-s", "--forceflush"]);
        let mut server = Service::start(&mut command);
        server.next_line(LIMIT);
        until("iperf3 listens", LIMIT, || {
            within(&self.there, "cat /proc/net/tcp /proc/net/tcp6").contains(":1451 ")
        });
        for network in [0, 1] {
            self.here(&format!("iperf3 -c 10.77.{network}.2 -n {bytes} -l 64K"));
        }
        drop(server);
        // Who waits for nothing but time has had its last packet: 06 is TIME_WAIT.
        until("every connection has come to its end", LIMIT, || {
            [&self.here, &self.there].iter().all(|room| {
                let tables = within(room, "cat /proc/net/tcp /proc/net/tcp6");
                let mut states = tables.lines().filter_map(|line| line.split_whitespace().nth(3));
                states.all(|state| matches!(state, "st" | "06"))
            })
        });
    }
}

#[track_caller]
fn within(room: &Service, script: &str) -> String {
    let mut command = Command::new("nsenter");
    output(command.args(["--net", "--target", &room.id().to_string(), "sh", "-euc", script]))
}
