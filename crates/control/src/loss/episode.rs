//! Loss episodes and their causes.
//!
//! An episode is a loss that is noticed at least a round and a half after the one before: its packets were dropped in another
//! round trip. It is *queued* if the packets before or after those lost have waited, and *unqueued* if they came through at the
//! base RTT, those after it within the time for which the receiver compresses SACKs; between the two it does not count. It is a *witness* of random loss if the delivery rate before it is clearly below the
//! rate at which the path is known to drop ([`RateFloor`]): neither a policer nor a queue too short to be seen drops there.
//! Two unqueued episodes decide, if one of them is a witness. A queued one erases what was collected.

use core::time::Duration;
use std::collections::VecDeque;

use event::{CongestionState, Instant};

use crate::loss::floor::RateFloor;
use crate::loss::looks::Looks;
use crate::loss::rounds::Rounds;
use crate::measure::unqueued::{has_small_queue, small_queue};
use crate::policy::Observation;

/// Episodes kept, and for how long.
const EPISODES: usize = 8;
const KEPT_FOR: Duration = Duration::from_secs(30);
/// Delivery rate of a witness, in percent of the bound: the middle between 1 and the 0.7 to which CUBIC cuts (RFC 9438, 4.6).
const WITNESS_PERCENT: u64 = 85;
/// The longest time for which Linux delays an acknowledgement in bulk (TCP_DELACK_MIN).
const DELAYED_ACK: Duration = Duration::from_millis(40);
/// A receiver of Linux compresses SACKs for a twentieth of the round trip, a millisecond at most (tcp_comp_sack_delay_ns): the
/// round trips of a recovery are longer by so much. Without it one of two runs over 100 ms and 0.01 % found nothing.
const SACK_DELAY_MAX: Duration = Duration::from_millis(1);
const SACK_DELAY_PARTS: u32 = 20;
/// Below this rate each packet of a queue adds 4 ms, so that unqueued episodes need no witness: a window of a few packets hardly
/// varies. A policer of less than 3 Mb/s is left to the trial.
const SLOW_PACKETS_PER_S: u64 = 256;
/// Bursts of others fill a queue of less than twice the shortest that shows before any look shows it. Where one has overflowed,
/// two unqueued episodes misjudge 5 of 50 lines of 100 Mb/s, 16 ms and a tenth of a product beside one stream.
const LONG_QUEUE_TIMES: u32 = 2;
const EPISODES_OF_SHORT_QUEUE: usize = 5;
/// Round trip below which a queue of a tenth of a product is hardly longer than the delay of SACKs: with two episodes 25 of 50
/// lines of 100 Mb/s and 16 ms beside one stream are misjudged.
const SHORT_RTT: Duration = Duration::from_millis(20);
/// Losses of no more than a window over so much are sent again at once: after another round those marked are others.
const REPAIRED_PARTS: u32 = 8;
/// A drop was a round ago if the look before was no longer ago than a round over so much; later its queue has drained.
const NOTICED_PARTS: u32 = 3;

/// Episodes of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Episodes {
    looks: Looks,
    floor: RateFloor,
    pending: Option<Begun>,
    kept: VecDeque<Episode>,
    last: Option<Instant>,
    /// Time and queueing delay of the last one with a queue.
    queued: Option<(Instant, Duration)>,
    /// The losses of the last one were few, or are repaired.
    is_repaired: bool,
    /// Retransmitted packets, and those marked lost, at the last look.
    retransmitted_packets: u64,
    lost_packets: u32,
    /// Losses were being repaired at the last look.
    is_repairing: bool,
    /// Retransmitted and duplicate packets before the first of those kept.
    before: (u64, u32),
}

/// An episode whose queueing delay is not known yet.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Instant,
    rtt: Duration,
    was_repairing: bool,
    /// Delivery rate before it.
    packets_per_s: u64,
}

/// An episode.
#[derive(Clone, Copy, Debug)]
struct Episode {
    at: Instant,
    /// Delivery rate before it.
    packets_per_s: u64,
    /// Round trip of the packets after those lost, of the packets before them, and the usual one of the rounds before.
    rtt: Duration,
    before_rtt: Duration,
    /// Earlier losses were being repaired then.
    was_repairing: bool,
    usual_rtt: Duration,
    /// Part of it that is no queue: an acknowledgement waits for a second packet.
    waits: Duration,
}

