//! What may be handed in all to a device that takes packets one by one, so that its ring never is full.
//!
//! Such a device refuses what its ring has no room for, and each refusal cuts a window for nothing. A ring of 80 packets is
//! full within a millisecond of what is too much; but the process that serves all who send through it can see to it that
//! they never hand it more than it takes. How much that is it finds when it is refused something: for as long as the ring is
//! full everything arrives at the device's rate. If more and more arrives after that, it was full because of a burst, and the
//! device takes more: then that is looked for in large steps, otherwise in small ones. A ring that fills makes all round
//! trips longer, and where a step does that the next one is not waited for. Once it is known, larger rates are tried more
//! and more rarely, in steps that each last long enough to fill it if they are too much: what a step has used up to the next
//! one is kept.
//!
//! What arrives scatters over short times: acknowledgements come together, and a path that stood still catches up. So no
//! step is taken unless what there was has been used over some round trips, and what was never reached is not kept.
//!
//! A ring is also full when the device stands still for a moment, and that says nothing of what it takes. So a single refusal
//! that nothing announced is not believed, and nothing makes it less than what has arrived within the last minute.
//!
//! It knows one device: what goes out through several such devices is taken for one.

use core::time::Duration;

use event::Instant;

use crate::measure::max_filter::MaxFilter;

/// Round trips after a refusal until everything has arrived that was sent before it.
const SETTLING_ROUNDS: u32 = 4;
/// Who has not looked for so long since then has seen nothing of it.
const STALE_AFTER: Duration = Duration::from_secs(1);
/// Of what arrives while the ring is full, in percent.
const KEPT_PERCENT: u64 = 98;
/// A ring may be full because of a burst. If no more than so much arrives after that, in percent of what arrived before, it
/// was full because of what was handed over in all.
const FLAT_PERCENT: u64 = 105;
/// Who does not use so much of it cannot say whether more would be too much, in thousandths.
const USED_PERMILLE: u64 = 950;
/// What arrives over some round trips counts if it is more than anything before by so much, in percent of it.
const RISEN_PERCENT: u64 = 90;
/// Without a sign that it fills, one refusal in so long a time is of a moment in which it stood still.
const LATELY: Duration = Duration::from_secs(2);
/// Bursts are not handed over slower for such moments than so much of what has arrived within the last minute, in percent.
const MOMENTS_PERCENT: u64 = 80;
/// What is refused again and again and not used is taken for so much, in percent.
const LOWER_PERCENT: u64 = 95;
/// After so many refusals in a row that were believed and changed nothing, since more had arrived than it is taken for, what
/// arrived is not what it takes. So much is kept of what it is taken for, in thousandths.
const UNHEEDED_MOST: u32 = 8;
const UNHEEDED_PERMILLE: u64 = 990;
/// Steps up in thousandths: the first once it is known, the smallest while it is looked for, and the largest. They double,
/// while it is looked for once so much has been left behind, in percent.
const STEP_FIRST: u64 = 2;
const STEP_SMALL: u64 = 4;
const STEP_LARGE: u64 = 32;
const STEP_MOST: u64 = 128;
const BEHIND_PERCENT: u64 = 104;
/// Round trips between two of them while it is looked for, and the time once it is known.
const STEP_ROUNDS: u32 = 4;
const STEP_TIME: Duration = Duration::from_secs(1);
/// Without a step once it is known: at first, and at most.
const PAUSE_MIN: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(320);
/// All round trips are so much longer than they have been: the ring is filling. A machine that is late makes them longer for
/// a moment as well, so after a step of no more than so many thousandths that is waited for.
const FILLING: Duration = Duration::from_micros(350);
const STEP_SLOW: u64 = 4;
/// Of what arrives while it fills, in thousandths.
const FILLED_PERMILLE: u64 = 990;
/// For so many round trips what is least of their lengths counts. So many of these are what there was before a step.
const FLOOR_ROUNDS: u32 = 2;
const FLOORS: usize = 8;
/// What arrives is averaged over so many round trips, and this at least; and over so long, the largest of which is
/// remembered for so many slots.
const RECENT_ROUNDS: u32 = 2;
const RECENT_MIN: Duration = Duration::from_millis(30);
const MEAN_TIME: Duration = Duration::from_millis(250);
const SLOT: Duration = Duration::from_secs(8);
const SLOTS: usize = 8;

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
    /// What it was taken for before the steps since then, if there have been some.
    before_steps: Option<u64>,
    waits: Waits,
    /// Since when what has arrived is averaged; what arrived on average last, and the largest of the longer ones.
    recent: Mean,
    recent_bytes_per_s: u64,
    mean: Mean,
    most: MaxFilter<SLOTS>,
    slot_ends: Instant,
    /// The last of the steps since then, in thousandths.
    last_step: u64,
    /// Another refusal before that is no moment's.
    lately_until: Instant,
    /// Believed refusals in a row that changed nothing.
    unheeded: u32,
}

