//! Pacing after a small queue has overflowed: feeling the way, since on a long path one more overflow costs CUBIC half
//! a minute.
//!
//! While the queue overflows and until that is repaired the line is busy, so what arrives over some hundredths of a
//! second then is what the line carries, and the cap stays a little below. Where that is not known, the window may grow
//! while it is what limits: its steps are small. When a queue shows again the line is known too, and half a percent a
//! round is what a small queue takes.
//!
//! Not everything that looks like a full line is one. Where no more was under way than has arrived in a round trip, a host
//! that stopped for a moment may have filled the queue as well: then the line is felt for, and if it carries more than it
//! was taken for, it is not known at all. And a queue that shows below the line and is gone a round later was not ours:
//! what it took is given back, unless it shows again soon.

use crate::policy::Observation;

/// Rounds after an overflow until its own queue and its repairs are over.
const SETTLING_ROUNDS: u32 = 4;
/// Rounds after an overflow in which the way is felt.
const WARY_ROUNDS: u32 = 200;

/// Of what was under way, so much arriving in a round trip leaves open whether the line was full.
const OPEN_PERCENT: u64 = 90;
/// Of what was taken for the line, carried without a queue: then it was not the line.
const DISPROVED_PERCENT: u64 = 102;
/// A queue that shows so soon after something was given back is believed.
const BELIEVED_ROUNDS: u32 = 8;

/// After an overflow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wary {
    pub(crate) bytes_per_s: u64,
    /// What the line carried while its queue overflowed; 0 until that is known.
    line_bytes_per_s: u64,
    /// What was under way at most meanwhile, in a round trip.
    sent_bytes_per_s: u64,
    /// A line up to here is not doubted.
    sure_bytes_per_s: u64,
    /// The cap and the line before a queue has shown that may not be ours.
    before: Option<(u64, u64)>,
    /// Rounds in which the next one is taken for ours.
    believed_rounds: u32,
    /// A queue has shown again: the line is known.
    is_found: bool,
    /// A queue has shown since the round began; it may be gone by its end.
    has_shown: bool,
    /// Rounds on end that have shown a queue.
    pub(crate) rounds_with_queue: u32,
    rounds_left: u32,
}

/// What a round has shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// The largest delivered rate of late.
    pub(crate) delivered_bytes_per_s: u64,
    /// So much was lost that the queue overflowed again.
    pub(crate) has_overflowed: bool,
    /// A queue stands.
    pub(crate) has_queue: bool,
    /// What the window alone would send.
    pub(crate) window_bytes_per_s: u64,
}

impl Wary {
    /// The queue has just overflowed at this rate; a line up to `sure_bytes_per_s` is not doubted.
    pub(crate) fn new(bytes_per_s: u64, sure_bytes_per_s: u64) -> Wary {
        Wary {
            bytes_per_s,
            line_bytes_per_s: 0,
            sent_bytes_per_s: 0,
            sure_bytes_per_s,
            before: None,
            believed_rounds: 0,
            is_found: false,
            has_shown: false,
            rounds_with_queue: 0,
            rounds_left: WARY_ROUNDS,
        }
    }

    /// Whether enough rounds have gone by that the way need not be felt any more.
    pub(crate) fn is_over(&self) -> bool {
        self.rounds_left == 0
    }

    fn is_settled(&self) -> bool {
        self.rounds_left + SETTLING_ROUNDS < WARY_ROUNDS
    }

    /// What was taken for the line, if that was not it.
    pub(crate) fn disproved(&self) -> Option<u64> {
        let is_carried = self.bytes_per_s > self.line_bytes_per_s / 100 * DISPROVED_PERCENT;
        (self.is_open() && is_carried).then_some(self.line_bytes_per_s)
    }

    /// Whether what the line carried may be less than it can.
    fn is_open(&self) -> bool {
        let is_unsure = self.line_bytes_per_s > self.sent_bytes_per_s / 100 * OPEN_PERCENT;
        let is_new = self.line_bytes_per_s > self.sure_bytes_per_s;
        self.is_settled() && !self.is_found && self.sent_bytes_per_s > 0 && is_unsure && is_new
    }

