//! Slots for connections, and their part for one peer address. Connections that have not logged in are cheap to make,
//! so they never keep others out: where slots are short, the oldest of them makes room.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use event::PeerAddress;

/// Connections at most.
pub(crate) const CONNECTIONS_MAX: usize = 8192;
/// Most connections of one address.
pub(crate) const CONNECTIONS_OF_ONE_MAX: usize = CONNECTIONS_MAX / 4 * 3;
/// Most connections of one address that have not logged in.
const LOGINS_OF_ONE_MAX: usize = CONNECTIONS_MAX / 8;

/// Connections by their peers.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    peers: HashMap<PeerAddress, Peer>,
    /// Connections that have not logged in, in the order in which they came.
    logins: BTreeMap<u64, usize>,
    last: u64,
}

#[derive(Debug, Default)]
struct Peer {
    connections: usize,
    logins: BTreeMap<u64, usize>,
}

/// Place of a connection among those that have not logged in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket(u64);

/// Decision about a connection that comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    Admitted,
    /// This client makes room for it.
    Instead(usize),
    Full,
    FullForPeer,
}

impl Slots {
    /// Decides about one more connection while so many are open.
    pub(crate) fn admit(&self, peer: IpAddr, open: usize) -> Admission {
        if let Some(found) = self.peers.get(&peer.into()) {
            let oldest = found.logins.values().next().copied();
            let is_full = found.connections >= CONNECTIONS_OF_ONE_MAX;
            match oldest {
                Some(oldest) if is_full || found.logins.len() >= LOGINS_OF_ONE_MAX => {
                    return Admission::Instead(oldest);
                }
                None if is_full => return Admission::FullForPeer,
                _ => {}
            }
        }
        match self.logins.values().next() {
            _ if open < CONNECTIONS_MAX => Admission::Admitted,
            Some(oldest) => Admission::Instead(*oldest),
            None => Admission::Full,
        }
    }

    /// Takes a slot for an accepted connection.
    pub(crate) fn enter(&mut self, peer: IpAddr, client: usize) -> Ticket {
        self.last += 1;
        let found = self.peers.entry(peer.into()).or_default();
        found.connections += 1;
        found.logins.insert(self.last, client);
        self.logins.insert(self.last, client);
        Ticket(self.last)
    }

    /// A connection has logged in.
    pub(crate) fn log_in(&mut self, peer: IpAddr, ticket: Ticket) {
        self.logins.remove(&ticket.0);
        if let Some(found) = self.peers.get_mut(&peer.into()) {
            found.logins.remove(&ticket.0);
        }
    }

    /// A connection is gone.
    pub(crate) fn leave(&mut self, peer: IpAddr, ticket: Ticket) {
        self.log_in(peer, ticket);
        let peer = peer.into();
        if let Some(found) = self.peers.get_mut(&peer) {
            found.connections -= 1;
            if found.connections == 0 {
                self.peers.remove(&peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    #[test]
    fn the_oldest_that_has_not_logged_in_makes_room() {
        let mut slots = Slots::default();
        let first = slots.enter(peer(1), 0);
        let second = slots.enter(peer(2), 1);
        assert_eq!(slots.admit(peer(3), 2), Admission::Admitted);
        assert_eq!(slots.admit(peer(3), CONNECTIONS_MAX), Admission::Instead(0));
        slots.log_in(peer(1), first);
        assert_eq!(slots.admit(peer(3), CONNECTIONS_MAX), Admission::Instead(1));
        slots.log_in(peer(2), second);
        assert_eq!(slots.admit(peer(3), CONNECTIONS_MAX), Admission::Full);
        slots.leave(peer(1), first);
        slots.leave(peer(2), second);
        assert!(slots.peers.is_empty() && slots.logins.is_empty());
    }

    #[test]
    fn one_address_has_a_part() {
        let mut slots = Slots::default();
        let tickets: Vec<Ticket> = (0..LOGINS_OF_ONE_MAX).map(|n| slots.enter(peer(1), n)).collect();
        assert_eq!(slots.admit(peer(1), LOGINS_OF_ONE_MAX), Admission::Instead(0));
        assert_eq!(slots.admit(peer(2), LOGINS_OF_ONE_MAX), Admission::Admitted);
        tickets.iter().for_each(|ticket| slots.log_in(peer(1), *ticket));
        for n in LOGINS_OF_ONE_MAX..CONNECTIONS_OF_ONE_MAX {
            let ticket = slots.enter(peer(1), n);
            slots.log_in(peer(1), ticket);
        }
        assert_eq!(slots.admit(peer(1), CONNECTIONS_OF_ONE_MAX), Admission::FullForPeer);
        assert_eq!(slots.admit(peer(2), CONNECTIONS_OF_ONE_MAX), Admission::Admitted);
    }
}