/// What those behind the ring have seen together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) now: Instant,
    /// So much has arrived of late of what all send.
    pub(crate) arrived_bytes_per_s: u64,
    /// The longest of their round trips.
    pub(crate) rtt: Duration,
    /// By how much the round trip of each of them is longer than it has been, at least.
    pub(crate) waits: Duration,
    /// It has refused something since the last look.
    pub(crate) has_refused: bool,
}

/// What has arrived since a time, until the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    since: Instant,
    until: Instant,
    bytes: u64,
}

/// How much longer all round trips are than they have been: the least of some round trips, the last of these first, and the
/// least of those before.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    since: Instant,
    least: Option<Duration>,
    floors: [Option<Duration>; FLOORS],
    before: Option<Duration>,
}

impl Mean {
    fn new(now: Instant) -> Mean {
        Mean { since: now, until: now, bytes: 0 }
    }

    /// The mean of `time` and more, if that has gone by. Looks are more frequent at some times than at others.
    fn add(&mut self, seen: &Seen, time: Duration) -> Option<u64> {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bytes = seen.arrived_bytes_per_s.saturating_mul(us(seen.now.since(self.until))) / 1_000_000;
        (self.bytes, self.until) = (self.bytes.saturating_add(bytes), seen.now);
        let elapsed = seen.now.since(self.since);
        if elapsed < time {
            return None;
        }
        let mean = self.bytes.saturating_mul(1_000_000) / us(elapsed).max(1);
        *self = Mean::new(seen.now);
        Some(mean)
    }
}

impl Waits {
    fn observe(&mut self, seen: &Seen) {
        self.least = Some(self.least.map_or(seen.waits, |least| least.min(seen.waits)));
        if seen.now.since(self.since) >= FLOOR_ROUNDS * seen.rtt {
            self.before = self.before.into_iter().chain(self.floors[0]).min();
            self.floors.rotate_right(1);
            (self.floors[0], self.since) = (self.least.take(), seen.now);
        }
    }

    /// What there was of late is what there was before.
    fn begin(&mut self) {
        self.before = self.floors.into_iter().flatten().min();
    }

    fn are_longer(&self) -> bool {
        self.is_longer(0)
    }

    fn stay_longer(&self) -> bool {
        self.is_longer(0) && self.is_longer(1)
    }

    fn is_longer(&self, floor: usize) -> bool {
        self.floors[floor].zip(self.before).is_some_and(|(last, before)| last > before + FILLING)
    }
}

