//! Liveness of silent initiators. A silent initiator gets a NOP-In ping; without an answer it counts as gone, and its
//! session, memory and reservations are freed.
//!
//! TCP detects a lost host only while it has data to send, or after a minute of probes. A peer whose kernel answers and
//! whose program hangs stays alive to TCP for ever.

use std::time::Duration;

use event::Instant;

/// Longest silence of a discovery session, which cannot be pinged (RFC 7143 section 4.3).
pub(crate) const DISCOVERY_PATIENCE: Duration = Duration::from_secs(30);
/// Longest silence of a peer on a short path.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest silence in round trips, on a long path.
const ROUND_TRIPS: u32 = 8;

/// Liveness state of one peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alive {
    since: Instant,
    acked_bytes: u64,
    is_pinged: bool,
}

/// Action for a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Fine,
    Ping,
    Gone,
    /// A discovery session without requests.
    Idle,
}

impl Alive {
    pub(crate) fn new(now: Instant) -> Alive {
        Alive { since: now, acked_bytes: 0, is_pinged: false }
    }

    /// Notes that data of the peer has arrived.
    pub(crate) fn heard(&mut self, now: Instant) {
        (self.since, self.is_pinged) = (now, false);
    }

    /// Time since data of the peer arrived, or since the last verdict.
    pub(crate) fn silent_for(&self, now: Instant) -> Duration {
        now.since(self.since)
    }

    /// Returns true if the silence is long enough to read TCP_INFO.
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        self.silent_for(now) >= PATIENCE
    }

    /// Judges a silent peer by the progress of its TCP: a peer that receives megabytes over a thin line has not reached
    /// the ping yet. If the connection is not read, because buffers are short or the peer does not take its responses,
    /// no answer can arrive; then an acknowledgement by the peer's TCP, of the ping at least, counts as an answer.
    pub(crate) fn judge(&mut self, now: Instant, rtt: Duration, acked_bytes: u64, is_read: bool) -> Verdict {
        if now.since(self.since) < PATIENCE.max(rtt * ROUND_TRIPS) {
            return Verdict::Fine;
        }
        self.since = now;
        if std::mem::replace(&mut self.acked_bytes, acked_bytes) != acked_bytes {
            self.is_pinged &= is_read;
            return Verdict::Fine;
        }
        match std::mem::replace(&mut self.is_pinged, true) {
            false => Verdict::Ping,
            true => Verdict::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_silent_peer_is_pinged_and_then_given_up() {
        let start = Instant::from_nanos(0);
        let at = |s: u64| start + Duration::from_secs(s);
        let mut alive = Alive::new(start);
        assert!(!alive.is_silent(at(9)) && alive.is_silent(at(10)));
        assert_eq!(alive.judge(at(9), MS, 0, true), Verdict::Fine);
        assert_eq!(alive.judge(at(10), MS, 0, true), Verdict::Ping);
        assert_eq!(alive.judge(at(15), MS, 0, true), Verdict::Fine, "it has as long to answer");
        // The peer's TCP took the ping: that is no answer, but worth another wait.
        assert_eq!(alive.judge(at(20), MS, 48, true), Verdict::Fine);
        assert_eq!(alive.judge(at(30), MS, 48, true), Verdict::Gone);
    }

    #[test]
    fn an_answer_begins_anew_and_a_long_path_has_more_time() {
        let start = Instant::from_nanos(0);
        let at = |s: u64| start + Duration::from_secs(s);
        let mut alive = Alive::new(start);
        assert_eq!(alive.judge(at(10), MS, 0, true), Verdict::Ping);
        alive.heard(at(11));
        assert_eq!(alive.judge(at(20), MS, 0, true), Verdict::Fine);
        assert_eq!(alive.judge(at(21), 2000 * MS, 0, true), Verdict::Fine, "16 s on a path of 2 s");
        assert_eq!(alive.judge(at(27), 2000 * MS, 0, true), Verdict::Ping);
        assert_eq!(alive.judge(at(43), 2000 * MS, 0, true), Verdict::Gone);
    }

    #[test]
    fn a_peer_that_receives_is_not_pinged() {
        let start = Instant::from_nanos(0);
        let mut alive = Alive::new(start);
        for turn in 1..100 {
            let now = start + turn * PATIENCE;
            assert_eq!(alive.judge(now, MS, 1000 * u64::from(turn), true), Verdict::Fine);
        }
    }

    #[test]
    fn one_that_is_not_read_shows_that_it_is_there_by_taking_what_is_sent() {
        let start = Instant::from_nanos(0);
        let at = |s: u64| start + Duration::from_secs(s);
        let mut there = Alive::new(start);
        for minute in 0..10 {
            // The peer's TCP takes the ping, and no answer comes.
            assert_eq!(there.judge(at(60 * minute + 10), MS, 48 * minute, false), Verdict::Ping, "{minute}");
            assert_eq!(there.judge(at(60 * minute + 20), MS, 48 * (minute + 1), false), Verdict::Fine);
        }
        let mut gone = Alive::new(start);
        assert_eq!(gone.judge(at(10), MS, 0, false), Verdict::Ping);
        assert_eq!(gone.judge(at(20), MS, 0, false), Verdict::Gone);
    }
}
