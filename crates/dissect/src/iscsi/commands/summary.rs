//! Summary of the commands of a connection.

use serde::Serialize;

use crate::figures::distribution::Durations;
use crate::figures::level::LevelSummary;
use crate::iscsi::commands::count::Count;

/// Commands of a connection. Times are between packets at the tap.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CommandSummary {
    /// SCSI commands sent.
    pub sent: Count,
    /// Commands with a status that was not lost on its way to the initiator.
    pub completed: Count,
    /// Completed commands with an inferred header.
    pub inferred: u64,
    /// Commands without a status: aborted, status passed unseen, task tag in use again, or outstanding at the end.
    pub unanswered: Count,
    /// Commands with a status that never arrived at the initiator: TCP sent it, or data in front of it, again and got no
    /// acknowledgement until the end of the capture. They are not in `completed`.
    pub undelivered: u64,
    /// Time from the request of the oldest command without a status to the end of the capture, if every header is visible.
    pub waiting_s: Option<f64>,
    /// Bytes of Data-In.
    pub read_bytes: u64,
    /// Bytes of Data-Out and immediate data.
    pub written_bytes: u64,
    /// Commands in flight, from request to status.
    pub in_flight: Option<LevelSummary>,
    /// Commands sent before the answer to those before had reached the initiator: with one in flight at the tap, or
    /// sooner after the last status than three quarters of the fastest round trip from the tap to the initiator.
    pub overlapping: Option<u64>,
    /// Expected data transfer length of the commands in flight, in bytes.
    pub bytes_in_flight: Option<LevelSummary>,
    /// Service time of reads: from the end of the request to the end of the status, where both headers are visible. Commands
    /// that the target refused for want of room are left out.
    pub read_service: Option<Durations>,
    /// Service time of writes; the request ends with its immediate data.
    pub write_service: Option<Durations>,
    /// Service time of commands without data.
    pub other_service: Option<Durations>,
    /// From the end of the request to the first byte of the answer: of READ and WRITE that have ended and were not refused.
    pub first_answer: Option<Durations>,
    /// From an R2T to the first byte of its data.
    pub initiator_turn: Option<Durations>,
    /// From the last byte of a write's data to its status.
    pub status_turn: Option<Durations>,
    /// From the last data of a read to its status in a SCSI Response PDU.
    pub status_alone: Option<Durations>,
    /// R2Ts per write.
    pub r2ts_per_write: Option<LevelSummary>,
    /// Most bytes that an R2T asked for.
    pub r2t_bytes_max: u64,
    /// Most unsolicited bytes of a write, immediate data included.
    pub unasked_bytes_max: u64,
}

impl CommandSummary {
    /// Takes out of the completed commands those whose status never arrived.
    pub(crate) fn without_undelivered(self, undelivered: u64) -> Self {
        Self { completed: self.completed.less(undelivered), undelivered, ..self }
    }

    /// Leaves out the counts of a side, the initiator or the target, without a packet in the capture.
    pub(crate) fn seen_of(self, [initiator, target]: [bool; 2]) -> Self {
        let of = |is_seen: bool, count: Count| if is_seen { count } else { Count::Unknown };
        Self {
            sent: of(initiator, self.sent),
            completed: of(initiator && target, self.completed),
            unanswered: of(initiator && target, self.unanswered),
            ..self
        }
    }
}
