//! Counts and service times of the commands of a connection.

use crate::figures::distribution::Distribution;

/// Counts of commands and bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommandCounts {
    pub(super) sent: u64,
    /// Sent commands with an inferred header.
    pub(super) sent_inferred: u64,
    /// Commands sent before the answer to those before had reached the initiator.
    pub(super) overlapping: u64,
    pub(super) completed: u64,
    /// Completed commands whose status is in an inferred header.
    pub(super) status_inferred: u64,
    /// Completed commands with any inferred header.
    pub(super) inferred: u64,
    /// Visible statuses of commands that were not seen.
    pub(super) unmatched: u64,
    pub(super) unanswered: u64,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
}

impl CommandCounts {
    /// Adds others.
    pub(crate) fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.sent_inferred += other.sent_inferred;
        self.overlapping += other.overlapping;
        self.completed += other.completed;
        self.status_inferred += other.status_inferred;
        self.inferred += other.inferred;
        self.unmatched += other.unmatched;
        self.unanswered += other.unanswered;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
    }
}

/// Counts of writes and their R2Ts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteCounts {
    /// Completed writes.
    pub(super) completed: u64,
    /// R2Ts of completed writes.
    pub(super) r2ts: u64,
    /// Most R2Ts of one write.
    pub(super) r2ts_max: u32,
    /// Most bytes that an R2T asked for.
    pub(super) r2t_bytes_max: u32,
    /// Most unsolicited bytes of a write, immediate data included.
    pub(super) unsolicited_bytes_max: u64,
}

/// Durations between PDUs of a command, in ns.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandTimes {
    /// From request to status, of reads.
    pub(super) reads: Distribution,
    /// The same of writes.
    pub(super) writes: Distribution,
    /// The same of commands without data.
    pub(super) others: Distribution,
    /// From request to first answer.
    pub(super) first_answer: Distribution,
    /// From R2T to its data.
    pub(super) initiator_turn: Distribution,
    /// From the last data of a write to its status.
    pub(super) status_turn: Distribution,
    /// From the last data of a read to its status in a SCSI Response PDU.
    pub(super) status_alone: Distribution,
}
