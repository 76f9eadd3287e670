//! Chooser of the number of connections of a session, and the additional connection in progress.

use control::Connections;
use event::{Host, Instant, WindowNotice};
use net::Ready;
use proto::params::Params;

use crate::login::connection_login::Dial;
use crate::options::Options;

/// Chooser of the number of connections, with the connection in progress.
pub(super) struct Growth {
    pub(super) connections: Connections,
    pub(super) tsih: u16,
    pub(super) dial: Option<Dial>,
}

impl Growth {
    /// Creates the chooser of a new session, or of one that continues `before` after a reconnect; `None` if the number
    /// is fixed.
    pub(super) fn of(
        options: &Options,
        params: &Params,
        tsih: u16,
        before: Option<Growth>,
    ) -> Option<Growth> {
        let agreed = params.max_connections;
        // Other targets have trouble with several connections (LIO at the end of such sessions), so they get one by
        // default.
        let may_grow = options.connections.is_none() && agreed > 1 && params.peer_software.is_some();
        let connections = before.map(|before| before.connections.again(agreed));
        may_grow.then(|| Growth {
            connections: connections.unwrap_or_else(|| Connections::new(agreed)),
            tsih,
            dial: None,
        })
    }

    /// Passes a notification of a sender's congestion window to the chooser.
    pub(super) fn told(&mut self, host: Host, notice: &WindowNotice) {
        self.connections.told(host, notice);
    }

    /// Gives up a connection in progress: the session is not served until the next load begins, so the attempt would
    /// time out.
    pub(super) fn restart(&mut self) {
        self.dial = None;
        self.connections.restart();
    }

    /// Handles readiness of the socket of a connection in progress.
    pub(super) fn ready(&mut self, ready: Ready) {
        if let Some(dial) = &mut self.dial {
            dial.ready(ready);
        }
    }

    /// Deadline of a connection in progress.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.dial.as_ref().map(Dial::deadline)
    }
}