/// Cause that an episode shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// Not known yet: looks are to be close from now on.
    Unknown,
    /// Random loss.
    Random,
    /// A queue stood.
    Congestion,
}

impl Episodes {
    /// Takes a look at a sender in bulk, after `rounds` has; returns what is decided by it.
    pub(crate) fn observe(
        &mut self,
        seen: &Observation,
        rounds: &Rounds,
        base_rtt: Duration,
    ) -> Option<Cause> {
        let is_close = self.looks.last_at().is_some_and(|last| seen.now <= last + seen.rtt / NOTICED_PARTS);
        let rate = self.looks.rate(seen);
        let is_known = self.looks.last_at().is_some();
        let has_resent = is_known && seen.retransmitted_packets > self.retransmitted_packets;
        let rtt_before = has_resent.then(|| self.looks.low_rtt(before(seen.now, seen.rtt / 2))).flatten();
        let resent_before = core::mem::replace(&mut self.retransmitted_packets, seen.retransmitted_packets);
        if !is_close {
            self.floor.interrupt();
        }
        // A retransmission may be late: new marks are drops of a round ago.
        let has_dropped = seen.lost_packets > core::mem::replace(&mut self.lost_packets, seen.lost_packets);
        self.floor.observe(seen, has_dropped && is_close, base_rtt);
        self.looks.observe(seen);
        let was_repairing = core::mem::replace(&mut self.is_repairing, seen.state != CongestionState::Open);
        let is_apart = self.last.is_none_or(|last| seen.now >= last + seen.rtt * 3 / 2);
        if has_resent && is_apart && self.is_repaired && !rounds.is_disturbed(seen) {
            if self.kept.is_empty() {
                self.before = (resent_before, seen.congestion.duplicate_packets);
            }
            (self.last, self.is_repaired) = (Some(seen.now), false);
            self.pending = rate.filter(|_| is_close).map(|packets_per_s| Begun {
                at: seen.now,
                rtt: rtt_before.unwrap_or(seen.rtt),
                was_repairing,
                packets_per_s,
            });
            return Some(Cause::Unknown);
        }
        self.is_repaired |= seen.lost_packets.saturating_mul(REPAIRED_PARTS) <= seen.cwnd_packets;
        let begun = self.pending.take_if(|begun| seen.now >= begun.at + seen.rtt / 2)?;
        let rtt = self.looks.recent_rtt(begun.at)?;
        let waits = packet_time(begun.packets_per_s).min(DELAYED_ACK);
        let usual_rtt = rounds.usual_rtt(begun.at).unwrap_or(base_rtt);
        let Begun { at, rtt: before_rtt, was_repairing, packets_per_s } = begun;
        let episode = Episode { at, packets_per_s, rtt, before_rtt, was_repairing, usual_rtt, waits };
        Some(self.weigh(episode, seen, base_rtt))
    }

    /// Forgets what was collected, but not what the path has carried.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        self.pending = None;
    }

    /// Returns whether nothing was collected of late.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| now.since(last) > KEPT_FOR)
    }

    fn weigh(&mut self, episode: Episode, seen: &Observation, base_rtt: Duration) -> Cause {
        if episode.is_queued(base_rtt) {
            self.clear();
            self.queued = Some((seen.now, episode.rtt.saturating_sub(base_rtt)));
            return Cause::Congestion;
        }
        if !episode.is_unqueued(base_rtt) {
            return Cause::Unknown;
        }
        if self.kept.len() == EPISODES {
            self.kept.pop_front();
        }
        self.kept.push_back(episode);
        // The base may have fallen since the older ones: a queue of others that has drained.
        self.kept.retain(|kept| seen.now.since(kept.at) <= KEPT_FOR && !kept.is_queued(base_rtt));
        let bound = self.floor.packets_per_s() * WITNESS_PERCENT;
        let has_witness = self.kept.iter().any(|kept| kept.packets_per_s * 100 <= bound);
        let is_slow = self.kept.iter().all(|kept| kept.packets_per_s < SLOW_PACKETS_PER_S);
        let count = self.kept.len();
        let is_enough = (has_witness || is_slow) && count >= self.needed(seen.now, base_rtt);
        let duplicates = seen.congestion.duplicate_packets.wrapping_sub(self.before.1);
        let resent = seen.retransmitted_packets.saturating_sub(self.before.0);
        let is_spurious = u64::from(duplicates) * 4 > resent;
        if is_enough && !is_spurious { Cause::Random } else { Cause::Unknown }
    }

    /// Number of unqueued episodes that decide.
    fn needed(&self, now: Instant, base_rtt: Duration) -> usize {
        let is_short = |&(at, queue): &(Instant, Duration)| {
            now.since(at) <= KEPT_FOR && queue < small_queue(base_rtt) * LONG_QUEUE_TIMES
        };
        let is_hidden = base_rtt < SHORT_RTT;
        if is_hidden || self.queued.as_ref().is_some_and(is_short) { EPISODES_OF_SHORT_QUEUE } else { 2 }
    }
}

