//! Loss episodes and their causes: a cut of the window by loss, with the queueing delay and the flight at that time.
//!
//! A queue or a policer drops only at a rate, so after a cut neither drops until that rate is back; random loss does. An
//! episode without a queue whose flight is clearly below what the path has carried is a *witness* of random loss. Two unqueued
//! episodes a round and a half apart decide, if one of them is a witness. An episode with a queue erases what was collected.

use core::time::Duration;
use std::collections::VecDeque;

use event::{CongestionState, Instant, WindowKind};

use crate::loss::rounds::Rounds;
use crate::measure::cuts::Cut;
use crate::measure::max_filter::MaxFilter;
use crate::measure::unqueued::has_small_queue;
use crate::policy::Observation;

/// Episodes kept, and for how long.
const EPISODES: usize = 8;
const KEPT_FOR: Duration = Duration::from_secs(30);
/// The largest flight carried is kept for so many slots of so long.
const SLOTS: usize = 10;
const SLOT: Duration = Duration::from_secs(3);
/// A path carries the flight of a round of which it loses less than one in so many packets.
const CARRIED_SHARE: u64 = 16;
/// Flight of a witness, in percent of the largest that the path has carried.
const WITNESS_PERCENT: u64 = 85;
/// At smaller windows a cut does not show.
const FLOOR_PACKETS: u32 = 4;

/// Episodes of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Episodes {
    pending: Option<Begun>,
    kept: VecDeque<Episode>,
    last: Option<Instant>,
    /// The window was full since the last one.
    was_full: bool,
    /// Retransmitted packets at the last look.
    retransmitted_packets: u64,
    /// Retransmitted and duplicate packets before the first of those kept.
    before: (u64, u32),
    carried: MaxFilter<SLOTS>,
    slot_ends: Instant,
}

/// An episode whose queueing delay is not known yet.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Instant,
    flight_packets: u32,
}

/// An episode.
#[derive(Clone, Copy, Debug)]
struct Episode {
    at: Instant,
    /// Packets in flight one round before it was noticed, when the packet was dropped.
    flight_packets: u32,
    /// Second lowest round trip of the half round after it was noticed.
    rtt: Duration,
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
    /// Takes a look at a sender in bulk, after `rounds` has, and whether a round has ended; returns what is decided by it.
    pub(crate) fn observe(
        &mut self,
        seen: &Observation,
        cut: Option<Cut>,
        (rounds, has_ended): (&Rounds, bool),
        base_rtt: Duration,
    ) -> Option<Cause> {
        if has_ended {
            self.carry(seen.now, rounds, base_rtt);
        }
        let has_resent = seen.retransmitted_packets > self.retransmitted_packets;
        let resent_before = core::mem::replace(&mut self.retransmitted_packets, seen.retransmitted_packets);
        if self.is_begun(seen, cut, has_resent, rounds) {
            if self.kept.is_empty() {
                self.before = (resent_before, seen.congestion.duplicate_packets);
            }
            let flight_packets = rounds.flight_at(seen.now - seen.rtt);
            (self.last, self.was_full) = (Some(seen.now), false);
            self.pending = Some(Begun { at: seen.now, flight_packets });
            return Some(Cause::Unknown);
        }
        self.was_full |= seen.state == CongestionState::Open
            && u64::from(seen.unacked_packets) * 10 >= u64::from(seen.cwnd_packets) * 9;
        let begun = self.pending.take_if(|begun| seen.now >= begun.at + seen.rtt / 2)?;
        let rtt = rounds.second_lowest_rtt(begun.at)?;
        Some(self.weigh(Episode { at: begun.at, flight_packets: begun.flight_packets, rtt }, seen, base_rtt))
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

    fn is_begun(&self, seen: &Observation, cut: Option<Cut>, has_resent: bool, rounds: &Rounds) -> bool {
        let is_cut = cut.is_some_and(|cut| cut.kind == WindowKind::CutByLoss);
        let is_at_floor = has_resent && seen.cwnd_packets <= FLOOR_PACKETS;
        let is_apart = self.last.is_none_or(|last| self.was_full && seen.now >= last + seen.rtt * 3 / 2);
        (is_cut || is_at_floor) && is_apart && !rounds.is_disturbed(seen)
    }

    /// A round has ended, so that the losses of the one before are known.
    fn carry(&mut self, now: Instant, rounds: &Rounds, base_rtt: Duration) {
        if now >= self.slot_ends {
            let slots = (now.since(self.slot_ends).as_nanos() / SLOT.as_nanos()).min(SLOTS as u128) as usize;
            (0..=slots.min(SLOTS - 1)).for_each(|_| self.carried.advance());
            self.slot_ends = now + SLOT;
        }
        let mut last = rounds.last(2);
        let (Some(after), Some(round)) = (last.next(), last.next()) else { return };
        let is_carried = after.lost_packets * CARRIED_SHARE < after.delivered_packets;
        if is_carried && !after.is_queued(base_rtt) && !round.is_queued(base_rtt) {
            self.carried.add(round.flight_packets.into());
        }
    }

    fn weigh(&mut self, episode: Episode, seen: &Observation, base_rtt: Duration) -> Cause {
        let is_unqueued = |episode: &Episode| !has_small_queue(episode.rtt, base_rtt);
        if !is_unqueued(&episode) {
            self.clear();
            return Cause::Congestion;
        }
        if self.kept.len() == EPISODES {
            self.kept.pop_front();
        }
        self.kept.push_back(episode);
        self.kept.retain(|episode| seen.now.since(episode.at) <= KEPT_FOR);
        // The base may have fallen since the older ones: a queue of others that has drained.
        let mut unqueued = self.kept.iter().filter(|episode| is_unqueued(episode));
        let first = unqueued.clone().next().unwrap_or(&episode);
        let is_apart = episode.at.since(first.at) >= seen.rtt * 3 / 2;
        let most = self.carried.max() * WITNESS_PERCENT;
        let has_witness = unqueued.any(|episode| u64::from(episode.flight_packets) * 100 <= most);
        let duplicates = seen.congestion.duplicate_packets.wrapping_sub(self.before.1);
        let resent = seen.retransmitted_packets.saturating_sub(self.before.0);
        let is_spurious = u64::from(duplicates) * 4 > resent;
        if is_apart && has_witness && !is_spurious { Cause::Random } else { Cause::Unknown }
    }
}

#[cfg(test)]
mod tests {
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

