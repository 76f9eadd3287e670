//! Detection of dead peers by their silence (RFC 7143 sections 7.3 and 11.18). Both waits follow the measured round
//! trip, and the caller's timeout bounds them.

use std::time::Duration;

use event::Instant;

use crate::options::FLUSH_TIMES;

/// Silence before a ping: minimum time, and number of round trips.
const SILENCE_MIN: Duration = Duration::from_secs(2);
const SILENCE_ROUNDS: u32 = 8;
/// Time limit of the answer to a ping. It is much longer than the round trip: a target without memory for further
/// requests does not read for a while, and is not dead.
const PATIENCE_MIN: Duration = Duration::from_secs(10);
const PATIENCE_ROUNDS: u32 = 16;

/// Time of the last sign of life of a peer, and of a ping since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pulse {
    heard: Instant,
    pinged: Option<Instant>,
    rtt: Duration,
}

/// Action for a silent peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// None.
    Alive,
    /// Send a ping.
    Ask,
    /// Treat the peer as dead; it was silent for this time.
    Dead(Duration),
}

impl Pulse {
    pub(crate) fn new(now: Instant) -> Pulse {
        Pulse { heard: now, pinged: None, rtt: Duration::ZERO }
    }

    /// Notes a sign of life.
    pub(crate) fn hear(&mut self, now: Instant) {
        (self.heard, self.pinged) = (now, None);
    }

    /// Sets the current round-trip time.
    pub(crate) fn set_rtt(&mut self, rtt: Duration) {
        self.rtt = rtt;
    }

    /// Time limit of an answer that needs nothing but a round trip.
    pub(crate) fn patience(&self, timeout: Duration) -> Duration {
        PATIENCE_MIN.max(self.rtt * PATIENCE_ROUNDS).min(timeout)
    }

    /// Checks the silence. A peer is never dead before half of `timeout`, and always after all of it; with a reason for
    /// silence, after a multiple of it: some targets read nothing while they flush.
    pub(crate) fn check(&mut self, now: Instant, timeout: Duration, has_reason: bool) -> Verdict {
        let silence = now.since(self.heard);
        let ask_after = SILENCE_MIN.max(self.rtt * SILENCE_ROUNDS).min(timeout / 2);
        let limits = if has_reason { [timeout * FLUSH_TIMES; 2] } else { [timeout, self.patience(timeout)] };
        match self.pinged {
            Some(pinged) if silence >= limits[0] || now.since(pinged) >= limits[1] => Verdict::Dead(silence),
            None if silence >= ask_after => {
                self.pinged = Some(now);
                Verdict::Ask
            }
            _ => Verdict::Alive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn both_waits_follow_the_round_trip() {
        for (rtt_ms, asked_ms, dead_ms) in [(0, 2000, 12_000), (100, 2000, 12_000), (800, 6400, 19_200)] {
            let mut pulse = Pulse::new(at(0));
            pulse.set_rtt(Duration::from_millis(rtt_ms));
            assert_eq!(pulse.check(at(asked_ms - 1), TIMEOUT, false), Verdict::Alive);
            assert_eq!(pulse.check(at(asked_ms), TIMEOUT, false), Verdict::Ask);
            assert_eq!(pulse.check(at(dead_ms - 1), TIMEOUT, false), Verdict::Alive, "asked once");
            assert_eq!(
                pulse.check(at(dead_ms), TIMEOUT, false),
                Verdict::Dead(Duration::from_millis(dead_ms))
            );
        }
    }

    #[test]
    fn the_timeout_bounds_both() {
        let timeout = Duration::from_secs(1);
        let mut pulse = Pulse::new(at(0));
        pulse.set_rtt(Duration::from_secs(9));
        assert_eq!(pulse.check(at(500), timeout, false), Verdict::Ask);
        assert_eq!(pulse.check(at(999), timeout, false), Verdict::Alive);
        assert_eq!(pulse.check(at(1000), timeout, false), Verdict::Dead(timeout));
    }

    #[test]
    fn one_with_a_reason_may_be_silent_for_longer() {
        let mut pulse = Pulse::new(at(0));
        assert_eq!(pulse.check(at(2000), TIMEOUT, true), Verdict::Ask);
        assert_eq!(pulse.check(at(119_999), TIMEOUT, true), Verdict::Alive);
        assert!(matches!(pulse.clone().check(at(120_000), TIMEOUT, true), Verdict::Dead(_)));
        assert!(matches!(pulse.check(at(30_000), TIMEOUT, false), Verdict::Dead(_)));
    }

    #[test]
    fn a_sign_begins_the_count_anew() {
        let mut pulse = Pulse::new(at(0));
        assert_eq!(pulse.check(at(2000), TIMEOUT, false), Verdict::Ask);
        pulse.hear(at(11_999));
        assert_eq!(pulse.check(at(13_998), TIMEOUT, false), Verdict::Alive);
        assert_eq!(pulse.check(at(13_999), TIMEOUT, false), Verdict::Ask);
    }

    #[test]
    fn a_loop_that_did_not_look_asks_first() {
        let mut pulse = Pulse::new(at(0));
        assert_eq!(pulse.check(at(90_000), TIMEOUT, false), Verdict::Ask);
    }
}