impl Ring {
    /// Takes what was seen.
    pub(crate) fn observe(&mut self, seen: &Seen) {
        let &Seen { now, arrived_bytes_per_s, rtt, has_refused, .. } = seen;
        self.remember(seen);
        let is_used = self.recent_bytes_per_s >= self.bytes_per_s / 1000 * USED_PERMILLE;
        if has_refused && now >= self.settled_at && self.learning_from.is_none() {
            self.settled_at = now + SETTLING_ROUNDS * rtt;
            if self.bytes_per_s == 0 {
                self.settled_at = self.settled_at.max(now + 2 * RECENT_MIN);
                self.learning_from = Some(arrived_bytes_per_s);
                self.bytes_per_s = arrived_bytes_per_s / 100 * KEPT_PERCENT;
                // What arrives from now on is of a ring that is full.
                self.recent = Mean::new(now);
                return;
            }
            self.refused(now, arrived_bytes_per_s);
        }
        if let Some(before) = self.learning_from {
            self.learn(now, before);
            return;
        }
        if self.before_steps.is_some() && now >= self.settled_at && self.is_filling() {
            // But for the last step it has not filled.
            self.settled_at = now + SETTLING_ROUNDS * rtt;
            let before_last = self.bytes_per_s / 1000 * (1000 - self.last_step);
            let taken = match self.before_steps.filter(|_| self.is_known) {
                // A little less, so that what has gathered in it leaves.
                Some(before) => (before_last / 1000 * (1000 - STEP_FIRST)).max(before),
                // They were too quick to be sure of that; but what arrives is what it takes.
                None => before_last.min(self.reached() / 1000 * FILLED_PERMILLE),
            };
            self.know(now, taken);
        }
        let may_step = is_used && !(self.is_known && self.waits.are_longer());
        if self.bytes_per_s > 0 && may_step && now >= self.step_at.max(self.settled_at) {
            self.step(now, rtt);
        }
    }

    fn remember(&mut self, seen: &Seen) {
        if seen.now >= self.slot_ends + SLOTS as u32 * SLOT {
            self.most = MaxFilter::default();
        }
        if seen.now >= self.slot_ends {
            self.most.advance();
            self.slot_ends = seen.now + SLOT;
        }
        if let Some(mean) = self.mean.add(seen, MEAN_TIME) {
            self.most.add(mean);
        }
        if let Some(mean) = self.recent.add(seen, RECENT_MIN.max(RECENT_ROUNDS * seen.rtt)) {
            self.recent_bytes_per_s = mean;
        }
        self.waits.observe(seen);
    }

    /// The most that has arrived over some time within the last minute; or that does, if that is far more.
    fn reached(&self) -> u64 {
        let (most, recent) = (self.most.max(), self.recent_bytes_per_s);
        if recent / 100 * RISEN_PERCENT > most { recent } else { most }
    }

    /// It has refused something for the first time when so much had arrived.
    fn learn(&mut self, now: Instant, before: u64) {
        if self.recent.since == now {
            self.bytes_per_s = self.bytes_per_s.max(self.recent_bytes_per_s / 100 * KEPT_PERCENT);
        }
        if now < self.settled_at {
            return;
        }
        self.learning_from = None;
        if now > self.settled_at + STALE_AFTER {
            // Nobody has sent meanwhile.
            self.bytes_per_s = 0;
        }
        let is_flat = self.bytes_per_s <= before / 100 * FLAT_PERCENT;
        (self.step, self.is_known) = (if is_flat { STEP_SMALL } else { STEP_MOST }, false);
        self.step_at = now;
    }

    /// The last step was too much.
    fn is_filling(&self) -> bool {
        let is_slow = self.is_known && self.last_step <= STEP_SLOW;
        if is_slow { self.waits.stay_longer() } else { self.waits.are_longer() }
    }

    fn step(&mut self, now: Instant, rtt: Duration) {
        if self.is_known && self.before_steps.is_none() {
            self.waits.begin();
        }
        let before = *self.before_steps.get_or_insert(self.bytes_per_s);
        self.bytes_per_s = self.bytes_per_s / 1000 * (1000 + self.step);
        self.last_step = self.step;
        if self.is_known || self.bytes_per_s >= before / 100 * BEHIND_PERCENT {
            self.step = (2 * self.step).min(STEP_MOST);
        }
        let pause = if self.is_known { STEP_TIME } else { RECENT_MIN.max(STEP_ROUNDS * rtt) };
        self.step_at = now + pause;
    }

