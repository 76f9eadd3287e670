//! Lower bound of the rate at which the path drops: the token bucket argument.
//!
//! A policer has no tokens at a drop, and a queue no room. From a drop on, a policer of rate `r` passes `r` times the time and
//! a queue at most what its line carries, whatever the burst or the length. So the mean delivery rate from a drop on is a
//! lower bound of `r`, and neither drops packets of a sender that has stayed below that bound since. Deliveries before the
//! first drop say nothing: they may be the burst.

use core::time::Duration;

use event::Instant;

use crate::loss::looks::per_second;
use crate::measure::max_filter::MaxFilter;
use crate::measure::unqueued::has_small_queue;
use crate::policy::Observation;

/// Memory: so many slots of so long.
const SLOTS: usize = 10;
const SLOT: Duration = Duration::from_secs(3);
/// Acknowledgements that come together must not count for much.
const LEAST_TIME: Duration = Duration::from_millis(10);

/// Largest mean delivery rate of a round that began at a drop, over the last 30 s.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateFloor {
    begun: Option<Begun>,
    packets_per_s: MaxFilter<SLOTS>,
    slot_ends: Instant,
}

/// A round that began at a drop.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Instant,
    delivered_packets: u32,
    rtt: Duration,
    lowest_rtt: Duration,
}

impl RateFloor {
    /// Takes a look, and whether a drop was noticed since the one before, which is not long ago.
    pub(crate) fn observe(&mut self, seen: &Observation, has_dropped: bool, base_rtt: Duration) {
        if seen.now >= self.slot_ends {
            let slots = seen.now.since(self.slot_ends).as_nanos() / SLOT.as_nanos();
            (0..=slots.min(SLOTS as u128)).for_each(|_| self.packets_per_s.advance());
            self.slot_ends = seen.now + SLOT;
        }
        if let Some(begun) = &mut self.begun {
            begun.lowest_rtt = begun.lowest_rtt.min(seen.rtt);
        }
        let is_over = |begun: &mut Begun| seen.now >= begun.at + seen.rtt.max(LEAST_TIME);
        if let Some(begun) = self.begun.take_if(is_over)
            && !has_small_queue(begun.lowest_rtt, base_rtt)
        {
            let packets = seen.delivered_packets.wrapping_sub(begun.delivered_packets);
            // What arrives faster than it was sent has left a queue.
            let drained = begun.rtt.saturating_sub(begun.lowest_rtt);
            self.packets_per_s.add(per_second(packets.into(), seen.now.since(begun.at) + drained));
        }
        if has_dropped && self.begun.is_none() {
            let (delivered_packets, rtt) = (seen.delivered_packets, seen.rtt);
            self.begun = Some(Begun { at: seen.now, delivered_packets, rtt, lowest_rtt: rtt });
        }
    }

    /// Forgets the round under way, of which nothing is seen for a while.
    pub(crate) fn interrupt(&mut self) {
        self.begun = None;
    }

    /// The bound, in packets per second; 0 if there is none.
    pub(crate) fn packets_per_s(&self) -> u64 {
        self.packets_per_s.max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::QUIET;

    const BASE: Duration = Duration::from_millis(50);

    /// The bound after a drop, if each round of ten looks delivers so many packets with so much queue at its beginning.
    fn bound(each: &[(u32, u64)]) -> u64 {
        let mut floor = RateFloor::default();
        let mut seen = Observation { rtt: BASE, delivered_packets: u32::MAX - 300, ..QUIET };
        for (round, &(packets, queue_ms)) in each.iter().enumerate() {
            for look in 0..10 {
                seen.now += BASE / 10;
                seen.rtt = BASE + Duration::from_millis(queue_ms * (10 - look) / 10);
                floor.observe(&seen, round == 1 && look == 0, BASE);
                seen.delivered_packets = seen.delivered_packets.wrapping_add(packets / 10);
            }
        }
        floor.packets_per_s()
    }

    #[test]
    fn deliveries_before_the_first_drop_say_nothing() {
        assert_eq!(bound(&[(2000, 0)]), 0);
        assert_eq!(bound(&[(2000, 0), (1000, 0), (1500, 0)]), 20_000);
    }

    #[test]
    fn what_leaves_a_queue_was_sent_more_slowly_than_it_arrives() {
        let bound = bound(&[(1000, 0), (1000, 10), (1000, 0)]);
        assert!((16_500..=17_500).contains(&bound), "1000 packets in 50 ms and 10 ms of queue: {bound}");
    }

    #[test]
    fn a_round_with_a_queue_is_no_bound() {
        let mut floor = RateFloor::default();
        let mut seen = Observation { rtt: BASE + BASE / 10, ..QUIET };
        for look in 0..20 {
            seen.now += BASE / 10;
            seen.delivered_packets += 100;
            floor.observe(&seen, look == 0, BASE);
        }
        assert_eq!(floor.packets_per_s(), 0);
    }

    #[test]
    fn it_is_forgotten_after_half_a_minute() {
        let mut floor = RateFloor::default();
        let mut seen = QUIET;
        floor.observe(&Observation { rtt: BASE, ..seen }, true, BASE);
        seen = Observation { now: seen.now + BASE, rtt: BASE, delivered_packets: 1000, ..seen };
        floor.observe(&seen, false, BASE);
        assert_eq!(floor.packets_per_s(), 20_000);
        floor.observe(&Observation { now: seen.now + SLOT * SLOTS as u32, ..seen }, false, BASE);
        assert_eq!(floor.packets_per_s(), 0);
    }
}
