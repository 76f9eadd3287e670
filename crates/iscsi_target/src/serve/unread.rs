//! Memory of connections for what their peers have not finished or not read: requests in part, logins, and answers that
//! wait to be sent. Each connection has a bound of its own; this is the one of all together. Beyond it the connection that
//! holds most is closed, so that a crowd costs sessions of its own and never the target.

/// Memory of connections that have not logged in.
const LOGIN_MAX_BYTES: usize = 64 << 20;
/// Memory of sessions' connections. Payload is bounded by the budget of buffers.
const ANSWERS_MAX_BYTES: usize = 128 << 20;

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
}
