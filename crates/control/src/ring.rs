//! What may be handed in all to a device that takes packets one by one, so that its ring never is full.
//!
//! Such a device refuses what its ring has no room for, and each refusal cuts a window for nothing. A ring of 80 packets is
//! full within a millisecond of what is too much, which no round trip shows; but the process that serves all who send
//! through it can see to it that they never hand it more than it takes. How much that is it finds when it is refused
//! something: for as long as the ring is full everything arrives at the device's rate. Whether the device has become faster
//! is tried more and more rarely, in steps that grow while nothing comes of them.
//!
//! A ring is also full when the device stands still for a moment, and that says nothing of what it takes. So nothing makes
//! it less than what has arrived within the last minute, and if that is far less it is believed only after two: then the
//! device has become slower, or others use it as well.
//!
//! It knows one device: what goes out through several such devices is taken for one.

use core::time::Duration;

use event::Instant;

use crate::max_filter::MaxFilter;

/// Round trips after a refusal until everything has arrived that was sent before it.
const SETTLING_ROUNDS: u32 = 4;
/// Who has not looked for so long since then has seen nothing of it.
const STALE_AFTER: Duration = Duration::from_secs(1);
/// Of what arrives while the ring is full, in percent.
const KEPT_PERCENT: u64 = 98;
/// A ring may be full because of a burst. If no more than so much arrives after that, in percent of what arrived before, it
/// was full because of what was handed over in all.
const FLAT_PERCENT: u64 = 105;
/// Who does not use so much of it cannot say whether more would be too much, in percent.
const USED_PERCENT: u64 = 95;
/// After a step it was full because of what was handed over even if no more arrives than this, in percent: what was used
/// so far, and the largest step too much.
const STEPPED_PERCENT: u64 = 84;
/// For so long it is refused again and again although less is used than may be, until that is the device's word.
const BELOW_TIME: Duration = Duration::from_secs(120);
/// Steps up in thousandths: the first, which doubles with each, and the largest.
const STEP_FIRST: u64 = 2;
const STEP_MOST: u64 = 128;
/// They have led somewhere if so much is kept after them, in percent of what there was before.
const LED_PERCENT: u64 = 101;
/// Time between two of them; round trips while it is not known what the device takes.
const STEP_TIME: Duration = Duration::from_secs(1);
const STEP_ROUNDS: u32 = 2;
/// Without a step once that is known: at first, and at most.
const PAUSE_MIN: Duration = Duration::from_secs(20);
const PAUSE_MAX: Duration = Duration::from_secs(320);
/// What arrives is averaged over so long, and the largest of that remembered for eight such slots.
const MEAN_TIME: Duration = Duration::from_millis(250);
const SLOT: Duration = Duration::from_secs(8);

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
    /// What it was known to take before the steps since then, if there have been some.
    before_steps: Option<u64>,
    mean: Mean,
    /// The largest means.
    most: MaxFilter<8>,
    slot_ends: Instant,
    /// Since when it has refused what was less than may be used, and not taken that either.
    below_since: Option<Instant>,
}