    /// So much is under way, in a round trip.
    pub(crate) fn count(&mut self, sent_bytes_per_s: u64) {
        if !self.is_settled() {
            self.sent_bytes_per_s = self.sent_bytes_per_s.max(sent_bytes_per_s);
        }
    }

    /// Packets have arrived at this rate.
    pub(crate) fn learn(&mut self, rate_bytes_per_s: u64) {
        if !self.is_settled() && rate_bytes_per_s > self.line_bytes_per_s {
            self.line_bytes_per_s = rate_bytes_per_s;
            self.bytes_per_s = self.bytes_per_s.max(rate_bytes_per_s / 100 * 98);
        }
    }

    /// A queue shows; it is small, so there is no time to wait for the end of the round.
    pub(crate) fn give_way(&mut self, delivered_bytes_per_s: u64) {
        if self.is_settled() {
            self.has_shown = true;
            if self.before.is_none() && self.believed_rounds == 0 && !self.is_open() {
                self.before = Some((self.bytes_per_s, self.line_bytes_per_s));
            }
            self.bytes_per_s = self.bytes_per_s.min(delivered_bytes_per_s / 100 * 97);
        }
    }

    /// The next round.
    pub(crate) fn feel(self, round: Round) -> Wary {
        let delivered = round.delivered_bytes_per_s;
        let rounds_left = self.rounds_left - 1;
        let believed_rounds = self.believed_rounds.saturating_sub(1);
        let next = Wary { rounds_left, believed_rounds, has_shown: false, ..self };
        let is_settled = next.is_settled();
        let has_overflowed = is_settled && round.has_overflowed;
        let has_queue = is_settled && (self.has_shown || round.has_queue);
        if has_overflowed || has_queue {
            let line_bytes_per_s = match has_overflowed {
                true => self.line_bytes_per_s.min(delivered),
                // What was taken for the line is more than it carries, or no queue would stand below it.
                false => self.line_bytes_per_s / 100 * 99,
            };
            return Wary {
                bytes_per_s: delivered / 100 * 97,
                line_bytes_per_s,
                before: self.before.filter(|_| !has_overflowed && self.believed_rounds == 0),
                is_found: self.is_found || has_queue || self.is_open(),
                rounds_with_queue: self.rounds_with_queue + 1,
                ..next
            };
        }
        let next = Wary { rounds_with_queue: 0, ..next };
        if let Some(before) = self.before {
            return next.give_back(before, self.believed_rounds);
        }
        let ceiling = delivered / 100 * 110;
        let a_little_more = self.bytes_per_s.max(delivered) / 1000 * 1005;
        let bytes_per_s = if next.is_open() {
            // A cap above what the window sends is not tried.
            if round.window_bytes_per_s > self.bytes_per_s { a_little_more } else { self.bytes_per_s }
        } else if self.line_bytes_per_s > delivered / 2 {
            self.line_bytes_per_s / 100 * 98
        } else if is_settled && !self.is_found && round.window_bytes_per_s <= ceiling {
            ceiling
        } else {
            a_little_more
        };
        Wary { bytes_per_s, ..next }
    }

    /// The queue that took something off is gone: it was somebody else's, or a moment without service. Nearly all of it is
    /// given back at once, so that another look at a small queue does not fill it; and the rest when none has shown.
    fn give_back(self, (bytes_per_s, line_bytes_per_s): (u64, u64), believed_rounds: u32) -> Wary {
        match believed_rounds {
            0 => Wary {
                bytes_per_s: bytes_per_s / 1000 * 995,
                line_bytes_per_s: line_bytes_per_s / 1000 * 995,
                believed_rounds: BELIEVED_ROUNDS,
                ..self
            },
            1 => Wary { bytes_per_s, line_bytes_per_s, before: None, ..self },
            _ => self,
        }
    }
}

/// What the window of a connection alone would send, in bytes per second.
pub(crate) fn window_rate(seen: &Observation, rtt_ns: u128) -> u64 {
    rate_of(seen.cwnd_packets, seen, rtt_ns)
}

/// So many packets in a round trip, in bytes per second.
pub(crate) fn rate_of(packets: u32, seen: &Observation, rtt_ns: u128) -> u64 {
    let bytes = u128::from(packets) * u128::from(seen.mss_bytes) * 1_000_000_000;
    u64::try_from(bytes / rtt_ns.max(1)).unwrap_or(u64::MAX)
}
