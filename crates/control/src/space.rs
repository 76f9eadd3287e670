//! How fast the data of a lone request are handed to TCP, so that a burst does not overflow the sender's own device
//! or the first queue it meets.
//!
//! A sender that is asked for a megabyte after a pause has the whole window at once and sends it at the speed of the
//! host. A network card with a ring of 256 packets refuses what is too much, the window is cut although nothing was
//! lost, and since such a sender hardly ever fills its window it stays cut. TCP's own pacing is no cure: its rate is the
//! window over the round trip, and what was cut is then slow as well. So the data are handed to it a little faster than
//! the line carries them, and nothing else is paced.
//!
//! The line is found by the trains themselves: while packets arrive as fast as they were handed over it may be faster,
//! and the next train is; when they arrive slower, they arrive as fast as the line carries them. Trains of a sender in
//! bulk tell as well. A train that is faster than the line leaves its excess in the first queue, so it is only as much
//! faster as the smallest ring has room for: one cut below the block costs more than many trains that were slow.
//!
//! While a window doubles and the block does not fit into it, TCP sends what it has at twice the rate of the last round,
//! whatever that does to the queue. So no more is handed to it then than fills the window in a part of the round trip.

use core::time::Duration;

use event::{Instant, WindowKind};

use crate::cuts::Cut;
use crate::policy::Observation;
use crate::train::{Measured, Train};
use crate::wary::window_rate;

/// What is sent at one time without spacing: the smallest ring, 80 packets, has room for it.
pub(crate) const BURST_MIN_BYTES: u64 = 96 << 10;
/// Bursts on shorter paths are not spaced: there is no pause in which a window could be unused.
const SPACED_MIN_RTT: Duration = Duration::from_millis(1);
/// Of the rate at which a train was handed over, so much has to arrive for it to have kept up.
const KEPT_UP_PERCENT: u64 = 97;
/// The next train's rate in percent, at most: of the last while the line is not found; of those of late after that, and
/// at the line.
const GROW_PERCENT: u64 = 140;
const FEEL_PERCENT: u64 = 112;
const LINE_PERCENT: u64 = 105;
/// What a train that is too fast may leave in the first queue: with what goes out at once (`engine`), 67 of the smallest
/// ring's 80 packets. On a fast line, whose rings are longer, what it carries in half a millisecond. Less of it wherever
/// the device was full all the same.
const EXCESS_BYTES: u64 = 64 << 10;
const EXCESSES_PER_S: u64 = 2000;
const EXCESS_SHIFT_MAX: u32 = 3;
/// Of the rate at which the device was full all the same.
const CUT_PERCENT: u64 = 80;
/// While nothing is known. Most lines are faster, and on those that are not nobody waits for more than without spacing.
const START_BYTES_PER_S: u64 = 48 << 20;
/// While a window doubles it is filled in this part of the round trip: CUBIC takes acknowledgements that come for half of
/// it for a full line. Then next to nothing is handed over until there is room again.
const FILLS_PER_RTT: u64 = 3;
const FULL_PART: u64 = 8;
/// For so long, and a round trip, trains are those of what was held back.
const SPACED_LASTS: Duration = Duration::from_millis(20);
/// How soon to look while packets of a burst are under way, in parts of the round trip.
const LOOKS_PER_RTT: u32 = 8;
const LOOK_MIN: Duration = Duration::from_millis(1);
const LOOK_MAX: Duration = Duration::from_millis(3);

/// See the file's beginning.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    train: Train,
    /// The rates of the last trains, the latest first; 0 where there was none.
    arrived: [u64; 5],
    bytes_per_s: u64,
    before_bytes_per_s: u64,
    /// What a window that doubles is filled at, and when one limited what was handed over last.
    filling_bytes_per_s: Option<u64>,
    filled_at: Option<Instant>,
    /// The last train was slower than it was handed over.
    is_doubted: bool,
    /// Two on end were: the line has been found once.
    is_found: bool,
    /// So many times the device was full, and the excess halved.
    excess_shift: u32,
    min_rtt: Option<Duration>,
    has_bursts: bool,
    /// The longest burst of late.
    burst_bytes: u64,
    /// When something was held back last.
    spaced_at: Instant,
}

impl Space {
    pub(crate) fn new() -> Space {
        Space {
            train: Train::default(),
            arrived: [0; 5],
            bytes_per_s: START_BYTES_PER_S,
            before_bytes_per_s: 0,
            filling_bytes_per_s: None,
            filled_at: None,
            is_doubted: false,
            is_found: false,
            excess_shift: 0,
            min_rtt: None,
            has_bursts: false,
            burst_bytes: 0,
            spaced_at: Instant::ZERO,
        }
    }

