//! The long-term bandwidth: two intervals with a fifth lost and the same rate mean a policer.

use event::Instant;

use super::super::rate::Sample;
use super::super::recovery::View;

/// Rounds of an interval, at least.
const INTERVAL_ROUNDS: u32 = 4;
/// Share of packets lost in it, in 256ths.
const LOSS_256THS: u64 = 50;
/// Rates of two intervals that are the same.
const SAME_RATIO: f64 = 1.0 / 8.0;
/// In packets per second: 4 kbit/s.
const SAME_RATE: f64 = 500.0 / 1448.0;
/// Rounds for which the rate is used.
const USED_ROUNDS: u32 = 48;

#[derive(Clone, Copy, Debug)]
pub(super) struct LongTerm {
    is_sampling: bool,
    is_used: bool,
    rounds: u32,
    bandwidth: f64,
    /// Counts at the beginning of the interval.
    last_at: Instant,
    last_delivered: u64,
    last_lost: u64,
}

impl LongTerm {
    pub(super) fn new(view: &View) -> LongTerm {
        let mut fresh = LongTerm {
            is_sampling: false,
            is_used: false,
            rounds: 0,
            bandwidth: 0.0,
            last_at: view.now,
            last_delivered: 0,
            last_lost: 0,
        };
        fresh.begin_interval(view);
        fresh
    }

    /// Returns true while the rate of a policer is in force.
    pub(super) fn is_used(&self) -> bool {
        self.is_used
    }

    pub(super) fn bandwidth(&self) -> Option<f64> {
        self.is_used.then_some(self.bandwidth)
    }

    /// Forgets everything. The next loss begins anew.
    pub(super) fn restart(&mut self) {
        (self.is_sampling, self.is_used, self.bandwidth, self.rounds) = (false, false, 0.0, 0);
    }

    fn begin_interval(&mut self, view: &View) {
        (self.last_at, self.last_delivered, self.last_lost) = (view.now, view.delivered, view.lost);
        self.rounds = 0;
    }

    /// Takes a sample. Returns true when the rate is given up, so that the gains cycle again.
    pub(super) fn observe(
        &mut self,
        view: &View,
        sample: &Sample,
        starts_round: bool,
        is_probing: bool,
    ) -> bool {
        if self.is_used {
            if is_probing && starts_round {
                self.rounds += 1;
                if self.rounds >= USED_ROUNDS {
                    self.restart();
                    self.begin_interval(view);
                    return true;
                }
            }
            return false;
        }
        if !self.is_sampling {
            if sample.losses == 0 {
                return false;
            }
            self.begin_interval(view);
            self.is_sampling = true;
        }
        if sample.is_app_limited {
            self.restart();
            return false;
        }
        self.rounds += u32::from(starts_round);
        if self.rounds < INTERVAL_ROUNDS {
            return false;
        }
        if self.rounds > 4 * INTERVAL_ROUNDS {
            self.restart();
            return false;
        }
        let lost = view.lost - self.last_lost;
        let delivered = view.delivered - self.last_delivered;
        if sample.losses == 0 || delivered == 0 || lost << 8 < LOSS_256THS * delivered {
            return false;
        }
        let seconds = view.now.since(self.last_at).as_secs_f64();
        if seconds < 0.001 {
            return false;
        }
        self.complete(view, delivered as f64 / seconds);
        false
    }

    fn complete(&mut self, view: &View, bandwidth: f64) {
        let difference = (bandwidth - self.bandwidth).abs();
        if self.bandwidth > 0.0 && (difference <= SAME_RATIO * self.bandwidth || difference <= SAME_RATE) {
            self.bandwidth = f64::midpoint(bandwidth, self.bandwidth);
            self.is_used = true;
            self.rounds = 0;
            return;
        }
        self.bandwidth = bandwidth;
        self.begin_interval(view);
    }
}
