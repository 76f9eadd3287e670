//! What may be handed in all to a device that takes packets one by one, so that its ring never is full.
//!
//! Such a device refuses what its ring has no room for, and each refusal cuts a window for nothing. A ring of 80 packets is
//! full within a millisecond of what is too much, which no round trip shows; but the process that serves all who send
//! through it can see to it that they never hand it more than it takes. How much that is it finds when it is refused
//! something: for as long as the ring is full everything arrives at the device's rate. Whether the device has become faster
//! is tried more and more rarely, in steps that grow while nothing comes of them.
//!
//! It knows one device: what goes out through several is taken for one.

use core::time::Duration;

use event::Instant;

/// Round trips after a refusal until everything has arrived that was sent before it.
const SETTLING_ROUNDS: u32 = 4;
/// Of what arrives while the ring is full, in percent.
const KEPT_PERCENT: u64 = 98;
/// A ring may be full because of a burst. If no more than so much arrives after that, in percent of what arrived before, it
/// was full because of what was handed over in all.
const FLAT_PERCENT: u64 = 105;
/// It was, too, if so much arrives of what is handed over, in percent: that is the largest step too much.
const FULL_PERCENT: u64 = 86;
/// Who does not use so much of it cannot say whether more would be too much, in percent. Once it is known what the device
/// takes, that is so for less as well.
const USED_PERCENT: u64 = 95;
/// Steps up in thousandths: the first, which doubles with each, and the largest.
const STEP_FIRST: u64 = 2;
const STEP_MOST: u64 = 128;
/// Time between two of them; round trips while it is not known what the device takes.
const STEP_TIME: Duration = Duration::from_secs(1);
const STEP_ROUNDS: u32 = 2;
/// Without a step once that is known: at first, and at most.
const PAUSE_MIN: Duration = Duration::from_secs(20);
const PAUSE_MAX: Duration = Duration::from_secs(320);

/// See the file's beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring {
    /// What it takes, in bytes per second, at least; 0 until something was refused.
    bytes_per_s: u64,
    /// And at most.
    is_known: bool,
    /// What arrived when it first refused something, while that has not settled.
    learning_from: Option<u64>,
    settled_at: Instant,
    /// In thousandths.
    step: u64,
    step_at: Instant,
    pause: Duration,
}

impl Ring {
    /// So much has arrived of late of what all send, over the longest of their round trips, and it has refused something
    /// since the last look, or not.
    pub(crate) fn observe(
        &mut self,
        now: Instant,
        arrived_bytes_per_s: u64,
        rtt: Duration,
        has_refused: bool,
    ) {
        if has_refused && now >= self.settled_at {
            self.settled_at = now + SETTLING_ROUNDS * rtt;
            if self.bytes_per_s == 0 {
                self.learning_from = Some(arrived_bytes_per_s);
            } else if arrived_bytes_per_s >= self.bytes_per_s / 100 * self.full_percent() {
                self.know(now, self.bytes_per_s.min(arrived_bytes_per_s) / 100 * KEPT_PERCENT);
            }
        }
        if let Some(before) = self.learning_from {
            self.bytes_per_s = self.bytes_per_s.max(arrived_bytes_per_s / 100 * KEPT_PERCENT);
            if now < self.settled_at {
                return;
            }
            self.learning_from = None;
            self.step = STEP_MOST;
            if self.bytes_per_s <= before / 100 * FLAT_PERCENT {
                self.know(now, self.bytes_per_s);
            }
        }
        let is_used = arrived_bytes_per_s >= self.bytes_per_s / 100 * USED_PERCENT;
        if self.bytes_per_s > 0 && is_used && now >= self.step_at.max(self.settled_at) {
            self.bytes_per_s = self.bytes_per_s / 1000 * (1000 + self.step);
            self.step = (2 * self.step).min(STEP_MOST);
            self.step_at = now + if self.is_known { STEP_TIME } else { STEP_ROUNDS * rtt };
        }
    }

    fn full_percent(&self) -> u64 {
        if self.is_known { USED_PERCENT } else { FULL_PERCENT }
    }

    fn know(&mut self, now: Instant, bytes_per_s: u64) {
        (self.bytes_per_s, self.is_known, self.step) = (bytes_per_s, true, STEP_FIRST);
        self.pause = (2 * self.pause).clamp(PAUSE_MIN, PAUSE_MAX);
        self.step_at = now + self.pause;
    }

    /// What it takes, once that is known.
    pub(crate) fn bytes_per_s(&self) -> Option<u64> {
        (self.bytes_per_s > 0).then_some(self.bytes_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 117_000_000;
    const RTT: Duration = Duration::from_millis(16);

    /// How often it refuses, and what it is taken for at the end of so many seconds, if all that is allowed is handed over.
    fn used(seconds: u64) -> (u32, u64) {
        let (mut ring, mut refused, mut now) = (Ring::default(), 0, Instant::ZERO);
        while now < Instant::ZERO + Duration::from_secs(seconds) {
            now += Duration::from_millis(9);
            let handed = ring.bytes_per_s().unwrap_or(2 * LINE);
            let is_refused = handed > LINE;
            refused += u32::from(is_refused && now >= ring.settled_at);
            ring.observe(now, handed.min(LINE), RTT, is_refused);
        }
        (refused, ring.bytes_per_s)
    }

    #[test]
    fn it_is_found_at_once_and_refuses_ever_more_rarely() {
        let (refused, taken) = used(2);
        assert_eq!(refused, 1);
        assert!((LINE / 100 * 96..=LINE).contains(&taken), "{taken}");
        let (refused, taken) = used(60);
        assert!(refused <= 6, "{refused}");
        assert!((LINE / 100 * 96..=LINE).contains(&taken), "{taken}");
        assert!(used(600).0 <= 16, "{:?}", used(600));
    }

    #[test]
    fn what_is_not_used_is_not_raised() {
        let mut ring = Ring::default();
        ring.observe(Instant::ZERO + RTT, LINE, RTT, true);
        for second in 1..100 {
            ring.observe(Instant::ZERO + Duration::from_secs(second), LINE / 2, RTT, false);
        }
        assert_eq!(ring.bytes_per_s(), Some(LINE / 100 * KEPT_PERCENT));
    }

    #[test]
    fn several_refusals_of_one_round_trip_are_one() {
        let mut ring = Ring::default();
        for ms in 0..60 {
            ring.observe(Instant::ZERO + RTT + Duration::from_millis(ms), LINE, RTT, true);
        }
        assert_eq!(ring.bytes_per_s(), Some(LINE / 100 * KEPT_PERCENT));
        assert_eq!(ring.pause, Duration::ZERO);
    }
}
