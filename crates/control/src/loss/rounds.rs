//! Per-round bookkeeping of a sender: packets delivered and lost, round trips, and the share of packets that random loss takes.
//!
//! A *round* is one smoothed round trip. A round is *unqueued* if its second lowest round trip is the base RTT: a late look or a
//! delayed acknowledgement raises one look, and a queue raises all of them. Losses of unqueued rounds are random, unless a
//! queue has overflowed just before, whose losses are repaired for some rounds after it has drained.

use core::time::Duration;
use std::collections::VecDeque;

use event::Instant;

use crate::loss::share::LossShare;
use crate::measure::unqueued::has_small_queue;
use crate::policy::Observation;

/// Rounds kept: two gain cycles of BBR.
const ROUNDS: usize = 16;
/// Rounds that repair an overflow, its own included; their losses are not random.
const REPAIR_ROUNDS: u32 = 3;

/// Bookkeeping of the last rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds {
    present: Option<Present>,
    rounds: VecDeque<Round>,
    /// Rounds that are over, in all.
    count: u64,
    /// Rounds left whose losses belong to an overflow.
    repair_rounds: u32,
}

/// A round that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Round {
    /// When it ended, and its length.
    pub(crate) ended: Instant,
    pub(crate) length: Duration,
    /// Packets delivered in it, those behind a gap included.
    pub(crate) delivered_packets: u64,
    /// Packets retransmitted in it.
    pub(crate) lost_packets: u64,
    /// Second lowest smoothed round trip of its looks.
    pub(crate) rtt: Duration,
    /// Marks, timeouts, reordering or a full device were seen in it: its losses say nothing of the path.
    pub(crate) is_disturbed: bool,
    /// Its losses belong to a queue that overflowed.
    pub(crate) is_repair: bool,
}

/// The round that is under way.
#[derive(Clone, Copy, Debug)]
struct Present {
    begun: Instant,
    delivered_before_packets: u32,
    lost_before_packets: u64,
    /// Two lowest smoothed round trips of its looks.
    rtts: [Duration; 2],
    /// Marked packets, timeouts and reordering events before.
    disturbances: [u32; 3],
    is_device_full: bool,
}

impl Rounds {
    /// A queue has overflowed: what is lost in the next rounds belongs to it.
    pub(crate) fn overflowed(&mut self) {
        self.repair_rounds = REPAIR_ROUNDS;
    }

    /// Takes a look, and whether the device cut the window; returns whether a round has ended.
    pub(crate) fn observe(&mut self, seen: &Observation, is_device_full: bool) -> bool {
        let Some(present) = &mut self.present else {
            self.present = Some(Present::new(seen));
            return false;
        };
        present.add(seen, is_device_full);
        if seen.now < present.begun + seen.rtt {
            return false;
        }
        let round = Round {
            ended: seen.now,
            length: seen.now.since(present.begun),
            delivered_packets: u64::from(
                seen.delivered_packets.wrapping_sub(present.delivered_before_packets),
            ),
            lost_packets: seen.retransmitted_packets.saturating_sub(present.lost_before_packets),
            rtt: present.second_lowest_rtt(),
            is_disturbed: present.is_device_full || present.disturbances != disturbances(seen),
            is_repair: self.repair_rounds > 0,
        };
        self.repair_rounds = self.repair_rounds.saturating_sub(1);
        if self.rounds.len() == ROUNDS {
            self.rounds.pop_front();
        }
        self.rounds.push_back(round);
        self.present = Some(Present::new(seen));
        self.count += 1;
        true
    }

    /// Rounds that are over, in all.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The last rounds that are over, the newest first.
    pub(crate) fn last(&self, rounds: usize) -> impl Iterator<Item = &Round> {
        self.rounds.iter().rev().take(rounds)
    }

    /// Returns whether marks, timeouts, reordering or a full device were seen in the last two rounds or since.
    pub(crate) fn is_disturbed(&self, seen: &Observation) -> bool {
        let present =
            self.present.is_some_and(|now| now.is_device_full || now.disturbances != disturbances(seen));
        present || self.last(2).any(|round| round.is_disturbed)
    }

    /// Median of the round trips of the last rounds that ended before `until`.
    pub(crate) fn usual_rtt(&self, until: Instant) -> Option<Duration> {
        let before = self.rounds.iter().filter(|round| round.ended < until && !round.rtt.is_zero());
        let mut rtts: Vec<Duration> = before.map(|round| round.rtt).collect();
        rtts.sort_unstable();
        rtts.get(rtts.len() / 2).copied()
    }

    /// The share of packets that random loss takes, from the unqueued rounds; 0 if none of them lost anything.
    pub(crate) fn random_loss(&self, base_rtt: Duration) -> LossShare {
        let (delivered, lost) = self.unqueued(base_rtt);
        LossShare::new(delivered, lost)
    }