impl Episode {
    /// Returns whether a queue stood. The round trips before a loss say so only where packets are dense: in a small window the
    /// acknowledgement of a lone one is delayed.
    fn is_queued(&self, base_rtt: Duration) -> bool {
        let is_dense = self.waits <= small_queue(base_rtt) / 4;
        let base_rtt = base_rtt + self.waits;
        let before = base_rtt + self.delay_before(base_rtt);
        has_small_queue(self.rtt, base_rtt + sack_delay(base_rtt))
            || is_dense && has_small_queue(self.before_rtt, before)
    }

    /// Returns whether none did: the round trips are the base, or the usual one where that is hardly more.
    fn is_unqueued(&self, base_rtt: Duration) -> bool {
        let base_rtt = base_rtt + self.waits;
        let shows = small_queue(base_rtt);
        let usual = self.usual_rtt.clamp(base_rtt, base_rtt + shows / 2);
        let is_at_base = |rtt: Duration, delay: Duration| rtt <= usual + delay + shows / 4;
        is_at_base(self.before_rtt, self.delay_before(base_rtt)) && is_at_base(self.rtt, sack_delay(base_rtt))
    }

    /// Time for which SACKs of earlier losses waited.
    fn delay_before(&self, base_rtt: Duration) -> Duration {
        if self.was_repairing { sack_delay(base_rtt) } else { Duration::ZERO }
    }
}

/// The longest time for which SACKs wait at the receiver.
fn sack_delay(rtt: Duration) -> Duration {
    SACK_DELAY_MAX.min(rtt / SACK_DELAY_PARTS)
}

/// The time so long before; the start of time at the least.
fn before(now: Instant, span: Duration) -> Instant {
    Instant::ZERO + now.since(Instant::ZERO).saturating_sub(span)
}