        fn look(&mut self, cut: Option<WindowKind>) {
            let cut = cut.map(|kind| Cut { kind, from_packets: 2, to_packets: 1 });
            let is_device_full = cut.is_some_and(|cut| cut.kind == WindowKind::CutHere);
            let has_ended = self.rounds.observe(&self.seen, is_device_full);
            let (rounds, base_rtt) = ((&self.rounds, has_ended), self.base_rtt);
            self.causes.extend(self.episodes.observe(&self.seen, cut, rounds, base_rtt));
        }

        /// Rounds of a full window, with this queue, and half a millisecond of super-packets at every other look.
        fn carry(&mut self, rounds: u32, flight_packets: u32, queue: Duration) -> &mut Path {
            for look in 0..10 * rounds {
                let noise = if look % 2 == 0 { Duration::from_micros(500) } else { NONE };
                self.seen.rtt = BASE + queue + noise;
                self.seen.now += BASE / 10;
                self.seen.delivered_packets = self.seen.delivered_packets.wrapping_add(flight_packets / 10);
                (self.seen.unacked_packets, self.seen.cwnd_packets) = (flight_packets, flight_packets);
                self.look(None);
            }
            self
        }

        /// A round with so many losses and a cut of that kind at its beginning.
        fn lose(&mut self, packets: u64, kind: WindowKind, queue: Duration) -> &mut Path {
            self.seen.now += BASE / 10;
            self.seen.rtt = BASE + queue;
            self.seen.state = CongestionState::Recovery;
            self.seen.retransmitted_packets += packets;
            self.look(Some(kind));
            let flight_packets = self.seen.cwnd_packets * 7 / 10;
            // One look is late.
            self.seen.rtt += Duration::from_millis(30);
            self.look(None);
            self.carry(1, flight_packets, queue);
            self.seen.state = CongestionState::Open;
            self
        }

        fn is_random(&self) -> bool {
            self.causes.contains(&Cause::Random)
        }
    }

    const LOSS: WindowKind = WindowKind::CutByLoss;

