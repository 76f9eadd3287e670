//! Pacing after a small queue has overflowed: feeling the way, since on a long path one more overflow costs CUBIC half
//! a minute.
//!
//! While the queue overflows and until that is repaired the line is busy, so what arrives over some hundredths of a
//! second then is what the line carries, and the cap stays a little below. Where that is not known, the window may grow
//! while it is what limits: its steps are small. When a queue shows again the line is known too, and half a percent a
//! round is what a small queue takes.

use crate::policy::Observation;

/// Rounds after an overflow until its own queue and its repairs are over.
const SETTLING_ROUNDS: u32 = 4;
/// Rounds after an overflow in which the way is felt.
const WARY_ROUNDS: u32 = 200;
/// A queue that has shown within so many rounds before is one of ours. A machine that is late shows some as well: so nothing
/// is lowered by them to less than so much, in percent, and rounds without one raise it again, in hundredths of a percent.
const SHOWN_ROUNDS: u32 = 4;
const SHOWN_LEAST_PERCENT: u64 = 85;
const RAISED_PER_10_000: u64 = 5;
/// After that many, of what was taken for the line, where the queue stays as small as it was.
const AGAIN_PERCENT: u64 = 102;
/// Whatever is raised is not raised beyond so many times what arrives: it limits nothing there, and would grow for ever.
const RAISED_TIMES: u64 = 4;

/// After an overflow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wary {
    pub(crate) bytes_per_s: u64,
    /// What the line carried while its queue overflowed; 0 until that is known.
    learned_bytes_per_s: u64,
    /// What queues that have shown since then have left of that.
    line_bytes_per_s: u64,
    /// A queue has shown again: the line is known.
    is_found: bool,
    /// A queue has shown since the round began; it may be gone by its end.
    has_shown: bool,
    /// Rounds since one has shown.
    rounds_without: u32,
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
    /// The queue has just overflowed at this rate.
    pub(crate) fn new(bytes_per_s: u64) -> Wary {
        Wary {
            bytes_per_s,
            learned_bytes_per_s: 0,
            line_bytes_per_s: 0,
            is_found: false,
            has_shown: false,
            rounds_without: WARY_ROUNDS,
            rounds_with_queue: 0,
            rounds_left: WARY_ROUNDS,
        }
    }

    /// Whether enough rounds have gone by that the way need not be felt any more.
    pub(crate) fn is_over(&self) -> bool {
        self.rounds_left == 0
    }

    /// The same for as long again, a little faster: the line may have become so.
    pub(crate) fn again(self, delivered_bytes_per_s: u64) -> Wary {
        let again =
            |bytes_per_s: u64| raised(bytes_per_s, bytes_per_s / 100 * AGAIN_PERCENT, delivered_bytes_per_s);
        let (learned_bytes_per_s, line_bytes_per_s) =
            (again(self.learned_bytes_per_s), again(self.line_bytes_per_s));
        Wary { learned_bytes_per_s, line_bytes_per_s, rounds_left: WARY_ROUNDS - SETTLING_ROUNDS - 1, ..self }
    }

    /// Whether its own queue and its repairs are over.
    pub(crate) fn is_settled(&self) -> bool {
        self.rounds_left + SETTLING_ROUNDS < WARY_ROUNDS
    }

    /// Packets have arrived at this rate.
    pub(crate) fn learn(&mut self, rate_bytes_per_s: u64) {
        if !self.is_settled() && rate_bytes_per_s > self.line_bytes_per_s {
            (self.learned_bytes_per_s, self.line_bytes_per_s) = (rate_bytes_per_s, rate_bytes_per_s);
            self.bytes_per_s = self.bytes_per_s.max(rate_bytes_per_s / 100 * 98);
        }
    }

    /// A queue shows; it is small, so there is no time to wait for the end of the round.
    pub(crate) fn give_way(&mut self, delivered_bytes_per_s: u64) {
        if self.is_settled() {
            self.has_shown = true;
            self.bytes_per_s = self.bytes_per_s.min(delivered_bytes_per_s / 100 * 97);
        }
    }

    /// The next round.
    pub(crate) fn feel(self, round: Round) -> Wary {
        let delivered = round.delivered_bytes_per_s;
        let rounds_left = self.rounds_left - 1;
        let next = Wary { rounds_left, ..self };
        let is_settled = next.is_settled();
        let has_queue = is_settled && (self.has_shown || round.has_queue);
        let is_found = self.is_found || has_queue;
        let ceiling = delivered / 100 * 110;
        let (mut learned_bytes_per_s, mut line_bytes_per_s) =
            (self.learned_bytes_per_s, self.line_bytes_per_s);
        let (bytes_per_s, rounds_with_queue) = if is_settled && round.has_overflowed {
            line_bytes_per_s = line_bytes_per_s.min(delivered);
            learned_bytes_per_s = line_bytes_per_s;
            (delivered / 100 * 97, self.rounds_with_queue + 1)
        } else if has_queue {
            // What was taken for the line is more than it carries, or no queue would stand below it again and again.
            if self.rounds_without < SHOWN_ROUNDS {
                let least = learned_bytes_per_s / 100 * SHOWN_LEAST_PERCENT;
                line_bytes_per_s = (line_bytes_per_s / 100 * 99).max(least);
            }
            (delivered / 100 * 97, self.rounds_with_queue + 1)
        } else if line_bytes_per_s > delivered / 2 {
            let raised = line_bytes_per_s / 10_000 * (10_000 + RAISED_PER_10_000);
            line_bytes_per_s = raised.min(learned_bytes_per_s);
            (line_bytes_per_s / 100 * 98, 0)
        } else if is_settled && !is_found && round.window_bytes_per_s <= ceiling {
            (ceiling, 0)
        } else {
            (raised(self.bytes_per_s, self.bytes_per_s.max(delivered) / 1000 * 1005, delivered), 0)
        };
        let rounds_without = if rounds_with_queue > 0 { 0 } else { self.rounds_without.saturating_add(1) };
        Wary {
            bytes_per_s,
            learned_bytes_per_s,
            line_bytes_per_s,
            is_found,
            has_shown: false,
            rounds_without,
            rounds_with_queue,
            ..next
        }
    }
}

