//! Memory of connections for requests that peers have not finished and responses that they have not read: partial
//! requests, logins, and queued responses. Each connection has a bound of its own; the bounds here are those of all
//! connections and, before the login, of one address. Above a bound the connections that hold most are closed, so that
//! a crowd loses its own sessions and never takes the target down. Data of commands ahead of their turn has a bound of
//! the same kind.

use std::collections::HashMap;

use event::PeerAddress;

use crate::serve::connection::end_reason::End;

/// Memory of connections that have not logged in.
const LOGIN_MAX_BYTES: usize = 64 << 20;
/// Memory of connections of one address that have not logged in: one address never costs others their login.
const LOGIN_OF_ONE_MAX_BYTES: usize = LOGIN_MAX_BYTES / 4;
/// Memory of sessions' connections. Payload is bounded by the budget of buffers.
const ANSWERS_MAX_BYTES: usize = 128 << 20;
/// Data of commands that came ahead of their turn, of all sessions.
const EARLY_MAX_BYTES: usize = 128 << 20;
/// Commands of all sessions, about half a kilobyte each: 64 for each of as many sessions as there may be.
const COMMANDS_MAX: usize = 512 << 10;
/// Commands that go beyond the excess when sessions are ended, so that the bound is not reached again at once.
const COMMANDS_FEW: usize = COMMANDS_MAX / 32;
/// Least part of one session, in commands.
const COMMANDS_OF_ONE_MIN: u32 = 32;

/// Memory of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unread {
    Login(usize),
    Answers(usize),
}

/// Memory of all connections.
#[derive(Debug, Default)]
pub(crate) struct AllUnread {
    login_bytes: usize,
    answers_bytes: usize,
    /// Memory of logins by address, where there is any.
    logins: HashMap<PeerAddress, usize>,
    /// The address that was the last to exceed its bound.
    beyond: Option<PeerAddress>,
}

/// A bound that is exceeded, and by how much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Excess {
    pub(crate) bytes: Unread,
    /// Connections that it is about; those of all addresses if `None`.
    pub(crate) peer: Option<PeerAddress>,
}

impl Unread {
    /// Bytes, if they count for the same bound as `other`.
    pub(crate) fn bytes_like(self, other: Unread) -> usize {
        match (self, other) {
            (Unread::Login(bytes), Unread::Login(_)) | (Unread::Answers(bytes), Unread::Answers(_)) => bytes,
            _ => 0,
        }
    }
}

impl AllUnread {
    /// A connection holds `new` in place of `old`.
    pub(crate) fn change(&mut self, peer: PeerAddress, old: Unread, new: Unread) {
        self.leave(peer, old);
        match new {
            Unread::Login(0) => {}
            Unread::Login(bytes) => {
                self.login_bytes += bytes;
                let of_one = self.logins.entry(peer).or_default();
                *of_one += bytes;
                if *of_one > LOGIN_OF_ONE_MAX_BYTES {
                    self.beyond = Some(peer);
                }
            }
            Unread::Answers(bytes) => self.answers_bytes += bytes,
        }
    }

    /// A connection is gone.
    pub(crate) fn leave(&mut self, peer: PeerAddress, old: Unread) {
        match old {
            Unread::Login(0) => {}
            Unread::Login(bytes) => {
                self.login_bytes -= bytes;
                if let Some(of_one) = self.logins.get_mut(&peer) {
                    *of_one -= bytes;
                    if *of_one == 0 {
                        self.logins.remove(&peer);
                    }
                }
            }
            Unread::Answers(bytes) => self.answers_bytes -= bytes,
        }
    }

    /// A bound that is exceeded.
    pub(crate) fn excess(&self) -> Option<Excess> {
        if let Some(peer) = self.beyond
            && let Some(bytes) =
                self.logins.get(&peer).and_then(|of_one| of_one.checked_sub(LOGIN_OF_ONE_MAX_BYTES + 1))
        {
            return Some(Excess { bytes: Unread::Login(bytes + 1), peer: Some(peer) });
        }
        let bytes = match self.answers_bytes.saturating_sub(ANSWERS_MAX_BYTES) {
            _ if self.login_bytes > LOGIN_MAX_BYTES => Unread::Login(self.login_bytes - LOGIN_MAX_BYTES),
            0 => return None,
            excess_bytes => Unread::Answers(excess_bytes),
        };
        Some(Excess { bytes, peer: None })
    }
}

/// Data that came ahead of its turn, of all sessions.
#[derive(Debug, Default)]
pub(crate) struct AllEarly {
    bytes: usize,
}

impl AllEarly {
    /// A session keeps `now` bytes in place of `before`.
    ///
    /// # Errors
    /// [`End::TooEarly`] if these are more, and all sessions keep more than they may.
    pub(crate) fn change(&mut self, before: usize, now: usize) -> Result<(), End> {
        self.bytes = self.bytes - before + now;
        if now > before && self.bytes > EARLY_MAX_BYTES { Err(End::TooEarly) } else { Ok(()) }
    }

