//! Listening sockets.

use std::io;
use std::net::{SocketAddr, TcpListener};

use net::tcp;

use crate::serve::ServeError;
use crate::serve::connection::portals::Portal;

/// A listening socket.
pub(crate) struct Listener {
    /// Configured address; its port may be 0, unlike the port of the socket.
    pub(crate) wanted: SocketAddr,
    /// See [`Config::listening`](crate::serve::Config::listening).
    pub(crate) is_v6_only: bool,
    pub(crate) socket: TcpListener,
}

impl Listener {
    /// Listens on an address.
    pub(crate) fn open(
        (wanted, is_v6_only): (SocketAddr, bool),
        congestion: Option<&str>,
    ) -> Result<Listener, ServeError> {
        match tcp::bind(wanted, is_v6_only).and_then(|socket| tcp::listen_on(socket, congestion)) {
            Ok(socket) => Ok(Listener { wanted, is_v6_only, socket }),
            Err(source) => Err(ServeError::Listen { address: wanted, source }),
        }
    }
}

/// Portals that the sockets are.
pub(crate) fn portals(listeners: &[Listener]) -> io::Result<Vec<Portal>> {
    let portal = |listener: &Listener| {
        let address = listener.socket.local_addr()?;
        Ok(Portal { address, is_v6_only: listener.is_v6_only })
    };
    listeners.iter().map(portal).collect()
}
