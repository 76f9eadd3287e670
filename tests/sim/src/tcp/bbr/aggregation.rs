//! Acknowledgements that come in lumps: packets beyond those that the bandwidth explains.

use event::Instant;

use super::super::recovery::View;

/// Rounds of each of the two windows.
const ROUNDS: u32 = 5;
/// Most that is granted for it, in seconds of the bandwidth.
const MOST: f64 = 0.1;
/// An epoch counts at most so many packets.
const EPOCH_MOST: u64 = 1 << 20;

/// Excess of acknowledged packets over the last rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    epoch: Instant,
    acked: u64,
    extra: [u32; 2],
    index: usize,
    rounds: u32,
}

impl Aggregation {
    pub(super) fn new(now: Instant) -> Aggregation {
        Aggregation { epoch: now, acked: 0, extra: [0; 2], index: 0, rounds: 0 }
    }

    /// Begins an epoch.
    pub(super) fn begin(&mut self, now: Instant) {
        (self.epoch, self.acked) = (now, 0);
    }

    pub(super) fn observe(&mut self, view: &View, cwnd: u32, bandwidth: f64, acked: u32, starts_round: bool) {
        if acked == 0 {
            return;
        }
        if starts_round {
            self.rounds = (self.rounds + 1).min(31);
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.index ^= 1;
                self.extra[self.index] = 0;
            }
        }
        let expected = |epoch| bandwidth * view.now.since(epoch).as_secs_f64();
        if self.acked as f64 <= expected(self.epoch) || self.acked + u64::from(acked) >= EPOCH_MOST {
            self.begin(view.now);
        }
        self.acked = (self.acked + u64::from(acked)).min(EPOCH_MOST);
        let extra = (self.acked as f64 - expected(self.epoch)).max(0.0) as u32;
        self.extra[self.index] = self.extra[self.index].max(extra.min(cwnd));
    }

    /// Packets that the window is longer for it.
    pub(super) fn extra(&self, bandwidth: f64) -> u32 {
        let most = bandwidth * MOST;
        self.extra[0].max(self.extra[1]).min(most as u32)
    }
}