/// Time from one packet to the next.
fn packet_time(packets_per_s: u64) -> Duration {
    Duration::from_secs(1) / u32::try_from(packets_per_s.max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use event::CongestionState;

    use super::*;
    use crate::testing::QUIET;

    const BASE: Duration = Duration::from_millis(50);
    const NONE: Duration = Duration::ZERO;
    const QUEUE: Duration = Duration::from_millis(5);

    /// A run of rounds of ten looks each.
    struct Path {
        rounds: Rounds,
        episodes: Episodes,
        seen: Observation,
        base_rtt: Duration,
        causes: Vec<Cause>,
    }

    impl Path {
        fn new() -> Path {
            Path {
                rounds: Rounds::default(),
                episodes: Episodes::default(),
                seen: Observation { rtt: BASE, delivered_packets: u32::MAX - 300, ..QUIET },
                base_rtt: BASE,
                causes: Vec::new(),
            }
        }

        fn look(&mut self) {
            self.rounds.observe(&self.seen, false);
            self.causes.extend(self.episodes.observe(&self.seen, &self.rounds, self.base_rtt));
        }

        /// Rounds that deliver so many packets, with this queue, and half a millisecond of super-packets at every other look.
        fn carry(&mut self, rounds: u32, packets: u32, queue: Duration) -> &mut Path {
            for look in 1..=10 * rounds {
                let noise = if look % 2 == 0 { Duration::from_micros(500) } else { NONE };
                self.seen.rtt = BASE + queue + noise;
                self.seen.now += BASE / 10;
                let delivered = packets * look / 10 - packets * (look - 1) / 10;
                self.seen.delivered_packets = self.seen.delivered_packets.wrapping_add(delivered);
                self.look();
            }
            self
        }

        /// Losses that are noticed in a round that delivers so many packets and repairs them.
        fn lose(&mut self, lost: u32, packets: u32, queue: Duration) -> &mut Path {
            self.seen.state = CongestionState::Recovery;
            self.seen.retransmitted_packets += u64::from(lost);
            self.seen.lost_packets = lost;
            self.carry(1, packets, queue);
            self.seen.lost_packets = 0;
            self.seen.state = CongestionState::Open;
            self
        }

        fn is_random(&self) -> bool {
            self.causes.contains(&Cause::Random)
        }
    }

    #[test]
    fn random_loss_is_found_at_the_second_episode_and_never_before() {
        let mut path = Path::new();
        path.carry(4, 1000, NONE).lose(1, 1000, NONE);
        assert_eq!(path.causes, [Cause::Unknown, Cause::Unknown]);
        path.carry(3, 720, NONE).lose(1, 720, NONE);
        assert_eq!(path.causes.last(), Some(&Cause::Random), "{:?}", path.causes);
    }

    #[test]
    fn the_losses_of_slow_start_count() {
        let mut path = Path::new();
        path.carry(1, 100, NONE).carry(1, 200, NONE).lose(1, 400, NONE);
        path.carry(2, 300, NONE).lose(1, 300, NONE);
        assert!(path.is_random(), "{:?}", path.causes);
    }

    #[test]
    fn an_overflow_has_its_queue_and_erases_what_was_collected() {
        let mut path = Path::new();
        for _ in 0..4 {
            path.carry(4, 700, NONE).carry(4, 1000, QUEUE).lose(1, 1000, QUEUE);
        }
        assert!(!path.is_random() && path.causes.contains(&Cause::Congestion), "{:?}", path.causes);
        let mut mixed = Path::new();
        mixed.carry(4, 1000, NONE).lose(1, 1000, NONE).carry(4, 1000, QUEUE).lose(1, 1000, QUEUE);
        mixed.carry(4, 700, NONE).lose(1, 700, NONE);
        assert!(!mixed.is_random(), "{:?}", mixed.causes);
    }

    #[test]
    fn a_queue_of_others_is_no_random_loss_at_any_rate() {
        let mut path = Path::new();
        path.carry(4, 1000, NONE).lose(1, 1000, NONE);
        for packets in [700, 500, 300] {
            path.carry(4, packets, QUEUE).lose(1, packets, QUEUE);
        }
        assert!(!path.is_random(), "{:?}", path.causes);
    }

    #[test]
    fn where_a_short_queue_has_overflowed_five_episodes_are_needed() {
        let mut path = Path::new();
        let queue = Duration::from_millis(2);
        path.carry(4, 1000, NONE).carry(1, 1000, queue).lose(1, 1000, queue);
        for packets in [1000, 700, 690, 680] {
            path.carry(4, packets, NONE).lose(1, packets, NONE);
        }
        assert!(!path.is_random(), "{:?}", path.causes);
        path.carry(4, 670, NONE).lose(1, 670, NONE);
        assert!(path.is_random(), "{:?}", path.causes);
    }

    #[test]
    fn between_queued_and_unqueued_an_episode_does_not_count() {
        let mut path = Path::new();
        path.carry(4, 1000, NONE).lose(1, 1000, NONE);
        for packets in [700, 500] {
            let queue = Duration::from_micros(900);
            path.carry(4, packets, NONE).carry(1, packets, queue).lose(1, packets, queue);
        }
        assert!(!path.is_random() && !path.causes.contains(&Cause::Congestion), "{:?}", path.causes);
        path.carry(4, 400, NONE).lose(1, 400, NONE);
        assert!(path.is_random(), "{:?}", path.causes);
    }

    #[test]
    fn a_policer_drops_at_its_rate_alone() {
        let mut path = Path::new();
        // Its burst lets a slow start exceed it by far.
        path.carry(2, 2000, NONE).lose(1000, 1000, NONE);
        for packets in [1010, 980, 1000, 990, 1000] {
            path.carry(6, 700, NONE).carry(6, packets, NONE).lose(30, 1000, NONE);
        }
        assert!(!path.is_random(), "{:?}", path.causes);
        path.carry(6, 700, NONE).lose(1, 700, NONE);
        assert!(path.is_random(), "{:?}", path.causes);
    }

    #[test]
    fn in_a_small_flight_a_queue_is_seen_before_the_smoothed_round_trip_shows_it() {
        let mut path = Path::new();
        path.carry(4, 40, NONE).lose(1, 40, NONE);
        for _ in 0..2 {
            path.carry(4, 20, NONE);
            path.seen.retransmitted_packets += 1;
            path.seen.lost_packets = 1;
            for acks in 1..=10 {
                path.seen.now += BASE / 10;
                path.seen.delivered_packets = path.seen.delivered_packets.wrapping_add(2);
                path.seen.rtt = BASE + QUEUE.mul_f64(1.0 - 0.875_f64.powi(acks));
                path.look();
            }
            path.seen.lost_packets = 0;
        }
        assert!(!path.is_random() && path.causes.contains(&Cause::Congestion), "{:?}", path.causes);
    }

    #[test]
    fn what_was_sent_twice_or_out_of_order_is_no_loss() {
        let mut late = Path::new();
        let mut reordered = Path::new();
        for _ in 0..3 {
            late.carry(4, 1000, NONE).lose(2, 1000, NONE).carry(3, 700, NONE);
            late.seen.congestion.duplicate_packets = late.seen.congestion.duplicate_packets.wrapping_add(2);
            reordered.carry(3, 1000, NONE);
            reordered.seen.congestion.reorderings += 1;
            reordered.lose(2, 1000, NONE).carry(3, 700, NONE);
        }
        for path in [late, reordered] {
            assert!(!path.is_random(), "{:?}", path.causes);
        }
    }

    #[test]
    fn marks_and_timeouts_are_no_random_loss() {
        for is_marked in [true, false] {
            let mut path = Path::new();
            for _ in 0..4 {
                path.carry(4, 1000, NONE);
                path.seen.marked_packets += u32::from(is_marked);
                path.seen.timeouts += u32::from(!is_marked);
                path.lose(1, 1000, NONE).carry(3, 700, NONE);
            }
            assert_eq!(path.causes, [], "{is_marked}");
        }
    }

    #[test]
    fn older_episodes_are_judged_by_a_base_that_has_fallen() {
        let mut path = Path::new();
        // A queue of others stood all the time, and the base was taken in it.
        path.base_rtt = BASE + QUEUE;
        path.carry(4, 1000, QUEUE).lose(1, 1000, QUEUE).carry(4, 700, QUEUE);
        path.base_rtt = BASE;
        path.carry(3, 700, NONE).lose(1, 700, NONE);
        assert!(!path.is_random(), "{:?}", path.causes);
    }

    #[test]
    fn losses_that_are_repaired_over_rounds_are_one_episode() {
        let mut path = Path::new();
        path.seen.cwnd_packets = 300;
        path.carry(4, 1000, NONE).lose(100, 1000, NONE);
        for _ in 0..6 {
            path.seen.lost_packets = 50;
            path.seen.retransmitted_packets += 20;
            path.carry(1, 700, NONE);
        }
        assert!(!path.is_random(), "{:?}", path.causes);
    }

    #[test]
    fn a_loss_that_is_noticed_late_is_no_evidence() {
        let mut path = Path::new();
        for packets in [1000, 700, 500, 400] {
            path.carry(4, packets, NONE);
            path.seen.now += BASE;
            path.seen.delivered_packets = path.seen.delivered_packets.wrapping_add(packets);
            path.lose(1, packets, NONE);
        }
        assert!(!path.is_random(), "{:?}", path.causes);
    }

    #[test]
    fn at_a_few_packets_a_round_two_episodes_need_no_witness() {
        for (packets, is_random) in [(8, true), (80, false)] {
            let mut path = Path::new();
            for _ in 0..3 {
                path.carry(3, packets, NONE).lose(1, packets, NONE);
            }
            assert_eq!(path.is_random(), is_random, "{packets}: {:?}", path.causes);
        }
    }
}