    /// Takes what was seen, and the cut if there was one.
    pub(crate) fn observe(&mut self, seen: &Observation, cut: Option<Cut>) {
        self.min_rtt = seen.min_rtt.or(self.min_rtt);
        self.has_bursts |= seen.burst_bytes >= BURST_MIN_BYTES;
        // The end of a burst is a short one; what is long is forgotten slowly.
        if seen.burst_bytes >= BURST_MIN_BYTES {
            self.burst_bytes = seen.burst_bytes.max(self.burst_bytes - self.burst_bytes / 1024);
        }
        self.fill(seen);
        let train = self.train.observe(seen);
        if seen.was_spaced {
            self.spaced_at = seen.now;
        }
        // What arrives slower than before says nothing, unless there was more to hand over all the while.
        let was_spaced = seen.now <= self.spaced_at + seen.rtt + SPACED_LASTS;
        let gap_max = 2 * self.look_again().unwrap_or(LOOK_MAX);
        let is_honest = |train: &Measured| was_spaced && train.longest_gap <= gap_max;
        if let Some(train) = train
            && (is_honest(&train) || train.bytes_per_s > self.typical())
            && !self.was_filling(&train, seen.rtt)
        {
            self.learn(train.bytes_per_s, seen);
        }
        // What overflowed is the device, or the first queue on the way.
        let is_too_fast = cut.is_some_and(|cut| match cut.kind {
            WindowKind::CutHere => true,
            WindowKind::CutByLoss => was_spaced,
            _ => false,
        });
        if is_too_fast {
            self.excess_shift = (self.excess_shift + 1).min(EXCESS_SHIFT_MAX);
        }
        if is_too_fast && self.typical() > 0 {
            self.is_found = true;
            self.before_bytes_per_s = self.bytes_per_s;
            self.bytes_per_s = (self.bytes_per_s / 100 * CUT_PERCENT).max(self.typical() / 2);
        }
    }

    /// Whether a window that doubles is what limits.
    fn fill(&mut self, seen: &Observation) {
        let window_bytes = u64::from(seen.cwnd_packets) * u64::from(seen.mss_bytes);
        let is_doubling = seen.cwnd_packets < seen.ssthresh_packets && window_bytes < self.burst_bytes;
        let window_rate = window_rate(seen, self.min_rtt.unwrap_or(seen.rtt).as_nanos());
        let filling = window_rate.saturating_mul(FILLS_PER_RTT);
        let is_full = seen.unacked_packets >= seen.cwnd_packets;
        self.filling_bytes_per_s = (is_doubling && filling < self.bytes_per_s).then_some(if is_full {
            window_rate / FULL_PART
        } else {
            filling
        });
        if self.filling_bytes_per_s.is_some() {
            self.filled_at = Some(seen.now);
        }
    }

    /// Whether some of a train was sent while a window that doubles was the limit: then its rate is not the line's.
    fn was_filling(&self, train: &Measured, rtt: Duration) -> bool {
        self.filled_at.is_some_and(|filled_at| train.begun <= filled_at + rtt)
    }

    /// Takes the rate of a train. The rate that it was to be handed over at is the present one, or in part the one
    /// before; whoever woke up late was slower than that, and then the line is not to blame.
    fn learn(&mut self, rate: u64, seen: &Observation) {
        let real = if seen.handed_bytes_per_s == 0 { u64::MAX } else { seen.handed_bytes_per_s };
        let present = self.bytes_per_s;
        let handed_over = present.min(self.before_bytes_per_s).min(real);
        let has_kept_up = rate >= handed_over / 100 * KEPT_UP_PERCENT;
        // What is handed over comes in portions, so one train in some seems slow.
        self.is_found |= !has_kept_up && self.is_doubted;
        self.is_doubted = !has_kept_up;
        self.arrived.rotate_right(1);
        self.arrived[0] = rate;
        self.before_bytes_per_s = present;
        self.bytes_per_s = match (has_kept_up, self.is_found) {
            (true, false) => present.max(self.faster(rate.min(present), GROW_PERCENT)),
            (false, false) => present,
            (true, true) => present.max(self.faster(self.typical(), FEEL_PERCENT)),
            (false, true) => self.faster(self.typical(), LINE_PERCENT).max(self.least(seen)),
        };
    }

    /// A rate above one that has arrived, by `percent_max` at most: if that is the line already, what a burst is too much
    /// has room.
    fn faster(&self, rate: u64, percent_max: u64) -> u64 {
        let excess_bytes = EXCESS_BYTES.max(rate / EXCESSES_PER_S) >> self.excess_shift;
        let at_line_bytes = self.burst_bytes.saturating_sub(excess_bytes).max(1);
        let bearable = u128::from(rate) * u128::from(self.burst_bytes) / u128::from(at_line_bytes);
        u64::try_from(bearable).unwrap_or(u64::MAX).max(rate).min(rate / 100 * percent_max)
    }

    /// What was handed over too slowly arrives too slowly, so there is an end to that: what TCP's window alone would send,
    /// as long as that is not much.
    fn least(&self, seen: &Observation) -> u64 {
        window_rate(seen, self.min_rtt.unwrap_or(seen.rtt).as_nanos()).min(START_BYTES_PER_S)
    }

    /// The median of the last trains: acknowledgements that come in bunches make single ones too fast.
    fn typical(&self) -> u64 {
        let mut rates = self.arrived;
        rates.sort_unstable();
        let count = rates.iter().filter(|rate| **rate > 0).count();
        rates[rates.len() - 1 - count / 2]
    }

    /// The rate at which a burst is handed over.
    pub(crate) fn bytes_per_s(&self) -> Option<u64> {
        let is_long = self.min_rtt.is_some_and(|rtt| rtt >= SPACED_MIN_RTT);
        let bytes_per_s = self.filling_bytes_per_s.unwrap_or(self.bytes_per_s);
        (self.has_bursts && is_long).then_some(bytes_per_s)
    }

    /// How soon to look again, if there are bursts to be measured.
    pub(crate) fn look_again(&self) -> Option<Duration> {
        self.bytes_per_s()?;
        Some((self.min_rtt? / LOOKS_PER_RTT).clamp(LOOK_MIN, LOOK_MAX))
    }
}

#[cfg(test)]
mod tests;
