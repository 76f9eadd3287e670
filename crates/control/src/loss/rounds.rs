//! Per-round bookkeeping of a sender: packets delivered and lost, round trips, and the share of packets that random loss takes.
//!
//! A *round* is one smoothed round trip. A round is *unqueued* if its second lowest round trip is the base RTT: a late look or a
//! delayed acknowledgement raises one look, and a queue raises all of them. Losses of unqueued rounds are random, unless a
//! queue has overflowed just before, whose losses are repaired for some rounds after it has drained.

use core::time::Duration;
use std::collections::VecDeque;

use event::Instant;

use crate::measure::unqueued::has_small_queue;
use crate::policy::Observation;

/// Rounds kept: two gain cycles of BBR.
const ROUNDS: usize = 16;
/// Rounds that repair an overflow, its own included; their losses are not random.
const REPAIR_ROUNDS: u32 = 3;
/// Variance of losses over their mean: that of Gilbert-Elliott losses in bursts of eight packets is 15.
const BURSTINESS: u64 = 16;
/// Standard deviations above the mean that random loss reaches.
const DEVIATIONS: u64 = 4;
const MILLION: u64 = 1_000_000;

/// Bookkeeping of the last rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds {
    present: Option<Present>,
    rounds: VecDeque<Round>,
    /// Rounds left whose losses belong to an overflow.
    repair_rounds: u32,
}

/// A round that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Round {
    /// Packets delivered in it, those behind a gap included.
    pub(crate) delivered_packets: u64,
    /// Packets retransmitted in it.
    pub(crate) lost_packets: u64,
    /// Second lowest smoothed round trip of its looks.
    pub(crate) rtt: Duration,
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
}

/// Estimated share of packets that random loss takes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct LossShare {
    ppm: u64,
}

impl Rounds {
    /// Takes a look; `has_overflowed` if a queue has since the one before.
    pub(crate) fn observe(&mut self, seen: &Observation, has_overflowed: bool) {
        if has_overflowed {
            self.repair_rounds = REPAIR_ROUNDS;
        }
        let Some(present) = &mut self.present else {
            self.present = Some(Present::new(seen));
            return;
        };
        present.add(seen.rtt);
        if seen.now < present.begun + seen.rtt {
            return;
        }
        let round = Round {
            delivered_packets: u64::from(
                seen.delivered_packets.wrapping_sub(present.delivered_before_packets),
            ),
            lost_packets: seen.retransmitted_packets.saturating_sub(present.lost_before_packets),
            rtt: present.second_lowest_rtt(),
            is_repair: self.repair_rounds > 0,
        };
        self.repair_rounds = self.repair_rounds.saturating_sub(1);
        if self.rounds.len() == ROUNDS {
            self.rounds.pop_front();
        }
        self.rounds.push_back(round);
        self.present = Some(Present::new(seen));
    }

    /// The share of packets that random loss takes, from the unqueued rounds; 0 if none of them lost anything.
    pub(crate) fn random_loss(&self, base_rtt: Duration) -> LossShare {
        let unqueued = self.rounds.iter().filter(|round| round.is_unqueued(base_rtt));
        let (delivered, lost) = unqueued.fold((0, 0), |(delivered, lost), round| {
            (delivered + round.delivered_packets, lost + round.lost_packets)
        });
        LossShare::new(delivered, lost)
    }
}

impl Round {
    /// Returns whether its losses are random.
    fn is_unqueued(&self, base_rtt: Duration) -> bool {
        !self.is_repair && !has_small_queue(self.rtt, base_rtt)
    }
}

impl Present {
    fn new(seen: &Observation) -> Present {
        Present {
            begun: seen.now,
            delivered_before_packets: seen.delivered_packets,
            lost_before_packets: seen.retransmitted_packets,
            rtts: [seen.rtt, Duration::MAX],
        }
    }

    fn add(&mut self, rtt: Duration) {
        let [lowest, second] = self.rtts;
        self.rtts = if rtt < lowest { [rtt, lowest] } else { [lowest, second.min(rtt)] };
    }

    fn second_lowest_rtt(&self) -> Duration {
        self.rtts[1]
    }
}

impl LossShare {
    /// The share of so many lost besides so many delivered.
    pub(crate) fn new(delivered_packets: u64, lost_packets: u64) -> LossShare {
        if lost_packets == 0 {
            return LossShare::default();
        }
        let ppm = (2 * lost_packets + 1) * (MILLION / 2) / (delivered_packets + 1);
        LossShare { ppm: ppm.min(MILLION) }
    }

    /// Losses that chance explains among so many packets: the mean and four standard deviations of bursts.
    pub(crate) fn expected(self, packets: u64) -> u64 {
        let millionths = packets.saturating_mul(self.ppm);
        let variance = millionths.saturating_mul(BURSTINESS) / MILLION;
        millionths / MILLION + DEVIATIONS * variance.isqrt()
    }
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
            rounds.observe(&seen, look == 0);
        }
        assert_eq!(rounds.random_loss(BASE), LossShare::new(1000, 10));
    }

    #[test]
    fn old_rounds_are_forgotten() {
        let mut each = vec![(1000, 500, Duration::ZERO)];
        each.extend([(1000, 0, Duration::ZERO); ROUNDS]);
        assert_eq!(rounds(&each, 0).random_loss(BASE), LossShare::default());
    }

    #[test]
    fn five_percent_explain_bursts_and_not_a_third_of_a_large_round() {
        let share = LossShare::new(100_000, 5_000);
        assert_eq!(share.expected(8_600), 430 + 4 * 82);
        assert_eq!(share.expected(0), 0);
        assert_eq!(LossShare::default().expected(u64::MAX), 0);
        assert_eq!(LossShare::new(0, 5).expected(7), 7 + 4 * 10, "all are lost");
    }
}
