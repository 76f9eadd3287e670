//! Debian's `tgtd` as a process of our own: own control socket, own portal on loopback, one disk at LUN 1.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::{Service, port, process, skip};

/// The name of the target that [`Tgtd`] serves.
pub const IQN: &str = "iqn.2026-11.io.farlun:tgt";

/// How long it may take to listen.
const READY: Duration = Duration::from_secs(60);

/// A running tgtd.
pub struct Tgtd {
    service: Service,
    control: u16,
    port: u16,
}

impl Tgtd {
    /// Serves the file `disk` at LUN 1 (tgt's LUN 0 is its controller).
    #[track_caller]
    pub fn serve(disk: &Path) -> Tgtd {
        // tgtd's control port is a signed number of 16 bits, as these ports are: what is one's own is so twice.
        let port = port::unused();
        let control = port;
        let mut command = Command::new("tgtd");
        command.args(["-f", "-C", &control.to_string(), "--iscsi", &format!("portal=127.0.0.1:{port}")]);
        let mut tgtd = Tgtd { service: Service::start(&mut command), control, port };
        let control = control.to_string();
        process::until("tgtd answers on its control socket", READY, || {
            assert!(tgtd.service.alive(), "tgtd ended: {}", tgtd.service.stderr());
            let mut show = Command::new("tgtadm");
            show.args(["-C", &control, "--op", "show", "--mode", "sys"]);
            process::run(&mut show, READY).code == 0
        });
        process::output(Command::new("sh").args(["-ec", &configuration(&control, disk)]));
        process::until("tgtd listens", READY, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        tgtd
    }

    /// Sets a parameter of the target's sessions.
    #[track_caller]
    pub fn set(&self, name: &str, value: &str) {
        let mut admin = Command::new("tgtadm");
        admin.args(["-C", &self.control.to_string(), "--lld", "iscsi", "--op", "update", "--mode", "target"]);
        process::output(admin.args(["--tid", "1", "--name", name, "--value", value]));
    }

    /// Sets parameters of its disk, such as `thin_provisioning=1`.
    #[track_caller]
    pub fn set_disk(&self, parameters: &str) {
        let mut admin = Command::new("tgtadm");
        admin.args(["-C", &self.control.to_string(), "--lld", "iscsi", "--op", "update"]);
        admin.args(["--mode", "logicalunit", "--tid", "1", "--lun", "1", "--params", parameters]);
        process::output(&mut admin);
    }

    /// Makes an account and binds it to the target: `outgoing` is what the target proves itself with, any
    /// other is what initiators need from now on.
    #[track_caller]
    pub fn account(&self, user: &str, password: &str, outgoing: bool) {
        let admin = format!("tgtadm -C {} --lld iscsi", self.control);
        let outgoing = if outgoing { " --outgoing" } else { "" };
        let script = format!(
            "{admin} --op new --mode account --user {user} --password {password}\n\
             {admin} --op bind --mode account --tid 1 --user {user}{outgoing}\n"
        );
        process::output(Command::new("sh").args(["-ec", &script]));
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.service.id()
    }

    /// The URL of one LUN; the disk is LUN 1.
    pub fn url(&self, lun: u32) -> String {
        format!("{}/{IQN}/{lun}", self.portal())
    }

    /// The URL that discovery takes.
    pub fn portal(&self) -> String {
        format!("iscsi://127.0.0.1:{}", self.port)
    }
}

impl Drop for Tgtd {
    fn drop(&mut self) {
        // It takes its time to end on SIGTERM and keeps nothing that would be lost.
        self.service.kill();
        for suffix in ["", ".lock"] {
            let _ = fs::remove_file(format!("/var/run/tgtd/socket.{}{suffix}", self.control));
        }
    }
}

/// A shell script that serves `disk` at `portal` until it is asked to end; it makes the file `ready` as soon as the target
/// can be asked.
pub fn script(portal: &str, disk: &Path, ready: &Path) -> String {
    script_with(portal, disk, ready, &[])
}

/// The same with parameters of its sessions, by name and value.
pub fn script_with(portal: &str, disk: &Path, ready: &Path, parameters: &[(&str, &str)]) -> String {
    // A signed 16-bit number that no other tgtd of this machine uses.
    let control = port::unused().to_string();
    let set = |(name, value): &(&str, &str)| {
        format!(
            "tgtadm -C {control} --lld iscsi --op update --mode target --tid 1 --name {name} --value {value}\n"
        )
    };
    let parameters: String = parameters.iter().map(set).collect();
    format!(
        "trap 'kill $tgtd; rm -f /var/run/tgtd/socket.{control} /var/run/tgtd/socket.{control}.lock' TERM\n\
         tgtd -f -C {control} --iscsi portal={portal} & tgtd=$!\n\
         until tgtadm -C {control} --op show --mode sys >/dev/null 2>&1; do sleep 0.05; done\n\
         {}{parameters}\
         touch {}\nwait\n",
        configuration(&control, disk),
        ready.display()
    )
}

/// The shell commands that give the tgtd at `control` one target with one disk, open to everybody.
pub fn configuration(control: &str, disk: &Path) -> String {
    let admin = format!("tgtadm -C {control} --lld iscsi");
    let disk = disk.display();
    format!(
        "{admin} --op new --mode target --tid 1 -T {IQN}\n\
         {admin} --op new --mode logicalunit --tid 1 --lun 1 -b {disk}\n\
         {admin} --op bind --mode target --tid 1 -I ALL\n"
    )
}

/// Whether tgt is there and may be started.
pub fn available() -> Result<(), String> {
    skip::program("tgtd")?;
    skip::program("tgtadm")?;
    skip::root()
}