    /// A session that keeps so much is gone.
    pub(crate) fn leave(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }
}

/// Commands of all sessions, open or remembered.
#[derive(Debug, Default)]
pub(crate) struct AllCommands {
    count: usize,
}

impl AllCommands {
    /// Part of one session among so many.
    pub(crate) fn share(sessions: usize) -> u32 {
        ((COMMANDS_MAX / sessions.max(1)) as u32).max(COMMANDS_OF_ONE_MIN)
    }

    /// A session has `now` commands in place of `before`.
    pub(crate) fn change(&mut self, before: usize, now: usize) {
        self.count = self.count - before + now;
    }

    /// Number of commands that have to go if the bound is exceeded, and a few more.
    pub(crate) fn excess(&self) -> Option<usize> {
        (self.count > COMMANDS_MAX).then(|| self.count - COMMANDS_MAX + COMMANDS_FEW)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn peer(n: u32) -> PeerAddress {
        IpAddr::V4(n.into()).into()
    }

    #[test]
    fn logins_of_one_address_leave_room_for_those_of_others() {
        let mut all = AllUnread::default();
        for _ in 0..256 {
            all.change(peer(1), Unread::Login(0), Unread::Login(64 << 10));
            all.change(peer(2), Unread::Login(0), Unread::Login(8 << 10));
        }
        assert_eq!(all.excess(), None);
        all.change(peer(1), Unread::Login(0), Unread::Login(5));
        all.change(peer(2), Unread::Login(0), Unread::Login(5));
        assert_eq!(all.excess(), Some(Excess { bytes: Unread::Login(5), peer: Some(peer(1)) }));
        all.leave(peer(1), Unread::Login(5));
        assert_eq!(all.excess(), None);
        for _ in 0..256 {
            all.leave(peer(1), Unread::Login(64 << 10));
        }
        assert_eq!(all.logins.len(), 1);
    }

    #[test]
    fn logins_and_sessions_have_a_bound_each() {
        let mut all = AllUnread::default();
        let nothing = Unread::Login(0);
        let of_all = |bytes| Some(Excess { bytes, peer: None });
        for _ in 0..128 {
            all.change(peer(1), nothing, Unread::Answers(1 << 20));
        }
        for n in 0..1024 {
            all.change(peer(n / 200), nothing, Unread::Login(64 << 10));
        }
        assert_eq!(all.excess(), None);
        all.change(peer(7), nothing, Unread::Login(3));
        assert_eq!(all.excess(), of_all(Unread::Login(3)));
        // The connection has logged in.
        all.change(peer(7), Unread::Login(3), Unread::Answers(5));
        assert_eq!(all.excess(), of_all(Unread::Answers(5)));
        all.leave(peer(7), Unread::Answers(5));
        assert_eq!(all.excess(), None);
        assert_eq!(Unread::Login(7).bytes_like(Unread::Login(1)), 7);
        assert_eq!(Unread::Login(7).bytes_like(Unread::Answers(1)), 0);
    }

    #[test]
    fn commands_of_all_sessions_have_a_bound() {
        assert_eq!([1, 128, 1024, 8192].map(AllCommands::share), [COMMANDS_MAX as u32, 4096, 512, 64]);
        assert_eq!(AllCommands::share(usize::MAX), COMMANDS_OF_ONE_MIN);
        let mut all = AllCommands::default();
        (0..128).for_each(|_| all.change(0, 4096));
        assert_eq!(all.excess(), None);
        all.change(4096, 4098);
        assert_eq!(all.excess(), Some(2 + COMMANDS_FEW));
        all.change(4098, 0);
        assert_eq!(all.excess(), None);
    }

    #[test]
    fn data_ahead_of_its_turn_is_bounded_in_all_sessions_together() {
        const HALF: usize = EARLY_MAX_BYTES / 2;
        let mut all = AllEarly::default();
        for before in 0..4 {
            let [before, now] = [before, before + 1].map(|quarters| quarters * HALF / 4);
            all.change(before, now).expect("an eighth of the bound each time");
        }
        all.change(0, HALF).expect("two sessions keep as much as may be kept");
        assert!(matches!(all.change(HALF, HALF + 1), Err(End::TooEarly)));
        // A session that holds as much as before, or less, does not exceed the bound.
        all.change(HALF + 1, HALF + 1).expect("it keeps as much");
        all.change(HALF, HALF - 1).expect("it keeps less");
        assert!(matches!(all.change(0, 1), Err(End::TooEarly)), "a third session");
        all.leave(HALF + 1);
        all.leave(1);
        all.change(0, HALF + 1).expect("there is room again");
        assert!(matches!(all.change(HALF + 1, HALF + 2), Err(End::TooEarly)));
    }
}
