//! One command at the target, from its PDU to the last PDU of its answer.

use std::collections::VecDeque;

use wire::iscsi::{Lun, Pdu, TaskAttribute, TaskManagementRequest};

use super::ConnectionId;

/// What the serving loop is told of a command when it is its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Its name here.
    pub task: TaskId,
    /// Where it came, and where all that belongs to it goes.
    pub connection: ConnectionId,
    /// Which unit.
    pub lun: Lun,
    /// The command.
    pub cdb: [u8; 16],
    /// How it is ordered among others.
    pub attribute: TaskAttribute,
    /// The initiator expects to receive data.
    pub read: bool,
    /// The initiator expects to send data.
    pub write: bool,
    /// How much data the initiator expects to move.
    pub expected_bytes: u32,
}

/// Names an open task within its session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TaskId(pub(crate) u32);

/// How a command ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// SCSI status.
    pub status: u8,
    /// Sense data, empty for none.
    pub sense: Vec<u8>,
    /// Bytes that the command itself moves (its transfer or allocation length): the residual is the
    /// difference from what the initiator expected.
    pub actual_bytes: u32,
}

/// A stretch of payload that the initiator sends without being asked, or because of one R2T.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Burst {
    pub(crate) ttt: u32,
    pub(crate) next_bytes: u32,
    pub(crate) end_bytes: u32,
    pub(crate) next_data_sn: u32,
}

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) connection: ConnectionId,
    pub(crate) itt: u32,
    pub(crate) lun: Lun,
    pub(crate) cdb: [u8; 16],
    pub(crate) attribute: TaskAttribute,
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) expected_bytes: u32,
    /// The serving loop's name of it, given when it answers [`Run`].
    pub(crate) token: u64,
    pub(crate) cmd_sn: u32,
    /// It counts against the command window.
    pub(crate) counted: bool,
    pub(crate) stage: Stage,
    /// Bursts on their way here.
    pub(crate) bursts: VecDeque<Burst>,
    pub(crate) next_r2t_sn: u32,
    /// Data that arrived before its turn came.
    pub(crate) early: Vec<u8>,
    /// Data of it was lost on its way: what follows is taken and forgotten.
    pub(crate) is_damaged: bool,
}

impl Task {
    /// Whether what still comes for it is forgotten, in order or not.
    pub(crate) fn takes_anything(&self) -> bool {
        self.is_damaged || matches!(self.stage, Stage::Aborted)
    }
}

/// Where a task stands.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Commands before it are missing.
    Early,
    /// The serving loop has it.
    Running,
    /// Data is being received, up to `wanted_bytes`; `asked_bytes` have been sent for or are unsolicited.
    Receiving { wanted_bytes: u32, asked_bytes: u32 },
    /// Answered, but data that nobody wants is still on its way here.
    Draining(Answer),
    /// Data-In PDUs are being sent.
    Sending(Sending),
    /// Ended without an answer; the serving loop has not let go of it yet.
    Aborted,
}

/// What has come ahead of its turn.
#[derive(Debug)]
pub(crate) enum Early {
    /// A command.
    Task(usize),
    /// Another request.
    Request(Box<EarlyRequest>),
    /// Something that counts as received and is not carried out.
    Skipped,
}

/// A request that is no SCSI command, ahead of its turn.
#[derive(Debug)]
pub(crate) struct EarlyRequest {
    pub(crate) connection: ConnectionId,
    pub(crate) pdu: Pdu,
    pub(crate) collected: Vec<u8>,
}

/// An immediate request to end tasks, some of which have not come: another connection may be slower.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) connection: ConnectionId,
    pub(crate) request: TaskManagementRequest,
}

/// Progress of the Data-In PDUs of a task.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) next_bytes: u32,
    pub(crate) end_bytes: u32,
    pub(crate) actual_bytes: u32,
    pub(crate) next_data_sn: u32,
    /// Small data that the serving loop handed over; payload by token otherwise.
    pub(crate) owned: Option<Vec<u8>>,
}

impl Sending {
    /// What is kept for it.
    pub(crate) fn made_bytes(&self) -> usize {
        self.owned.as_ref().map_or(0, Vec::len)
    }
}
