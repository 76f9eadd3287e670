//! New connections: accepted from the listening sockets, within the slots of all and of one address.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::time::Duration;

use engine::{Connection, SAMPLE_EVERY};
use event::Instant;
use net::{Interest, tcp};

use crate::serve::connection::client::Client;
use crate::serve::connection::end_reason::End;
use crate::serve::limits::slots::{Admission, CONNECTIONS_MAX, CONNECTIONS_OF_ONE_MAX};
use crate::serve::limits::unread::AllCommands;
use crate::serve::log_some;
use crate::serve::service::sampling::ROLL_CALL_EVERY;
use crate::serve::service::target::{LISTENER_TOKENS, Target};

/// Pause of accepting after an error of accept.
const LISTEN_AGAIN: Duration = Duration::from_millis(100);

impl Target {
    pub(crate) fn accept(&mut self, listener: usize, now: Instant) {
        // A listener stays ready while others wait in its backlog, so a bounded number per wake is fair.
        for _ in 0..64 {
            // A listener that was closed a moment ago may still have been ready.
            let Some(listener) = self.listening.listeners.get(listener) else { return };
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
            let full = match self.shared.admission.slots.admit(peer.ip(), self.clients.len()) {
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
            let prepared = tcp::prepare(&stream, self.listening.congestion.name());
            let compat = self.shared.rules.compat;
            let client = prepared.and_then(|()| {
                stream.set_nodelay(!compat.nagle)?;
                let mut login = self.shared.rules.policy.clone();
                let share = AllCommands::share(self.shared.admission.open_sessions + 1);
                login.command_window = login.command_window.min(share);
                let mut connection =
                    Connection::new(stream, &self.poll, entry.key() as u64, self.config.course())?;
                connection.go_through(self.sampling.gate.clone());
                connection.share_routes(self.sampling.routes.clone());
                let mut client = Client::new(connection, peer, entry.key(), login, now)?;
                if compat.nagle {
                    client.join_stamped_writes();
                }
                Ok(client)
            });
            match client {
                Ok(mut client) => {
                    client.ticket = Some(self.shared.admission.slots.enter(peer.ip(), entry.key()));
                    entry.insert(Box::new(client));
                    self.sampling.next_sample = self.sampling.next_sample.min(now + SAMPLE_EVERY);
                    self.sampling.next_roll_call = self.sampling.next_roll_call.min(now + ROLL_CALL_EVERY);
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
        for listener in &self.listening.listeners {
            let _ = self.poll.remove(listener.socket.as_fd());
        }
        self.listening.listen_again = Some(now + LISTEN_AGAIN);
        self.sampling.next_sample = self.sampling.next_sample.min(now + LISTEN_AGAIN);
    }

    pub(crate) fn listen(&mut self) -> io::Result<()> {
        for (index, listener) in self.listening.listeners.iter().enumerate() {
            self.poll.add(listener.socket.as_fd(), LISTENER_TOKENS + index as u64, Interest::READ)?;
        }
        self.listening.listen_again = None;
        Ok(())
    }
}
