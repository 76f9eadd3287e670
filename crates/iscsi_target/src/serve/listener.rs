//! Listening sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::time::Duration;

use engine::{Connection, SAMPLE_EVERY};
use event::Instant;
use net::{Interest, tcp};

use super::client::Client;
use super::end::End;
use super::log::log_some;
use super::portals::Portal;
use super::slots::{Admission, CONNECTIONS_MAX, CONNECTIONS_OF_ONE_MAX};
use super::unread::AllCommands;
use super::watch::ROLL_CALL_EVERY;
use super::{LISTENER_TOKENS, ServeError, Target};

/// Pause of accepting after an error of accept.
const LISTEN_AGAIN: Duration = Duration::from_millis(100);

/// A listening socket.
pub(super) struct Listener {
    /// Configured address; its port may be 0, unlike the port of the socket.
    pub(super) wanted: SocketAddr,
    /// See [`Config::listening`](super::Config::listening).
    pub(super) is_v6_only: bool,
    pub(super) socket: TcpListener,
}

impl Listener {
    /// Listens on an address.
    pub(super) fn open(
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
pub(super) fn portals(listeners: &[Listener]) -> io::Result<Vec<Portal>> {
    let portal = |listener: &Listener| {
        let address = listener.socket.local_addr()?;
        Ok(Portal { address, is_v6_only: listener.is_v6_only })
    };
    listeners.iter().map(portal).collect()
}

impl Target {
    pub(super) fn accept(&mut self, listener: usize, now: Instant) {
        // A listener stays ready while others wait in its backlog, so a bounded number per wake is fair.
        for _ in 0..64 {
            // A listener that was closed a moment ago may still have been ready.
            let Some(listener) = self.listeners.get(listener) else { return };
            let (stream, peer) = match listener.socket.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Out of descriptors, or a peer that went away while it waited.
                    let text = format_args!("cannot accept a connection: {error}");
                    log_some(&mut self.lines, ("accept", IpAddr::V4(Ipv4Addr::UNSPECIFIED)), now, text);
                    self.rest_listeners(now);
                    return;
                }
            };
            let full = match self.shared.slots.admit(peer.ip(), self.clients.len()) {
                Admission::Admitted => None,
                Admission::Instead(oldest) => {
                    self.close(oldest, &End::MadeRoom, now);
                    None
                }
                Admission::Full => Some(("connections are open", CONNECTIONS_MAX)),
                Admission::FullForPeer => {
                    Some(("connections of its address are open", CONNECTIONS_OF_ONE_MAX))
                }
            };
            if let Some((open, most)) = full {
                let text = format_args!("{peer}: closed, {most} {open}");
                log_some(&mut self.lines, ("full", peer.ip()), now, text);
                continue;
            }
            let entry = self.clients.vacant_entry();
            let prepared = tcp::prepare(&stream, self.congestion.as_deref());
            let compat = self.shared.compat;
            let client = prepared.and_then(|()| {
                stream.set_nodelay(!compat.nagle)?;
                let mut login = self.shared.policy.clone();
                let share = AllCommands::share(self.shared.open_sessions + 1);
                login.command_window = login.command_window.min(share);
                let mut connection =
                    Connection::new(stream, &self.poll, entry.key() as u64, self.config.course())?;
                connection.go_through(self.gate.clone());
                let mut client = Client::new(connection, peer, entry.key(), login, now)?;
                if compat.nagle {
                    client.join_stamped_writes();
                }
                Ok(client)
            });
            match client {
                Ok(mut client) => {
                    client.ticket = Some(self.shared.slots.enter(peer.ip(), entry.key()));
                    entry.insert(Box::new(client));
                    self.next_sample = self.next_sample.min(now + SAMPLE_EVERY);
                    self.next_roll_call = self.next_roll_call.min(now + ROLL_CALL_EVERY);
                }
                Err(error) => {
                    let text = format_args!("{peer}: {error}");
                    log_some(&mut self.lines, ("accept", peer.ip()), now, text);
                }
            }
        }
    }

    /// Stops accepting for a moment: without free descriptors, a waiting connection would wake the loop for ever.
    fn rest_listeners(&mut self, now: Instant) {
        for listener in &self.listeners {
            let _ = self.poll.remove(listener.socket.as_fd());
        }
        self.listen_again = Some(now + LISTEN_AGAIN);
        self.next_sample = self.next_sample.min(now + LISTEN_AGAIN);
    }

    pub(super) fn listen(&mut self) -> io::Result<()> {
        for (index, listener) in self.listeners.iter().enumerate() {
            self.poll.add(listener.socket.as_fd(), LISTENER_TOKENS + index as u64, Interest::READ)?;
        }
        self.listen_again = None;
        Ok(())
    }
}