    #[test]
    fn random_loss_is_found_at_the_second_episode_and_never_before() {
        let mut path = Path::new();
        path.carry(4, 1000, NONE).lose(1, LOSS, NONE);
        assert_eq!(path.causes, [Cause::Unknown, Cause::Unknown]);
        path.carry(3, 720, NONE).lose(1, LOSS, NONE);
        assert_eq!(path.causes.last(), Some(&Cause::Random), "{:?}", path.causes);
    }

    #[test]
    fn the_first_loss_of_slow_start_counts() {
        let mut path = Path::new();
        path.carry(1, 100, NONE).carry(1, 200, NONE).carry(1, 400, NONE).lose(1, LOSS, NONE);
        path.carry(2, 280, NONE).lose(1, LOSS, NONE);
        assert!(path.is_random(), "{:?}", path.causes);
    }

    #[test]
    fn an_overflow_has_its_queue_and_erases_what_was_collected() {
        let mut path = Path::new();
        for _ in 0..4 {
            path.carry(4, 1000, NONE).carry(4, 1100, QUEUE).lose(1, LOSS, QUEUE);
        }
        assert!(!path.is_random() && path.causes.contains(&Cause::Congestion), "{:?}", path.causes);
        let mut mixed = Path::new();
        mixed.carry(4, 1000, NONE).lose(1, LOSS, NONE).carry(4, 1000, QUEUE).lose(1, LOSS, QUEUE);
        mixed.carry(4, 700, NONE).lose(1, LOSS, NONE);
        assert!(!mixed.is_random(), "{:?}", mixed.causes);
    }

    #[test]
    fn a_queue_of_others_is_no_random_loss_at_any_flight() {
        let mut path = Path::new();
        path.carry(4, 1000, NONE);
        for flight in [700, 500, 300] {
            path.carry(4, flight, QUEUE).lose(1, LOSS, QUEUE);
        }
        assert!(!path.is_random(), "{:?}", path.causes);
    }

    #[test]
    fn a_policer_drops_at_its_rate_alone() {
        let mut path = Path::new();
        for flight in [1000, 980, 1010, 990, 1000] {
            path.carry(6, flight, NONE).lose(30, LOSS, NONE);
        }
        assert!(!path.is_random(), "{:?}", path.causes);
    }

    #[test]
    fn what_the_device_refuses_and_what_was_sent_twice_is_no_loss() {
        let mut ring = Path::new();
        let mut late = Path::new();
        let mut reordered = Path::new();
        for _ in 0..3 {
            ring.carry(4, 1000, NONE).lose(0, WindowKind::CutHere, NONE).carry(2, 700, NONE);
            late.carry(4, 1000, NONE).lose(2, LOSS, NONE).carry(3, 700, NONE);
            late.seen.congestion.duplicate_packets = late.seen.congestion.duplicate_packets.wrapping_add(2);
            reordered.carry(3, 1000, NONE);
            reordered.seen.congestion.reorderings += 1;
            reordered.lose(2, LOSS, NONE).carry(3, 700, NONE);
        }
        for path in [ring, late, reordered] {
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
                path.lose(1, LOSS, NONE).carry(3, 700, NONE);
            }
            assert_eq!(path.causes, [], "{is_marked}");
        }
    }

    #[test]
    fn older_episodes_are_judged_by_a_base_that_has_fallen() {
        let mut path = Path::new();
        // A queue of others stood all the time, and the base was taken in it.
        path.base_rtt = BASE + QUEUE;
        path.carry(4, 1000, QUEUE).lose(1, LOSS, QUEUE).carry(4, 700, QUEUE);
        path.base_rtt = BASE;
        path.carry(3, 700, NONE).lose(1, LOSS, NONE);
        assert!(!path.is_random(), "{:?}", path.causes);
    }

    #[test]
    fn an_overflow_that_is_repaired_over_rounds_is_one_episode() {
        let mut path = Path::new();
        path.carry(4, 1000, NONE).lose(100, LOSS, NONE);
        for _ in 0..3 {
            path.lose(20, LOSS, NONE);
        }
        assert!(!path.is_random(), "{:?}", path.causes);
    }

    #[test]
    fn at_the_floor_a_retransmission_stands_for_a_cut() {
        let mut path = Path::new();
        path.carry(4, 40, NONE);
        for _ in 0..3 {
            path.carry(2, 4, NONE);
            path.seen.retransmitted_packets += 1;
            path.carry(2, 4, NONE);
        }
        assert!(path.is_random(), "{:?}", path.causes);
    }
}
