//! Time of turns: one of a session, one of the loop over all sessions, and the debt of a session whose requests cost
//! more time than their bytes indicate.
//!
//! PDUs and bytes bound the cost of moving data. A request that is looked up, built or managed may cost a thousand
//! times as much: after each of these the clock is read. Data transfer needs no such reading.

use std::collections::HashMap;
use std::time::Duration;

use event::{Instant, PeerAddress};

/// Time of a turn from which on no more such requests are begun.
pub(crate) const TURN: Duration = Duration::from_micros(200);
/// Time of the loop from which on the sessions that have not had their turn wait for the next.
pub(crate) const ROUND: Duration = Duration::from_millis(5);
/// Longest rest of a session, independent of the cost of its requests.
pub(crate) const REST_MAX: Duration = Duration::from_millis(50);

/// Debt of a session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Debt {
    until: Instant,
}

impl Debt {
    /// A turn with costly requests took from `begin` to `end`. The time beyond [`TURN`] is left to others.
    pub(crate) fn charge(&mut self, begin: Instant, end: Instant) {
        let beyond = end.since(begin).saturating_sub(TURN);
        self.until = end + beyond.min(REST_MAX);
    }

    /// Returns true while others come first.
    pub(crate) fn rests(&self, now: Instant) -> bool {
        now < self.until
    }
}

/// Debts of peer addresses: for turns of their connections before the login, and turns that ended a connection.
#[derive(Debug, Default)]
pub(crate) struct PeerDebts(HashMap<PeerAddress, Debt>);

impl PeerDebts {
    /// A turn of a connection of `peer` took from `begin` to `end`. All connections of one address together are like one
    /// session, and their turns are short: so the whole time is left to others.
    pub(crate) fn charge(&mut self, peer: PeerAddress, begin: Instant, end: Instant) {
        self.0.retain(|_, debt| debt.rests(end));
        self.0.insert(peer, Debt { until: end + end.since(begin).min(REST_MAX) });
    }

    /// Returns true while others than `peer` come first.
    pub(crate) fn rests(&self, peer: PeerAddress, now: Instant) -> bool {
        self.0.get(&peer).is_some_and(|debt| debt.rests(now))
    }
}

/// Clock of one turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TurnClock {
    begin: Instant,
    was_costly: bool,
    is_over: bool,
}

impl TurnClock {
    pub(crate) fn start(now: Instant) -> TurnClock {
        TurnClock { begin: now, was_costly: false, is_over: false }
    }

    /// A request was carried out that may have cost much time.
    pub(crate) fn note_costly(&mut self) {
        self.was_costly = true;
    }

    /// After each request, with a clock that is read if it was costly.
    pub(crate) fn look(&mut self, now: impl FnOnce() -> Instant) {
        if self.was_costly && !self.is_over {
            self.is_over = now().since(self.begin) >= TURN;
        }
    }

    /// Returns true if no more requests are begun in this turn.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns true if the turn has had costly requests.
    pub(crate) fn was_costly(&self) -> bool {
        self.was_costly
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    #[test]
    fn costly_requests_end_a_turn_by_the_clock() {
        let mut clock = TurnClock::start(at(1000));
        clock.look(|| unreachable!("the clock is not read for data"));
        assert!(!clock.is_over() && !clock.was_costly());
        clock.note_costly();
        clock.look(|| at(1199));
        assert!(!clock.is_over());
        clock.look(|| at(1200));
        assert!(clock.is_over() && clock.was_costly());
    }

    #[test]
    fn logins_of_an_address_take_half_of_the_time() {
        let peer = |n: u32| PeerAddress::from(std::net::IpAddr::V4(n.into()));
        let mut debts = PeerDebts::default();
        debts.charge(peer(1), at(1000), at(1100));
        assert!(debts.rests(peer(1), at(1199)) && !debts.rests(peer(1), at(1200)));
        assert!(!debts.rests(peer(2), at(1150)));
        debts.charge(peer(2), at(1150), at(1250));
        assert_eq!(debts.0.len(), 1, "debts that are paid take no memory");
        debts.charge(peer(2), at(2000), at(10_000_000));
        assert!(!debts.rests(peer(2), at(10_050_000)));
    }

    #[test]
    fn a_session_rests_for_the_time_that_it_took_from_others() {
        let mut debt = Debt::default();
        assert!(!debt.rests(at(0)));
        debt.charge(at(1000), at(1150));
        assert!(!debt.rests(at(1150)));
        debt.charge(at(2000), at(3200));
        assert!(debt.rests(at(4199)) && !debt.rests(at(4200)));
        debt.charge(at(5000), at(10_000_000));
        assert!(!debt.rests(at(10_050_000)));
    }
}
