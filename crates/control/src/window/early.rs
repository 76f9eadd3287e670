//! Whether slow start ended although the line had room.
//!
//! HyStart ends it at the first round trip that is longer by an eighth, by 4 ms at least and 16 at most
//! (net/ipv4/tcp_cubic.c). A host or a path that stands still for a moment does that as well as a queue. From there CUBIC
//! grows by a twentieth each round trip: 66 of them for a factor of 25, over 500 ms half a minute.
//!
//! Behind a window that is no smaller a queue would still be there, and grow. Where none shows for some round trips, while
//! more and more is sent, the threshold says nothing. What a loss or a full device left is not asked
//! here, nor where 66 round trips are soon over.

use core::time::Duration;

use event::{CongestionState, Instant};

use crate::bulk::cap::BULK_BYTES;
use crate::measure::cuts::Cut;
use crate::measure::unqueued::has_small_queue;
use crate::policy::Observation;
use crate::window::threshold::NO_THRESHOLD_PACKETS;

/// Rounds on end without a queue.
const ROUNDS: u32 = 6;
/// In which as much more was sent, in percent: a window that grows by a twentieth is more than a quarter larger by then.
const GROWN_PERCENT: u64 = 110;
/// Shorter paths are left alone.
const MIN_RTT: Duration = Duration::from_millis(20);

/// See the file's beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Early {
    was_cut: bool,
    has_queue: bool,
    rounds: u32,
    /// What was under way at the end of the first of them.
    began_packets: u32,
    round_ends: Instant,
}

impl Early {
    /// Takes what was seen; whether the threshold that there is says nothing.
    pub(crate) fn observe(&mut self, seen: &Observation, cut: Option<Cut>) -> bool {
        self.was_cut |= cut.is_some();
        let Some(min_rtt) = seen.min_rtt.filter(|rtt| *rtt >= MIN_RTT) else { return false };
        let has_threshold = seen.ssthresh_packets < NO_THRESHOLD_PACKETS;
        let is_asked = has_threshold && seen.backlog_bytes >= BULK_BYTES && !seen.app_limited;
        self.has_queue |= has_small_queue(seen.rtt, min_rtt) || !is_asked;
        if seen.now < self.round_ends {
            return false;
        }
        self.round_ends = seen.now + seen.rtt;
        self.rounds = if core::mem::take(&mut self.has_queue) { 0 } else { self.rounds + 1 };
        if self.rounds <= 1 {
            self.began_packets = seen.unacked_packets;
        }
        let has_grown =
            u64::from(seen.unacked_packets) * 100 >= u64::from(self.began_packets) * GROWN_PERCENT;
        // A device that takes packets one by one is felt for (`ring.rs`), and BBR uses no threshold.
        let is_other = seen.paced_one_by_one || seen.paces_itself;
        let is_window_full = u64::from(seen.unacked_packets) * 10 >= u64::from(seen.cwnd_packets) * 9;
        let is_open = seen.state == CongestionState::Open;
        let is_early =
            self.rounds >= ROUNDS && has_grown && is_window_full && is_open && !self.was_cut && !is_other;
        if is_early {
            self.rounds = 0;
        }
        is_early
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::QUIET;
    use event::WindowKind;

    const RTT: Duration = Duration::from_millis(100);

    /// A full window that has grown by a twentieth for so many rounds.
    fn full(round: u32) -> Observation {
        let packets = (0..round.min(60)).fold(1100, |packets, _| packets * 21 / 20);
        Observation {
            rtt: RTT,
            min_rtt: Some(RTT),
            ssthresh_packets: 1000,
            cwnd_packets: packets,
            unacked_packets: packets,
            mss_bytes: 1448,
            backlog_bytes: 64 << 20,
            ..QUIET
        }
    }

    /// The round, of those that `look` makes of full ones, in which it says so first.
    fn round_of(look: impl Fn(u32, Observation) -> (Observation, Option<Cut>)) -> Option<u32> {
        let mut early = Early::default();
        (0..60).find(|round| {
            let (seen, cut) = look(*round, full(*round));
            early.observe(&Observation { now: Instant::ZERO + RTT * *round, ..seen }, cut)
        })
    }

    #[test]
    fn a_queue_that_is_gone_was_none() {
        assert_eq!(round_of(|_, full| (full, None)), Some(5));
        let stood_still = |round: u32, full: Observation| {
            let rtt = if round == 3 { RTT + RTT / 8 } else { RTT };
            (Observation { rtt, ..full }, None)
        };
        // That round was longer, and the next begins at the look after it.
        assert_eq!(round_of(stood_still), Some(10));
    }

    #[test]
    fn one_that_shows_now_and_then_is_one() {
        let now_and_then = |round: u32, full: Observation| {
            let rtt = RTT + Duration::from_millis(if round % 6 == 5 { 2 } else { 0 });
            (Observation { rtt, ..full }, None)
        };
        assert_eq!(round_of(now_and_then), None);
    }

    #[test]
    fn what_says_nothing_of_slow_start() {
        let cut = Cut { kind: WindowKind::CutByLoss, from_packets: 1400, to_packets: 1000 };
        assert_eq!(round_of(|round, full| (full, (round == 0).then_some(cut))), None, "it was cut");
        assert_eq!(round_of(|_, _| (full(7), None)), None, "no more is sent than before");
        type Change = fn(&mut Observation);
        let others: [(&str, Change); 8] = [
            ("slow start", |seen| seen.ssthresh_packets = i32::MAX as u32),
            ("the window is not what limits", |seen| seen.unacked_packets = seen.cwnd_packets / 10 * 8),
            ("too little to send", |seen| seen.app_limited = true),
            ("a lone request", |seen| seen.backlog_bytes = 1 << 20),
            ("a short path", |seen| (seen.rtt, seen.min_rtt) = (RTT / 10, Some(RTT / 10))),
            ("a window is being cut", |seen| seen.state = CongestionState::Cwr),
            ("BBR", |seen| seen.paces_itself = true),
            ("a ring", |seen| seen.paced_one_by_one = true),
        ];
        for (what, change) in others {
            let changed = |_, mut full| {
                change(&mut full);
                (full, None)
            };
            assert_eq!(round_of(changed), None, "{what}");
        }
    }
}
