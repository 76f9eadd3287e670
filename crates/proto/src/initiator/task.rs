//! One command of the initiator, from submission to status.

use wire::iscsi::{Lun, TaskAttribute};

/// Direction and maximum length of a command's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// No data.
    None,
    /// To the initiator.
    In(u32),
    /// To the target.
    Out(u32),
}

/// A command to execute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// Token of the command, chosen by the caller.
    pub token: u64,
    /// Logical unit.
    pub lun: Lun,
    /// Command descriptor block.
    pub cdb: [u8; 16],
    /// Direction and length of the data.
    pub transfer: Transfer,
    /// Task attribute: ordering relative to other commands.
    pub attribute: TaskAttribute,
}

/// Status and sense data that end a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Token of the command, chosen by the caller.
    pub token: u64,
    /// The connection that carried the command.
    pub cid: u16,
    /// SCSI status.
    pub status: u8,
    /// iSCSI response code; the status is invalid unless it is 0.
    pub response: u8,
    /// Payload bytes transferred.
    pub transferred_bytes: u32,
    /// Bytes that the target would have moved beyond the expected length.
    pub overflow_bytes: u32,
    /// Sense data; empty unless the status is CHECK CONDITION.
    pub sense: Vec<u8>,
}

/// A burst of a task's payload: solicited by an R2T, or unsolicited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Burst {
    pub(crate) ttt: u32,
    pub(crate) next_bytes: u32,
    pub(crate) end_bytes: u32,
    pub(crate) data_sn: u32,
}

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) command: Command,
    pub(crate) itt: u32,
    /// The connection of the task, once assigned.
    pub(crate) cid: u16,
    pub(crate) is_assigned: bool,
    /// CmdSN, once the command is sent.
    pub(crate) cmd_sn: u32,
    /// The command has been polled; before that no response can belong to it.
    pub(crate) is_sent: bool,
    /// Payload bytes received so far.
    pub(crate) received_bytes: u32,
    /// DataSN of the next Data-In.
    pub(crate) next_data_sn: u32,
    /// Payload bytes sent so far, from the start.
    pub(crate) sent_bytes: u32,
    /// End of the payload that is solicited so far, or unsolicited, from the start.
    pub(crate) asked_bytes: u32,
    /// Bursts queued and not yet sent out in full.
    pub(crate) bursts: u32,
}

impl Task {
    pub(crate) fn new(command: Command, itt: u32) -> Task {
        Task {
            command,
            itt,
            cid: 0,
            is_assigned: false,
            cmd_sn: 0,
            is_sent: false,
            received_bytes: 0,
            next_data_sn: 0,
            sent_bytes: 0,
            asked_bytes: 0,
            bursts: 0,
        }
    }

    pub(crate) fn expected_bytes(&self) -> u32 {
        match self.command.transfer {
            Transfer::None => 0,
            Transfer::In(len) | Transfer::Out(len) => len,
        }
    }
}