    /// It has refused something, while so much arrived.
    fn refused(&mut self, now: Instant, arrived_bytes_per_s: u64) {
        let was_lately = core::mem::replace(&mut self.lately_until, now + LATELY) > now;
        let is_announced = self.waits.are_longer() || self.last_step >= STEP_LARGE;
        if !was_lately && !is_announced {
            // It stood still for a moment.
            self.unheeded = 0;
            self.step_at = self.step_at.max(self.settled_at + STEP_TIME);
            return;
        }
        let reached = self.reached();
        // With what a step was too much, not all of it was used.
        let used = self.bytes_per_s / 1000 * (USED_PERMILLE - self.last_step);
        if arrived_bytes_per_s.max(reached) >= used {
            // What has arrived in a round trip scatters more than what has in a longer time, as far as so much was sent.
            let kept = if reached >= used { reached } else { arrived_bytes_per_s } / 100 * KEPT_PERCENT;
            let before = self.before_steps.filter(|_| self.is_known).unwrap_or(0);
            let mut taken = self.bytes_per_s.min(kept.max(before));
            self.unheeded = if taken < self.bytes_per_s { 0 } else { self.unheeded + 1 };
            if self.unheeded >= UNHEEDED_MOST {
                (self.unheeded, self.most) = (0, MaxFilter::default());
                taken = taken / 1000 * UNHEEDED_PERMILLE;
            }
            self.know(now, taken);
            return;
        }
        let lower = self.bytes_per_s / 100 * LOWER_PERCENT;
        self.bytes_per_s = lower.max(reached / 100 * KEPT_PERCENT).min(self.bytes_per_s);
        (self.is_known, self.before_steps, self.step, self.last_step) = (false, None, STEP_SMALL, 0);
        (self.waits.before, self.step_at, self.unheeded) = (None, self.settled_at, 0);
    }

    /// It has refused something of bursts, and so much is what has been seen to arrive of them. It takes that at least.
    pub(crate) fn begin(&mut self, now: Instant, rtt: Duration, bytes_per_s: u64) {
        self.bytes_per_s = bytes_per_s / 100 * KEPT_PERCENT;
        (self.is_known, self.step, self.settled_at) = (false, STEP_MOST, now + SETTLING_ROUNDS * rtt);
    }

    /// Bursts were slower than they were handed over, and so much arrived of all.
    pub(crate) fn was_too_much(&mut self, now: Instant, rtt: Duration, arrived_bytes_per_s: u64) {
        if now < self.settled_at {
            return;
        }
        self.settled_at = now + SETTLING_ROUNDS * rtt;
        self.know(now, arrived_bytes_per_s / 100 * KEPT_PERCENT);
    }

    /// It has refused something of bursts that arrive as fast as they are handed over: it stood still, or what it is taken for
    /// is a little too much. That is made less by a little, and looked for again soon.
    pub(crate) fn was_full_for_a_moment(&mut self, now: Instant, rtt: Duration) {
        if now < self.settled_at {
            return;
        }
        self.settled_at = now + SETTLING_ROUNDS * rtt;
        // Others that hand over to it keep it full, whatever is done here.
        let least = self.reached() / 100 * MOMENTS_PERCENT;
        self.bytes_per_s = (self.bytes_per_s / 100 * KEPT_PERCENT).max(least.min(self.bytes_per_s));
        (self.is_known, self.before_steps, self.step, self.last_step) = (false, None, STEP_SMALL, 0);
        self.step_at = self.settled_at + STEP_TIME;
    }

    fn know(&mut self, now: Instant, bytes_per_s: u64) {
        // What no step has brought about is no answer to one, and one that led somewhere is soon followed by others.
        let before = self.before_steps.take();
        let has_led = before.is_some_and(|before| bytes_per_s > before);
        self.pause = match before {
            Some(_) if !has_led => (2 * self.pause).clamp(PAUSE_MIN, PAUSE_MAX),
            _ => PAUSE_MIN,
        };
        (self.bytes_per_s, self.is_known, self.step, self.last_step) = (bytes_per_s, true, STEP_FIRST, 0);
        self.waits.before = None;
        self.step_at = now + if has_led { STEP_TIME } else { self.pause };
    }

    /// What it takes, as far as something has been refused.
    pub(crate) fn bytes_per_s(&self) -> Option<u64> {
        (self.bytes_per_s > 0).then_some(self.bytes_per_s)
    }
}

#[cfg(test)]
mod tests;
