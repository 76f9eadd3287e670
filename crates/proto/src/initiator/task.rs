//! One command of the initiator, from submission to status.

use wire::iscsi::{Lun, TaskAttribute};

/// Which way a command's data goes, and how much of it there is at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// No data.
    None,
    /// To the initiator.
    In(u32),
    /// To the target.
    Out(u32),
}

/// A command to carry out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// The caller's name of it.
    pub token: u64,
    /// Which unit.
    pub lun: Lun,
    /// The command.
    pub cdb: [u8; 16],
    /// Its data.
    pub transfer: Transfer,
    /// How it is ordered among others.
    pub attribute: TaskAttribute,
}

/// How a command ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The caller's name of it.
    pub token: u64,
    /// The connection that carried it.
    pub cid: u16,
    /// SCSI status.
    pub status: u8,
    /// iSCSI response code; anything but 0 means that the status is worth nothing.
    pub response: u8,
    /// Payload bytes that were moved.
    pub transferred_bytes: u32,
    /// Bytes that the target would have moved beyond the expected length.
    pub overflow_bytes: u32,
    /// Sense data; empty unless the status is CHECK CONDITION.
    pub sense: Vec<u8>,
}

/// A stretch of a task's payload that the target has asked for, or that goes out unasked.
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
    /// The connection that it belongs to, once it has one.
    pub(crate) cid: u16,
    pub(crate) is_assigned: bool,
    /// Its number, once it is sent.
    pub(crate) cmd_sn: u32,
    /// Its command has been polled; before that no answer can belong to it.
    pub(crate) is_sent: bool,
    /// Payload bytes received so far.
    pub(crate) received_bytes: u32,
    /// DataSN of the next Data-In.
    pub(crate) next_data_sn: u32,
    /// Payload bytes sent so far, from the start.
    pub(crate) sent_bytes: u32,
    /// Payload bytes that the target has asked for so far, or that go out unasked, from the start.
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
