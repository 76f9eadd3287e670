//! Our target and our NBD server as processes, known by their ready lines.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::{Service, farlun};

/// Time limit for a server's ready message.
const READY: Duration = Duration::from_secs(60);

/// A running `farlun target` on a port of its own.
pub struct Target {
    /// The process; dropping it ends the target.
    pub service: Service,
    /// Its ready line.
    pub ready: Value,
}

impl Target {
    /// Serves the given LUNs (`memory:64MiB`, `file:PATH`) on loopback.
    #[track_caller]
    pub fn serve(luns: &[&str]) -> Target {
        Target::serve_with(luns, &[])
    }

    /// Like [`Target::serve`], with more flags.
    #[track_caller]
    pub fn serve_with(luns: &[&str], flags: &[&str]) -> Target {
        let mut command = farlun(["target", "--json", "--listen", "127.0.0.1:0"]);
        command.args(flags);
        for lun in luns {
            command.args(["--lun", lun]);
        }
        Target::start(&mut command)
    }

    /// Takes a command that ends in a `farlun target --json` and waits until that is ready.
    #[track_caller]
    pub fn start(command: &mut Command) -> Target {
        Target::try_start(command).unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// Like [`Target::start`], with an error instead of a panic for a target of another build, which may know other
    /// flags; its first line is the sentence, its others standard error.
    pub fn try_start(command: &mut Command) -> Result<Target, String> {
        let mut service = Service::start(command);
        let line = service.try_next_line(READY)?;
        let ready: Value = serde_json::from_str(&line).unwrap_or_default();
        if ready["ready"] != true {
            return Err(format!("the first line is no ready line: {line}"));
        }
        Ok(Target { service, ready })
    }

    /// The address it listens on, `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        self.ready["addresses"][0].as_str().expect("the ready line names an address")
    }

    /// The target's name.
    pub fn iqn(&self) -> &str {
        self.ready["iqn"].as_str().expect("the ready line names an IQN")
    }

    /// The URL that discovery takes.
    pub fn portal(&self) -> String {
        format!("iscsi://{}", self.address())
    }

    /// The URL of one LUN.
    pub fn url(&self, lun: u32) -> String {
        self.url_at(self.address(), lun)
    }

    /// The URL of one LUN as seen through another address.
    pub fn url_at(&self, address: &str, lun: u32) -> String {
        format!("iscsi://{address}/{}/{lun}", self.iqn())
    }
}

/// A running `farlun serve-nbd` on a port of its own.
pub struct NbdServer {
    /// The process; dropping it ends the server.
    pub service: Service,
    /// Its ready line.
    pub ready: Value,
}

impl NbdServer {
    /// Serves a device on loopback.
    #[track_caller]
    pub fn serve(spec: &str) -> NbdServer {
        NbdServer::serve_with(spec, &["--listen", "127.0.0.1:0"])
    }

    /// Serves a device with these flags.
    #[track_caller]
    pub fn serve_with(spec: &str, flags: &[&str]) -> NbdServer {
        let mut command = farlun(["serve-nbd", spec, "--json"]);
        let mut service = Service::start(command.args(flags));
        let line = service.next_line(READY);
        let ready: Value = serde_json::from_str(&line).unwrap_or_default();
        assert_eq!(ready["ready"], true, "the first line is no ready line: {line}");
        NbdServer { service, ready }
    }

    /// Its TCP address, `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        self.ready["addresses"][0].as_str().expect("the ready line names an address")
    }

    /// URI of the export: over TCP if the server listens there, and otherwise over its first Unix socket.
    pub fn uri(&self) -> String {
        let export = self.ready["export"].as_str().expect("the ready line names the export");
        match self.ready["sockets"][0].as_str() {
            Some(path) if self.ready["addresses"][0].is_null() => {
                format!("nbd+unix:///{export}?socket={path}")
            }
            _ => format!("nbd://{}/{export}", self.address()),
        }
    }
}
