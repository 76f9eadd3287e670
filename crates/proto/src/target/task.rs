//! One command at the target, from its PDU to the last PDU of its answer.

use std::collections::VecDeque;

use wire::iscsi::{Lun, Pdu, TaskAttribute, TaskManagementRequest};

use super::ConnectionId;

/// A command that is due in CmdSN order, as reported to the serving loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Identifier of the task.
    pub task: TaskId,
    /// Connection of the command; all its PDUs belong to this connection.
    pub connection: ConnectionId,
    /// Logical unit.
    pub lun: Lun,
    /// Command descriptor block.
    pub cdb: [u8; 16],
    /// Task attribute: ordering relative to other commands.
    pub attribute: TaskAttribute,
    /// The initiator expects to receive data.
    pub read: bool,
    /// The initiator expects to send data.
    pub write: bool,
    /// Expected Data Transfer Length of the command.
    pub expected_bytes: u32,
}

/// Identifier of an open task within its session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TaskId(pub(crate) u32);

/// Status and sense data that end a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// SCSI status.
    pub status: u8,
    /// Sense data, empty for none.
    pub sense: Vec<u8>,
    /// Bytes that the command itself moves (its transfer or allocation length): the residual is the difference from
    /// the Expected Data Transfer Length.
    pub actual_bytes: u32,
}

/// A burst of write data: unsolicited, or solicited by one R2T.
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
    /// Payload token of the serving loop, set by the answer to [`Run`].
    pub(crate) token: u64,
    pub(crate) cmd_sn: u32,
    /// The task counts against the command window; immediate commands do not.
    pub(crate) counted: bool,
    pub(crate) stage: Stage,
    /// Bursts of the transfer that are not accounted for.
    pub(crate) bursts: VecDeque<Burst>,
    pub(crate) next_r2t_sn: u32,
    /// Data that arrived before the task was due.
    pub(crate) early: Vec<u8>,
    /// Data-Out of the task was lost: the rest is received and discarded.
    pub(crate) is_damaged: bool,
}

impl Task {
    /// Returns true if further Data-Out PDUs are discarded, in order or not.
    pub(crate) fn takes_anything(&self) -> bool {
        self.is_damaged || matches!(self.stage, Stage::Aborted)
    }
}

/// Stage of a task.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Commands with a smaller CmdSN are missing.
    Early,
    /// The serving loop executes the command.
    Running,
    /// Data is being received, up to `wanted_bytes`; the first `asked_bytes` are solicited by R2Ts or unsolicited.
    Receiving { wanted_bytes: u32, asked_bytes: u32 },
    /// Answered; discarded data is still in flight.
    Draining(Answer),
    /// Data-In PDUs are being sent.
    Sending(Sending),
    /// Ended without a response and not yet released by the serving loop.
    Aborted,
}

/// A request ahead of its CmdSN order.
#[derive(Debug)]
pub(crate) enum Early {
    /// A command.
    Task(usize),
    /// Another request.
    Request(Box<EarlyRequest>),
    /// A CmdSN that counts as received, without a request to carry out.
    Skipped,
}

/// A request other than a SCSI command, ahead of its CmdSN order.
#[derive(Debug)]
pub(crate) struct EarlyRequest {
    pub(crate) connection: ConnectionId,
    pub(crate) pdu: Pdu,
    pub(crate) collected: Vec<u8>,
}

/// An immediate task management request whose preceding commands have not all arrived: another connection may lag.
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
    /// Small data owned by the session; `None` for payload by token.
    pub(crate) owned: Option<Vec<u8>>,
}

impl Sending {
    /// Memory of the owned data, in bytes.
    pub(crate) fn made_bytes(&self) -> usize {
        self.owned.as_ref().map_or(0, Vec::len)
    }
}
