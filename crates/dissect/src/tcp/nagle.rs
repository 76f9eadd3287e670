//! Stalls of Nagle's algorithm against delayed acknowledgements: RFC 896 against RFC 1122 section 4.2.3.2.
//!
//! A small segment waits for the acknowledgement of earlier data, and its receiver delays that acknowledgement. The
//! pattern at any tap: a late acknowledgement of a small segment that leaves nothing in flight, then another small
//! segment as soon as the acknowledgement can have reached its sender.
//!
//! Without the algorithm that segment follows the data before it at once. So the whole wait is saved: the round trip and
//! the delay of the acknowledgement, at most 200 ms by RFC 1122 and 40 ms with Linux.

/// Delay of an acknowledgement beyond the fastest round trip that counts as delayed, in ns.
const DELAYED_NS: u64 = 20_000_000;
/// Tolerance of the time between that acknowledgement and the next segment, in ns.
const TOLERANCE_NS: u64 = 2_000_000;

/// Stalls of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NagleStalls {
    /// Time of a late acknowledgement and its round trip from the tap, in ns.
    late: Option<(u64, u64)>,
    pub(crate) count: u64,
    /// Time for which small segments waited, in ns.
    pub(crate) total_ns: u64,
}

impl NagleStalls {
    /// Takes an acknowledgement of the direction's data. `freed_small`: it leaves nothing in flight, and the last segment
    /// was small.
    pub(crate) fn acknowledged(&mut self, t_ns: u64, rtt_ns: u64, min_rtt_ns: u64, freed_small: bool) {
        let late_ns = rtt_ns.saturating_sub(min_rtt_ns);
        self.late = (freed_small && late_ns >= DELAYED_NS).then_some((t_ns, rtt_ns));
    }

    /// Takes a segment with new data; `sender_rtt_ns` is the round trip from the tap to its sender.
    pub(crate) fn sent(&mut self, t_ns: u64, sender_rtt_ns: u64, small: bool) {
        let Some((ack_ns, rtt_ns)) = self.late.take() else { return };
        let answer_ns = t_ns.saturating_sub(ack_ns);
        // A segment that passes sooner left before the acknowledgement arrived.
        if small && answer_ns.abs_diff(sender_rtt_ns) <= TOLERANCE_NS {
            self.count += 1;
            self.total_ns = self.total_ns.saturating_add(rtt_ns).saturating_add(sender_rtt_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_late_acknowledgement_and_an_immediate_segment() {
        let mut stalls = NagleStalls::default();
        stalls.acknowledged(100 * MS, 48 * MS, 8 * MS, true);
        stalls.sent(101 * MS, 0, true);
        stalls.sent(102 * MS, 0, true);
        assert_eq!((stalls.count, stalls.total_ns), (1, 48 * MS), "no time between tap and sender");
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
            assert_eq!(stalls.total_ns, 48 * MS + (count - 1) * 148 * MS, "and the round trip to the sender");
        }
    }
}