    /// Upper bound of that share: a few losses leave it uncertain.
    pub(crate) fn random_loss_upper(&self, base_rtt: Duration) -> LossShare {
        let (delivered, lost) = self.unqueued(base_rtt);
        LossShare::upper(delivered, lost)
    }

    /// Packets delivered and lost in the unqueued rounds.
    fn unqueued(&self, base_rtt: Duration) -> (u64, u64) {
        let unqueued = self.rounds.iter().filter(|round| round.is_unqueued(base_rtt));
        unqueued.fold((0, 0), |(delivered, lost), round| {
            (delivered + round.delivered_packets, lost + round.lost_packets)
        })
    }
}

impl Round {
    /// Returns whether a queue stood, small ones included.
    pub(crate) fn is_queued(&self, base_rtt: Duration) -> bool {
        has_small_queue(self.rtt, base_rtt)
    }

    /// Returns whether its losses are random.
    fn is_unqueued(&self, base_rtt: Duration) -> bool {
        !self.is_repair && !self.is_queued(base_rtt)
    }
}

impl Present {
    fn new(seen: &Observation) -> Present {
        Present {
            begun: seen.now,
            delivered_before_packets: seen.delivered_packets,
            lost_before_packets: seen.retransmitted_packets,
            rtts: [seen.rtt, Duration::MAX],
            disturbances: disturbances(seen),
            is_device_full: false,
        }
    }

    fn add(&mut self, seen: &Observation, is_device_full: bool) {
        let rtt = seen.rtt;
        self.is_device_full |= is_device_full;
        let [lowest, second] = self.rtts;
        self.rtts = if rtt < lowest { [rtt, lowest] } else { [lowest, second.min(rtt)] };
    }

    fn second_lowest_rtt(&self) -> Duration {
        self.rtts[1]
    }
}

fn disturbances(seen: &Observation) -> [u32; 3] {
    [seen.marked_packets, seen.timeouts, seen.congestion.reorderings]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::QUIET;

    const BASE: Duration = Duration::from_millis(100);

    /// Rounds of ten looks; each delivers and loses so many packets, with this queue at all looks but one.
    fn rounds(each: &[(u32, u64, Duration)], first_packets: u32) -> Rounds {
        let mut rounds = Rounds::default();
        let mut seen = Observation { delivered_packets: first_packets, rtt: BASE, ..QUIET };
        rounds.observe(&seen, false);
        for &(delivered, lost, queue) in each {
            seen.delivered_packets = seen.delivered_packets.wrapping_add(delivered);
            seen.retransmitted_packets += lost;
            seen.rtt = BASE + queue;
            let end = seen.now + seen.rtt;
            while seen.now < end {
                seen.now += seen.rtt / 10;
                rounds.observe(&seen, false);
            }
            seen.rtt = BASE;
        }
        rounds
    }

    #[test]
    fn the_share_is_that_of_rounds_without_a_queue() {
        let (none, queue) = (Duration::ZERO, Duration::from_millis(3));
        let counted = [(1000, 10, none), (1000, 10, none)];
        assert_eq!(rounds(&counted, 0).random_loss(BASE), LossShare::new(2000, 20));
        assert_eq!(rounds(&counted, u32::MAX - 500).random_loss(BASE), LossShare::new(2000, 20), "it wraps");
        assert_eq!(rounds(&[(1000, 300, queue)], 0).random_loss(BASE), LossShare::default());
        assert_eq!(rounds(&[(1000, 0, none)], 0).random_loss(BASE), LossShare::default());
        let base = BASE - Duration::from_millis(3);
        assert_eq!(rounds(&counted, 0).random_loss(base), LossShare::default(), "the base has fallen since");
    }

    #[test]
    fn repairs_of_an_overflow_are_no_random_loss() {
        let mut rounds = rounds(&[(1000, 10, Duration::ZERO)], 0);
        let mut seen = Observation {
            now: Instant::ZERO + BASE,
            rtt: BASE,
            delivered_packets: 1000,
            retransmitted_packets: 10,
            ..QUIET
        };
        for look in 0..30 {
            seen.now += BASE / 10;
            seen.delivered_packets += 100;
            seen.retransmitted_packets += 20;
            if look == 0 {
                rounds.overflowed();
            }
            rounds.observe(&seen, false);
        }
        assert_eq!(rounds.random_loss(BASE), LossShare::new(1000, 10));
    }

    #[test]
    fn old_rounds_are_forgotten() {
        let mut each = vec![(1000, 500, Duration::ZERO)];
        each.extend([(1000, 0, Duration::ZERO); ROUNDS]);
        assert_eq!(rounds(&each, 0).random_loss(BASE), LossShare::default());
    }
}