/// A rate as it is raised, unless that is far beyond what is delivered.
fn raised(bytes_per_s: u64, raised_bytes_per_s: u64, delivered_bytes_per_s: u64) -> u64 {
    raised_bytes_per_s.min(delivered_bytes_per_s.saturating_mul(RAISED_TIMES)).max(bytes_per_s)
}

/// What the window of a connection alone would send, in bytes per second.
pub(crate) fn window_rate(seen: &Observation, rtt_ns: u128) -> u64 {
    rate(u64::from(seen.cwnd_packets) * u64::from(seen.mss_bytes), rtt_ns)
}

/// What the window and the other end's room for it let out, in bytes per second.
pub(crate) fn open_rate(seen: &Observation) -> u64 {
    let rtt_ns = seen.rtt.as_nanos();
    let peer = if seen.peer_window_bytes == 0 { u64::MAX } else { rate(seen.peer_window_bytes, rtt_ns) };
    window_rate(seen, rtt_ns).min(peer)
}

/// So many bytes in so long.
fn rate(bytes: u64, ns: u128) -> u64 {
    u64::try_from(u128::from(bytes) * 1_000_000_000 / ns.max(1)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_raised_stays_near_what_arrives_however_long_it_is_raised() {
        let delivered = 10_000_000;
        let mut wary = Wary::new(delivered);
        wary.learn(10 * delivered);
        let round = |has_queue| Round {
            delivered_bytes_per_s: delivered,
            has_overflowed: false,
            has_queue,
            window_bytes_per_s: u64::MAX,
        };
        for _ in 0..1_000_000 {
            wary = if wary.is_over() { wary.again(delivered) } else { wary.feel(round(false)) };
        }
        assert!(wary.bytes_per_s <= 10 * delivered, "{wary:?}");
        let mut wary = Wary::new(delivered);
        for count in 0..10_000 {
            wary = if wary.is_over() { wary.again(delivered) } else { wary.feel(round(count == 20)) };
        }
        assert!((2 * delivered..=4 * delivered).contains(&wary.bytes_per_s), "{wary:?}");
    }
}
