//! What a receiver knows of the line that brings its data: how fast they come, and whether a queue stands on their way.
//!
//! Who sends the data over one line is on other hosts, and none of them knows of the others. Their target sees them all.
//! The round trip is that of the little that it sends itself: what acknowledges it comes back among the data and waits in
//! their queue. Whether more could come is not seen from here.

use core::time::Duration;

use event::Instant;

use crate::bulk::cap::is_long;
use crate::measure::unqueued::{Unqueued, has_queue};
use crate::policy::Observation;
use crate::sharing::claimant::{Claimant, Queue};
use crate::sharing::share::Claim;

/// Time over which a rate is measured, at least this and so many round trips: what waited behind a packet that was lost
/// comes all at once, a round trip late.
const RATE_TIME: Duration = Duration::from_millis(100);
const RATE_ROUNDS: u32 = 4;
/// Who has sent something claims its part for so long, and until it has been measured twice again: after a loss nothing may
/// come for some round trips.
const CLAIM_LASTS: Duration = Duration::from_secs(2);
const CLAIM_MEASURES: u32 = 2;

/// See the file's beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrival {
    claimant: Claimant,
    unqueued: Unqueued,
    claims_until: Instant,
    is_claiming: bool,
}

impl Arrival {
    /// Takes what was seen.
    pub(crate) fn observe(&mut self, seen: &Observation) {
        // Paths that nobody paces are not shared either, and one may turn out to be such a path.
        let Some(min_rtt) = seen.min_rtt.filter(|_| is_long(seen.min_rtt)) else {
            *self = Arrival::default();
            return;
        };
        let least = RATE_TIME.max(RATE_ROUNDS * min_rtt);
        let (is_at_rest, round_trips) = (!self.is_claiming, (seen.rtt, min_rtt));
        let unqueued = self.unqueued.observe(seen.now, is_at_rest, seen.delivered_packets, round_trips);
        // What overflows is not seen from here.
        let queue = if has_queue(seen.rtt, unqueued) { Queue::Stands } else { Queue::Empty };
        let waits = seen.rtt.saturating_sub(unqueued);
        let rate = self.claimant.observe(seen.now, seen.received_bytes, (seen.rtt, least), (queue, waits));
        if rate.is_some_and(|rate| rate > 0) {
            self.claims_until = seen.now + CLAIM_LASTS.max(CLAIM_MEASURES * least);
        }
        self.is_claiming = seen.now < self.claims_until;
    }

    /// What the sender at the other end claims of the line; `None` if nothing comes.
    pub(crate) fn claim(&self) -> Option<Claim> {
        self.is_claiming.then(|| self.claimant.claim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::QUIET;

    const RTT: Duration = Duration::from_millis(16);

    fn seen(at_ms: u64, received_bytes: u64, queue_ms: u64) -> Observation {
        Observation {
            now: Instant::ZERO + Duration::from_millis(at_ms),
            rtt: RTT + Duration::from_millis(queue_ms),
            min_rtt: Some(RTT),
            received_bytes,
            ..QUIET
        }
    }

    #[test]
    fn a_sender_claims_what_arrives() {
        let mut arrival = Arrival::default();
        (0..=10).for_each(|look| arrival.observe(&seen(20 * look, 120_000 * look, 0)));
        let claim = arrival.claim().expect("data come");
        let rate = Some(6_000_000);
        assert_eq!((claim.rate_bytes_per_s, claim.has_queue, claim.had_queue), (rate, false, false));
        arrival.observe(&seen(220, 0, 5));
        assert!(arrival.claim().is_some_and(|claim| !claim.has_queue), "it may be that of a moment");
        arrival.observe(&seen(245, 0, 5));
        assert!(arrival.claim().is_some_and(|claim| claim.has_queue && claim.had_queue));
        arrival.observe(&seen(265, 0, 0));
        assert!(arrival.claim().is_some_and(|claim| !claim.has_queue && claim.had_queue));
        arrival.observe(&seen(2_400, 0, 0));
        assert!(arrival.claim().is_none(), "nothing has come for long");
    }

    #[test]
    fn what_comes_late_at_once_is_not_taken_for_a_faster_line() {
        let mut arrival = Arrival::default();
        // A hole for one round trip, filled just before the time is over.
        let received = |at_ms: u64| 6_000 * if (84..100).contains(&at_ms) { 84 } else { at_ms };
        (0..=200).for_each(|at_ms| {
            arrival.observe(&seen(at_ms, received(at_ms), 0));
            let rate = arrival.claim().and_then(|claim| claim.rate_bytes_per_s).unwrap_or(0);
            assert!(rate <= 7_500_000, "{at_ms}: {rate}");
        });
    }

    #[test]
    fn a_loss_that_stops_everything_for_a_while_is_no_end() {
        let mut arrival = Arrival::default();
        let received = |at_ms: u64| 6_000 * if (400..1_400).contains(&at_ms) { 400 } else { at_ms };
        for at_ms in (0..3_000).step_by(10) {
            arrival.observe(&seen(at_ms, received(at_ms), 0));
            assert_eq!(arrival.claim().is_some(), at_ms >= 100, "{at_ms}");
        }
    }

    #[test]
    fn one_that_is_measured_rarely_claims_all_the_time() {
        let mut arrival = Arrival::default();
        let far = Duration::from_millis(700);
        let mut claims_at = |at_ms: u64| {
            let seen = seen(at_ms, 6_000 * at_ms, 0);
            arrival.observe(&Observation { rtt: far, min_rtt: Some(far), ..seen });
            arrival.claim().is_some()
        };
        assert!((0..2_800).step_by(10).all(|at_ms| !claims_at(at_ms)), "not counted yet");
        assert!((2_800..30_000).step_by(10).all(claims_at));
    }

    #[test]
    fn a_short_path_claims_nothing() {
        let mut arrival = Arrival::default();
        let mut claims_over = |min_rtt: Duration, look: u64| {
            let seen = seen(20 * look, 1_000_000 * look, 0);
            arrival.observe(&Observation { rtt: 3 * min_rtt, min_rtt: Some(min_rtt), ..seen });
            arrival.claim().is_some()
        };
        let short = Duration::from_micros(900);
        assert!((0..20).all(|look| !claims_over(short, look)));
        assert!((20..60).any(|look| claims_over(RTT, look)));
        assert!(!claims_over(short, 60), "it turns out to be short");
    }
}