/// What has arrived since a time.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    since: Instant,
    sum: u64,
    looks: u64,
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
        self.remember(now, arrived_bytes_per_s);
        let is_used = arrived_bytes_per_s >= self.bytes_per_s / 100 * USED_PERCENT;
        if has_refused && now >= self.settled_at {
            self.settled_at = now + SETTLING_ROUNDS * rtt;
            if self.bytes_per_s == 0 {
                self.learning_from = Some(arrived_bytes_per_s);
            } else {
                self.refused(now, arrived_bytes_per_s);
            }
        } else if is_used {
            self.below_since = None;
        }
        if let Some(before) = self.learning_from {
            self.bytes_per_s = self.bytes_per_s.max(arrived_bytes_per_s / 100 * KEPT_PERCENT);
            if now < self.settled_at {
                return;
            }
            self.learning_from = None;
            if now > self.settled_at + STALE_AFTER {
                // Nobody has sent meanwhile.
                self.bytes_per_s = 0;
            }
            if self.bytes_per_s == 0 {
                return;
            }
            (self.step, self.is_known) = (STEP_MOST, false);
            if self.bytes_per_s <= before / 100 * FLAT_PERCENT {
                self.know(now, self.bytes_per_s);
            }
        }
        if self.bytes_per_s > 0 && is_used && now >= self.step_at.max(self.settled_at) {
            self.before_steps.get_or_insert(if self.is_known { self.bytes_per_s } else { 0 });
            self.bytes_per_s = self.bytes_per_s / 1000 * (1000 + self.step);
            self.step = (2 * self.step).min(STEP_MOST);
            self.step_at = now + if self.is_known { STEP_TIME } else { STEP_ROUNDS * rtt };
        }
    }

    fn remember(&mut self, now: Instant, arrived_bytes_per_s: u64) {
        if now >= self.slot_ends {
            self.most.advance();
            self.slot_ends = now + SLOT;
        }
        self.mean.sum = self.mean.sum.saturating_add(arrived_bytes_per_s);
        self.mean.looks += 1;
        if now.since(self.mean.since) >= MEAN_TIME {
            self.most.add(self.mean.sum / self.mean.looks);
            self.mean = Mean { since: now, ..Mean::default() };
        }
    }

    /// It has refused something, while so much arrived.
    fn refused(&mut self, now: Instant, arrived_bytes_per_s: u64) {
        let has_stepped = self.before_steps.is_some() || !self.is_known;
        let full_percent = if has_stepped { STEPPED_PERCENT } else { USED_PERCENT };
        if arrived_bytes_per_s >= self.bytes_per_s / 100 * full_percent {
            self.below_since = None;
            // What has arrived in a round trip scatters more than what has in a longer time, as far as so much was sent.
            let is_seen = self.most.max() >= self.bytes_per_s / 100 * full_percent;
            let kept = if is_seen { self.most.max() } else { arrived_bytes_per_s } / 100 * KEPT_PERCENT;
            match self.before_steps {
                // They have led somewhere, or it only stood still again.
                Some(before) if self.is_known && kept > before / 100 * LED_PERCENT => {
                    self.retreat(now, self.bytes_per_s.min(kept));
                }
                Some(before) => self.know(now, self.bytes_per_s.min(kept.max(before))),
                None if self.is_known && kept >= self.bytes_per_s => {}
                None => self.know(now, self.bytes_per_s.min(kept)),
            }
            return;
        }
        let since = *self.below_since.get_or_insert(now);
        let is_most = arrived_bytes_per_s >= self.most.max() / 100 * USED_PERCENT;
        if is_most && now.since(since) >= BELOW_TIME {
            self.below_since = None;
            self.know(now, arrived_bytes_per_s / 100 * KEPT_PERCENT);
        }
    }

    /// Goes on with smaller steps from a little less.
    fn retreat(&mut self, now: Instant, bytes_per_s: u64) {
        (self.bytes_per_s, self.before_steps) = (bytes_per_s, Some(bytes_per_s));
        self.step = (self.step / 4).max(STEP_FIRST);
        self.step_at = now + STEP_TIME;
    }

    fn know(&mut self, now: Instant, bytes_per_s: u64) {
        (self.bytes_per_s, self.is_known, self.step) = (bytes_per_s, true, STEP_FIRST);
        // What no step has brought about is no answer to one.
        let pause = if self.before_steps.take().is_some() { 2 * self.pause } else { PAUSE_MIN };
        self.pause = pause.clamp(PAUSE_MIN, PAUSE_MAX);
        self.step_at = now + self.pause;
    }

    /// What it takes, as far as something has been refused.
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

    /// What it is taken for when it refuses something each five seconds for no reason, and everything that is handed over
    /// arrives but for what the device does not take.
    fn stalled(ring: &mut Ring, line: u64, from: u64, until: u64) -> (u64, u64) {
        const FOUND_AFTER: u64 = 150;
        let (mut least, mut most) = (u64::MAX, 0);
        for ms in (from * 1000..until * 1000).step_by(9) {
            let handed = ring.bytes_per_s().unwrap_or(2 * line);
            let is_refused = handed > line || ms % 5000 < 9;
            ring.observe(Instant::ZERO + Duration::from_millis(ms), handed.min(line), RTT, is_refused);
            if ms >= (from + FOUND_AFTER) * 1000 {
                let taken = ring.bytes_per_s().unwrap_or(0);
                (least, most) = (least.min(taken), most.max(taken));
            }
        }
        (least, most)
    }

    #[test]
    fn a_device_that_stands_still_now_and_then_is_no_slower_for_it() {
        let mut ring = Ring::default();
        let (least, most) = stalled(&mut ring, LINE, 1, 600);
        assert!(least >= LINE / 100 * 93 && most <= LINE / 100 * 114, "{least}..{most}");
    }

    #[test]
    fn a_device_that_has_become_slower_or_faster_is_found_again() {
        let mut ring = Ring::default();
        stalled(&mut ring, LINE, 1, 120);
        let (least, most) = stalled(&mut ring, LINE / 10, 120, 480);
        assert!(least >= LINE / 1000 * 94 && most <= LINE / 1000 * 114, "slower: {least}..{most}");
        let (_, most) = stalled(&mut ring, 2 * LINE, 480, 1200);
        assert!(most >= 2 * LINE / 100 * 96, "faster: {most}");
    }

    #[test]
    fn who_was_refused_once_and_went_away_has_found_nothing() {
        let mut ring = Ring::default();
        ring.observe(Instant::ZERO + RTT, LINE / 20, RTT, true);
        ring.observe(Instant::ZERO + Duration::from_secs(9), 0, RTT, false);
        assert_eq!(ring.bytes_per_s(), None);
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
