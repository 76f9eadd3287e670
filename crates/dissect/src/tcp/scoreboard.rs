//! Scoreboard of a direction's unacknowledged data (RFC 6675 section 3), rebuilt from both directions at the tap.

use crate::tcp::holes::Holes;
use crate::tcp::ranges::Ranges;
use crate::tcp::unacked::Unacked;

/// Duplicate acknowledgements that start loss recovery.
const DUP_THRESHOLD: u32 = 3;

/// Acknowledgement state of a direction's data.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    /// Selectively acknowledged ranges above the cumulative acknowledgement.
    pub(super) sacked: Ranges,
    pub(super) holes: Holes,
    pub(super) unacked: Unacked,
    /// Duplicate acknowledgements since the last advance.
    pub(super) dup_acks: u32,
    /// Recovery point: loss recovery ends when everything before it is acknowledged.
    recovery_end: Option<u64>,
}

impl Scoreboard {
    /// Starts loss recovery unless it is under way; `next` follows the highest byte sent.
    pub(super) fn begin_recovery(&mut self, next: u64) {
        self.recovery_end.get_or_insert(next);
    }

    /// True during loss recovery.
    pub(super) fn is_recovering(&self) -> bool {
        self.recovery_end.is_some() || self.has_dup_acks()
    }

    /// True if the duplicate acknowledgements suffice for a fast retransmission.
    pub(super) fn has_dup_acks(&self) -> bool {
        self.dup_acks >= DUP_THRESHOLD
    }

    /// Adds a selective acknowledgement; returns the bytes that are newly acknowledged.
    pub(super) fn sack(&mut self, start: u64, end: u64) -> u64 {
        let before = self.sacked.bytes();
        self.sacked.add(start, end);
        self.sacked.bytes().saturating_sub(before)
    }

    /// Advances the cumulative acknowledgement to `ack`; returns the bytes before it that were selectively acknowledged.
    pub(super) fn advance(&mut self, ack: u64) -> u64 {
        let sacked = self.sacked.bytes_before(ack);
        self.dup_acks = 0;
        self.recovery_end = self.recovery_end.filter(|end| *end > ack);
        self.sacked.forget_before(ack);
        self.holes.forget_before(ack);
        sacked
    }
}
