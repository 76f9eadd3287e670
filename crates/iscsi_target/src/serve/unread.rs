//! Memory of connections for what their peers have not finished or not read: requests in part, logins, and answers that
//! wait to be sent. Each connection has a bound of its own; this is the one of all together. Beyond it the connection that
//! holds most is closed, so that a crowd costs sessions of its own and never the target. Data of commands that came ahead
//! of their turn has a bound of the same kind.

use super::end::End;

/// Memory of connections that have not logged in.
const LOGIN_MAX_BYTES: usize = 64 << 20;
/// Memory of sessions' connections. Payload is bounded by the budget of buffers.
const ANSWERS_MAX_BYTES: usize = 128 << 20;
/// Data of commands that came ahead of their turn, of all sessions.
const EARLY_MAX_BYTES: usize = 128 << 20;

/// Memory of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unread {
    Login(usize),
    Answers(usize),
}

/// Memory of all connections.
#[derive(Debug, Default)]
pub(super) struct AllUnread {
    login_bytes: usize,
    answers_bytes: usize,
}

impl Unread {
    /// Bytes, if they count for the same bound as `other`.
    pub(super) fn bytes_like(self, other: Unread) -> usize {
        match (self, other) {
            (Unread::Login(bytes), Unread::Login(_)) | (Unread::Answers(bytes), Unread::Answers(_)) => bytes,
            _ => 0,
        }
    }
}

impl AllUnread {
    /// A connection holds `new` in place of `old`.
    pub(super) fn change(&mut self, old: Unread, new: Unread) {
        self.leave(old);
        match new {
            Unread::Login(bytes) => self.login_bytes += bytes,
            Unread::Answers(bytes) => self.answers_bytes += bytes,
        }
    }

    /// A connection is gone.
    pub(super) fn leave(&mut self, old: Unread) {
        match old {
            Unread::Login(bytes) => self.login_bytes -= bytes,
            Unread::Answers(bytes) => self.answers_bytes -= bytes,
        }
    }

    /// The bound that is exceeded, and by how much.
    pub(super) fn excess(&self) -> Option<Unread> {
        if self.login_bytes > LOGIN_MAX_BYTES {
            return Some(Unread::Login(self.login_bytes - LOGIN_MAX_BYTES));
        }
        let excess_bytes = self.answers_bytes.saturating_sub(ANSWERS_MAX_BYTES);
        (excess_bytes > 0).then_some(Unread::Answers(excess_bytes))
    }
}

/// Data that came ahead of its turn, of all sessions.
#[derive(Debug, Default)]
pub(super) struct AllEarly {
    bytes: usize,
}

impl AllEarly {
    /// A session keeps `now` bytes in place of `before`.
    ///
    /// # Errors
    /// [`End::TooEarly`] if these are more, and all sessions keep more than they may.
    pub(super) fn change(&mut self, before: usize, now: usize) -> Result<(), End> {
        self.bytes = self.bytes - before + now;
        if now > before && self.bytes > EARLY_MAX_BYTES { Err(End::TooEarly) } else { Ok(()) }
    }

    /// A session that keeps so much is gone.
    pub(super) fn leave(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_and_sessions_have_a_bound_each() {
        let mut all = AllUnread::default();
        let nothing = Unread::Login(0);
        for _ in 0..128 {
            all.change(nothing, Unread::Answers(1 << 20));
        }
        for _ in 0..1024 {
            all.change(nothing, Unread::Login(64 << 10));
        }
        assert_eq!(all.excess(), None);
        all.change(nothing, Unread::Login(3));
        assert_eq!(all.excess(), Some(Unread::Login(3)));
        // It has logged in.
        all.change(Unread::Login(3), Unread::Answers(5));
        assert_eq!(all.excess(), Some(Unread::Answers(5)));
        all.leave(Unread::Answers(5));
        assert_eq!(all.excess(), None);
        assert_eq!(Unread::Login(7).bytes_like(Unread::Login(1)), 7);
        assert_eq!(Unread::Login(7).bytes_like(Unread::Answers(1)), 0);
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
        // Who keeps as much as before, or less, is not to blame.
        all.change(HALF + 1, HALF + 1).expect("it keeps as much");
        all.change(HALF, HALF - 1).expect("it keeps less");
        assert!(matches!(all.change(0, 1), Err(End::TooEarly)), "a third session");
        all.leave(HALF + 1);
        all.leave(1);
        all.change(0, HALF + 1).expect("there is room again");
        assert!(matches!(all.change(HALF + 1, HALF + 2), Err(End::TooEarly)));
    }
}
