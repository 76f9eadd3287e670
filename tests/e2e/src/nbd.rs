//! Our NBD server as a process, known by its ready line.

use std::time::Duration;

use serde_json::Value;

use crate::{Service, farlun};

/// Time until the server says that it is ready.
const READY: Duration = Duration::from_secs(60);

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
