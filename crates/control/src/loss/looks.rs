//! Looks of the last rounds, at most 32 a round: deliveries, round trips.
//!
//! TCP's round trip is smoothed: each acknowledgement counts for an eighth (RFC 6298). An acknowledgement covers two packets,
//! so after 16 packets two thirds of the older ones are gone. Where a round has fewer packets the smoothed one lags behind a
//! queue by rounds, and [`Looks::recent_rtt`] takes the older part out.

use core::time::Duration;
use std::collections::VecDeque;

use event::Instant;

use crate::policy::Observation;

/// Looks kept: those of two rounds.
const LOOKS: usize = 72;
const LOOKS_OF_ROUND: u32 = 32;
/// Packets of an acknowledgement (RFC 9293, 3.8.6.3), and the share of a sample in the smoothed round trip.
const ACK_PACKETS: u32 = 2;
const SMOOTHED: f64 = 7.0 / 8.0;

/// The last looks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Looks {
    looks: VecDeque<Look>,
}

/// A look.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    rtt: Duration,
    /// Packets delivered in all; wraps.
    delivered_packets: u32,
}

impl Looks {
    /// Takes a look, unless the one before was just now.
    pub(crate) fn observe(&mut self, seen: &Observation) {
        if self.looks.back().is_some_and(|last| seen.now < last.at + seen.rtt / LOOKS_OF_ROUND) {
            return;
        }
        if self.looks.len() == LOOKS {
            self.looks.pop_front();
        }
        let delivered_packets = seen.delivered_packets;
        self.looks.push_back(Look { at: seen.now, rtt: seen.rtt, delivered_packets });
    }

    /// Time of the last look.
    pub(crate) fn last_at(&self) -> Option<Instant> {
        self.looks.back().map(|look| look.at)
    }

    /// Second lowest of the smoothed round trips of the looks since `since`: super-packets add to some of them. `None` without
    /// a look.
    pub(crate) fn low_rtt(&self, since: Instant) -> Option<Duration> {
        let (mut lowest, mut second) = (None, None);
        for rtt in self.looks.iter().filter(|look| look.at >= since).map(|look| look.rtt) {
            if lowest.is_none_or(|lowest| rtt < lowest) {
                (lowest, second) = (Some(rtt), lowest);
            } else if second.is_none_or(|second| rtt < second) {
                second = Some(rtt);
            }
        }
        second.or(lowest)
    }

    /// Largest delivery rate of the last round and of its second half, in packets per second.
    pub(crate) fn rate(&self, seen: &Observation) -> Option<u64> {
        [seen.rtt, seen.rtt / 2].into_iter().map(|over| self.rate_over(seen, over)).max()?
    }

    fn rate_over(&self, seen: &Observation, over: Duration) -> Option<u64> {
        let from = self.looks.iter().rev().find(|look| look.at + over <= seen.now)?;
        let packets = seen.delivered_packets.wrapping_sub(from.delivered_packets);
        Some(per_second(packets.into(), seen.now.since(from.at)))
    }

    /// Round trip since `since`: the median of the smoothed ones, or if that is larger the mean sample that they contain. `None`
    /// without a look since.
    pub(crate) fn recent_rtt(&self, since: Instant) -> Option<Duration> {
        let before = self.looks.iter().rev().find(|look| look.at < since);
        let mut looks: Vec<&Look> = self.looks.iter().filter(|look| look.at >= since).collect();
        let last = *looks.last()?;
        looks.sort_by_key(|look| look.rtt);
        let median = looks[looks.len() / 2].rtt;
        let Some(before) = before else { return Some(median) };
        let acks = last.delivered_packets.wrapping_sub(before.delivered_packets) / ACK_PACKETS;
        let kept = SMOOTHED.powi(acks.clamp(1, 100) as i32);
        let rtt = (last.rtt.as_secs_f64() - kept * before.rtt.as_secs_f64()) / (1.0 - kept);
        Some(median.max(Duration::from_secs_f64(rtt.max(0.0))))
    }
}

/// Packets per second.
pub(crate) fn per_second(packets: u64, time: Duration) -> u64 {
    let per_s = u128::from(packets) * 1_000_000_000 / time.as_nanos().max(1);
    u64::try_from(per_s).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::QUIET;

    const BASE: Duration = Duration::from_millis(64);

    fn looks(count: u32, rtt: impl Fn(u32) -> Duration, packets: u32) -> (Looks, Observation) {
        let mut looks = Looks::default();
        let mut seen = Observation { rtt: BASE, delivered_packets: u32::MAX - 5, ..QUIET };
        for look in 0..count {
            seen = Observation { rtt: rtt(look), now: seen.now + BASE / 8, ..seen };
            seen.delivered_packets = seen.delivered_packets.wrapping_add(packets);
            looks.observe(&seen);
        }
        (looks, seen)
    }

    #[test]
    fn the_rate_is_that_of_a_round_or_of_its_faster_second_half() {
        assert_eq!(looks(20, |_| BASE, 8).0.rate(&looks(20, |_| BASE, 8).1), Some(1000));
        let (mut looks, mut seen) = looks(20, |_| BASE, 8);
        for _ in 0..4 {
            seen.now += BASE / 8;
            seen.delivered_packets = seen.delivered_packets.wrapping_add(16);
            looks.observe(&seen);
        }
        assert_eq!(looks.rate(&seen), Some(2000));
        assert_eq!(Looks::default().rate(&seen), None);
    }

    #[test]
    fn one_late_look_does_not_count_and_a_rise_of_few_samples_does() {
        let late = Duration::from_millis(30);
        let (all, seen) = looks(16, |look| if look == 13 { BASE + late } else { BASE }, 100);
        assert_eq!(all.recent_rtt(seen.now - BASE / 2), Some(BASE));
        // An acknowledgement a look, each of them with 8 ms of queue.
        let queue = Duration::from_millis(8);
        let smoothed = |look: u32| BASE + queue.mul_f64(1.0 - SMOOTHED.powi(look.saturating_sub(11) as i32));
        let (all, seen) = looks(16, smoothed, 2);
        let rtt = all.recent_rtt(seen.now - BASE * 3 / 8).expect("looks");
        assert!(rtt.abs_diff(BASE + queue) < Duration::from_micros(100), "{rtt:?}");
    }

    #[test]
    fn looks_in_a_hurry_leave_those_of_a_round() {
        let (mut all, mut seen) = looks(8, |_| BASE, 8);
        for _ in 0..1000 {
            seen.now += BASE / 1000;
            all.observe(&seen);
        }
        assert!(all.rate(&seen).is_some());
    }
}
