//! Slots of connections. Those that negotiate cost nothing to make, so they have few slots, little time, and the oldest
//! of them makes room.

use std::collections::VecDeque;
use std::time::Duration;

use block::Owner;
use event::Instant;

/// Connections at most.
pub(super) const CONNECTIONS_MAX: usize = 1024;
/// Connections that negotiate at most.
const NEGOTIATING_MAX: usize = 128;
/// Time of a negotiation.
const NEGOTIATION: Duration = Duration::from_secs(15);

/// Connections that negotiate, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Slots {
    negotiating: VecDeque<(Owner, Instant)>,
}

/// Decision about a connection that comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    Admitted,
    /// This connection makes room for it.
    Instead(Owner),
    Full,
}

impl Slots {
    /// Decides about one more connection while so many are open.
    pub(super) fn admit(&self, open: usize) -> Admission {
        let is_full = open >= CONNECTIONS_MAX;
        match self.negotiating.front() {
            Some((oldest, _)) if is_full || self.negotiating.len() >= NEGOTIATING_MAX => {
                Admission::Instead(*oldest)
            }
            None if is_full => Admission::Full,
            _ => Admission::Admitted,
        }
    }

    /// A connection begins to negotiate.
    pub(super) fn enter(&mut self, owner: Owner, now: Instant) {
        self.negotiating.push_back((owner, now + NEGOTIATION));
    }

    /// A connection has ended its negotiation, or is closed.
    pub(super) fn leave(&mut self, owner: Owner) {
        self.negotiating.retain(|(other, _)| *other != owner);
    }

    /// A connection whose time is over at `now`.
    pub(super) fn late(&self, now: Instant) -> Option<Owner> {
        self.negotiating.front().filter(|(_, until)| now >= *until).map(|(owner, _)| *owner)
    }

    /// Time at which the next connection is late.
    pub(super) fn next_at(&self) -> Instant {
        self.negotiating.front().map_or(Instant::FAR_FUTURE, |(_, until)| *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn the_oldest_negotiation_makes_room() {
        let mut slots = Slots::default();
        for owner in 0..NEGOTIATING_MAX as u64 {
            assert_eq!(slots.admit(owner as usize), Admission::Admitted);
            slots.enter(Owner(owner), at(owner));
        }
        assert_eq!(slots.admit(NEGOTIATING_MAX), Admission::Instead(Owner(0)));
        slots.leave(Owner(0));
        assert_eq!(slots.admit(NEGOTIATING_MAX), Admission::Admitted);
        assert_eq!(slots.admit(CONNECTIONS_MAX), Admission::Instead(Owner(1)));
        (1..NEGOTIATING_MAX as u64).for_each(|owner| slots.leave(Owner(owner)));
        assert_eq!(slots.admit(CONNECTIONS_MAX), Admission::Full);
        assert_eq!(slots.admit(CONNECTIONS_MAX - 1), Admission::Admitted);
    }

    #[test]
    fn a_negotiation_has_its_time() {
        let mut slots = Slots::default();
        assert_eq!((slots.late(at(1 << 30)), slots.next_at()), (None, Instant::FAR_FUTURE));
        slots.enter(Owner(1), at(0));
        slots.enter(Owner(2), at(500));
        assert_eq!((slots.late(at(14_999)), slots.next_at()), (None, at(15_000)));
        assert_eq!(slots.late(at(15_000)), Some(Owner(1)));
        slots.leave(Owner(1));
        assert_eq!((slots.late(at(15_000)), slots.next_at()), (None, at(15_500)));
    }
}
