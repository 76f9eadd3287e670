//! Stalls of Nagle's algorithm against delayed acknowledgements: RFC 896 against RFC 1122 section 4.2.3.2.
//!
//! A small segment waits until what was sent before is acknowledged, and its receiver waits for more before it
//! acknowledges. Seen at any tap: an acknowledgement that comes late for a small segment and leaves nothing in flight,
//! and another small segment as soon as it can have reached its sender.

/// An acknowledgement so much later than the fastest one was delayed, in ns.
const DELAYED_NS: u64 = 20_000_000;
/// How much sooner or later than expected the answer may come, in ns.
const TOLERANCE_NS: u64 = 2_000_000;

/// Watches one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stalls {
    /// When a late acknowledgement came, and by how much it was late.
    late: Option<(u64, u64)>,
    pub(super) count: u64,
    pub(super) total_ns: u64,
}

impl Stalls {
    /// What the direction sent has been acknowledged; `min_rtt_ns` is the fastest it ever was.
    pub(super) fn acknowledged(&mut self, t_ns: u64, rtt_ns: u64, min_rtt_ns: u64, freed_small: bool) {
        let late_ns = rtt_ns.saturating_sub(min_rtt_ns);
        self.late = (freed_small && late_ns >= DELAYED_NS).then_some((t_ns, late_ns));
    }

    /// The direction sends new data; `other_rtt_ns` is the way from the tap to its sender and back.
    pub(super) fn sent(&mut self, t_ns: u64, other_rtt_ns: u64, small: bool) {
        let Some((ack_ns, late_ns)) = self.late.take() else { return };
        let answer_ns = t_ns.saturating_sub(ack_ns);
        // Sooner it cannot be the answer: it was on its way before.
        if small && answer_ns.abs_diff(other_rtt_ns) <= TOLERANCE_NS {
            self.count += 1;
            self.total_ns += late_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn late_and_then_at_once() {
        let mut stalls = Stalls::default();
        stalls.acknowledged(100 * MS, 48 * MS, 8 * MS, true);
        stalls.sent(101 * MS, 0, true);
        stalls.sent(102 * MS, 0, true);
        assert_eq!((stalls.count, stalls.total_ns), (1, 40 * MS));
        for (rtt, freed, sent, small) in
            [(9, true, 101, true), (48, false, 101, true), (48, true, 150, true), (48, true, 101, false)]
        {
            stalls.acknowledged(100 * MS, rtt * MS, 8 * MS, freed);
            stalls.sent(sent * MS, 0, small);
        }
        assert_eq!(stalls.count, 1);
        for (sent, count) in [(150, 1), (199, 2)] {
            stalls.acknowledged(100 * MS, 48 * MS, 8 * MS, true);
            stalls.sent(sent * MS, 100 * MS, true);
            assert_eq!(stalls.count, count);
        }
    }
}
