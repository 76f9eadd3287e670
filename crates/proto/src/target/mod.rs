//! The target's session in the full feature phase, without I/O: one connection or several, error recovery level 0
//! (RFC 7143 sections 4, 7 and 11).
//!
//! Inputs, in this order for each PDU of a connection: [`Session::begin`] when the header has arrived (a SCSI command
//! becomes a task), [`Session::segment`] for the destination of the data segment, [`Session::handle`] when the data
//! segment has been stored there. Calls of the serving loop: [`Session::receive`], [`Session::send`],
//! [`Session::answer`] and the other answers. Outputs: [`Session::poll_event`], after `begin` and after `handle`, and
//! [`Session::poll_transmit`] for each connection: a PDU received on one connection may queue PDUs on others.
//! SCSI commands are not executed here, and the serving loop sets the size of the command window.

mod answer;
mod command;
mod connection;
mod data_out;
mod forgotten;
mod manage;
mod notice;
mod request;
mod task;

use std::collections::{BTreeMap, HashMap, VecDeque};

use slab::Slab;
use wire::iscsi::{Pdu, RESERVED_TAG, TextRequest, reject_reason};

use crate::fault::{Fault, Segment, Transmit};
use crate::params::Params;
use crate::window::TargetWindow;

pub use connection::ConnectionId;
use connection::{Connection, Current, at};
use forgotten::Forgotten;
pub use manage::Function;
pub use task::{Answer, Run, TaskId};
use task::{Early, Stage, Task, Waiting};

/// Event of a session for the serving loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A command is due in CmdSN order: decode it and call `receive`, `send`, `send_owned` or `answer`.
    Run(Run),
    /// Write data that was collected before its task was due, when no payload buffer existed: to be copied into the
    /// payload now.
    Late {
        /// The task.
        task: TaskId,
        /// Payload token of the serving loop.
        token: u64,
        /// Offset from the start of the transfer.
        offset_bytes: u32,
        /// The data, cut to the wanted bytes of the transfer.
        data: Vec<u8>,
    },
    /// All wanted write data of a task has arrived.
    Received {
        /// The task.
        task: TaskId,
        /// Payload token of the serving loop.
        token: u64,
    },
    /// Data-Out of a task was lost; the rest of the transfer is discarded. Release the payload and answer with a
    /// protocol service CRC error (RFC 7143 section 11.4.7.2).
    Damaged {
        /// The task.
        task: TaskId,
        /// Payload token of the serving loop.
        token: u64,
    },
    /// Task management: carry out the function, then call [`Session::answer_manage`].
    Manage {
        /// Connection of the request.
        connection: ConnectionId,
        /// Tag of the request.
        itt: u32,
        /// Function and its object.
        function: Function,
        /// CmdSN of the request: the function concerns commands of this session with a smaller CmdSN.
        cmd_sn: u32,
    },
    /// Complete text of the initiator: call [`Session::answer_text`] or [`Session::refuse_text`].
    Text {
        /// Connection of the request.
        connection: ConnectionId,
        /// The text.
        text: Vec<u8>,
    },
    /// The initiator logs out; the response is queued. Connections to close are closed at once, except the connection
    /// of the request, which is closed after the response is sent.
    Logout {
        /// Connection of the request.
        connection: ConnectionId,
        /// The connection to close, or `None` for all of the session.
        ends: Option<ConnectionId>,
    },
    /// A queued request violates the protocol when its CmdSN is due: its connection must be dropped.
    Fault {
        /// Connection of the request.
        connection: ConnectionId,
        /// Protocol violation.
        fault: Fault,
    },
}

impl Event {
    /// Task of the event.
    fn task(&self) -> Option<TaskId> {
        match self {
            Event::Run(run) => Some(run.task),
            Event::Late { task, .. } | Event::Received { task, .. } | Event::Damaged { task, .. } => {
                Some(*task)
            }
            Event::Manage { .. } | Event::Text { .. } | Event::Logout { .. } | Event::Fault { .. } => None,
        }
    }
}

/// Longest text an initiator may send in one request sequence.
const TEXT_MAX_BYTES: usize = 64 << 10;
/// Queued response bytes of a connection at which no more requests are read from that connection.
const MADE_MAX_BYTES: usize = 1 << 20;
/// Immediate commands are outside the window, so they need a bound of their own.
const IMMEDIATE_MAX: usize = 64;
/// Most data kept for commands that arrived ahead of their CmdSN order. A single connection delivers in order, so a
/// CmdSN gap there is not data in flight but a choice of the initiator: the bound for one connection is smaller.
const EARLY_MAX_BYTES: usize = 16 << 20;
const EARLY_ALONE_MAX_BYTES: usize = 64 << 10;

/// A target's session.
#[derive(Debug)]
pub struct Session {
    /// Parameters negotiated for the session, at the leading login.
    params: Params,
    connections: Vec<Connection>,
    /// More than one connection has existed, so commands of a CmdSN gap may still arrive.
    has_joined: bool,
    has_separate_status: bool,
    last_connection: u32,
    window: TargetWindow,
    tasks: Slab<Task>,
    by_itt: HashMap<u32, usize>,
    /// Requests that arrived ahead of their CmdSN order, by CmdSN.
    early: BTreeMap<u32, Early>,
    early_bytes: usize,
    immediate: usize,
    /// Task management requests without a response yet; `waiting` holds those that wait for earlier commands.
    managed: usize,
    waiting: Vec<Waiting>,
    /// Data in flight for tasks that no longer exist, by initiator and target task tag.
    forgotten: Forgotten,
    next_ttt: u32,
    events: VecDeque<Event>,
}

#[derive(Debug)]
struct TextAnswer {
    /// The last request: the answer may have its F bit set if the request has.
    request: TextRequest,
    ttt: u32,
    rest: Vec<u8>,
}

impl Session {
    /// A session after its login, over a connection with the CID `cid`, which is [`ConnectionId::LEADING`] here:
    /// `exp_cmd_sn` is the next CmdSN, `stat_sn` the next StatSN, `window` the size of the command window in commands.
    pub fn new(cid: u16, params: Params, exp_cmd_sn: u32, stat_sn: u32, window: u32) -> Session {
        let leading = Connection::new(ConnectionId::LEADING, cid, params.clone(), stat_sn);
        Session {
            params,
            connections: vec![leading],
            has_joined: false,
            has_separate_status: false,
            last_connection: 0,
            window: TargetWindow::new(exp_cmd_sn, window),
            tasks: Slab::new(),
            by_itt: HashMap::new(),
            early: BTreeMap::new(),
            early_bytes: 0,
            immediate: 0,
            managed: 0,
            waiting: Vec::new(),
            forgotten: Forgotten::default(),
            next_ttt: 0,
            events: VecDeque::new(),
        }
    }

    /// Adds a connection that has logged in to this session; `params` are those negotiated on the connection.
    pub fn join(&mut self, cid: u16, params: Params, stat_sn: u32) -> ConnectionId {
        self.has_joined = true;
        self.last_connection += 1;
        let id = ConnectionId(self.last_connection);
        self.connections.push(Connection::new(id, cid, params, stat_sn));
        id
    }

    /// Removes a closed connection and ends its tasks. Returns the tasks to forget, see [`Session::abort`].
    pub fn leave(&mut self, connection: ConnectionId) -> Vec<TaskId> {
        self.waiting.retain(|waiting| waiting.connection != connection);
        for early in self.early.values_mut() {
            if let Early::Request(request) = early
                && request.connection == connection
            {
                self.early_bytes -= request.collected.len();
                *early = Early::Skipped;
            }
        }
        let tasks = self.abort_those(|_, task| task.connection == connection);
        // The tags may be reused on another connection before the serving loop has released the tasks.
        for task in &tasks {
            self.by_itt.remove(&self.tasks[task.0 as usize].itt);
        }
        self.connections.retain(|other| other.id != connection);
        tasks
    }

    /// Connections of the session.
    pub fn connections(&self) -> impl ExactSizeIterator<Item = ConnectionId> {
        self.connections.iter().map(|connection| connection.id)
    }

    /// The first connection with this CID.
    pub fn connection_of(&self, cid: u16) -> Option<ConnectionId> {
        self.connections.iter().find(|connection| connection.cid == cid).map(|connection| connection.id)
    }

    /// All connections with this CID: a replaced connection stays until it leaves.
    pub fn connections_of(&self, cid: u16) -> impl Iterator<Item = ConnectionId> {
        self.connections.iter().filter(move |own| own.cid == cid).map(|own| own.id)
    }

    /// Returns true if no other connection has the CID of this one.
    pub fn is_only_with_its_cid(&self, connection: ConnectionId) -> bool {
        let own = self.connections.iter().find(|own| own.id == connection);
        own.is_some_and(|own| self.connections.iter().filter(|other| other.cid == own.cid).count() == 1)
    }

    /// Parameters negotiated for the whole session, at its leading login.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Parameters in force on one connection.
    pub fn params_of(&self, connection: ConnectionId) -> &Params {
        &self.connection(connection).params
    }

    /// CID of a connection.
    pub fn cid_of(&self, connection: ConnectionId) -> u16 {
        self.connection(connection).cid
    }

    /// ExpCmdSN and MaxCmdSN: the first and the last CmdSN that are accepted.
    pub fn window(&self) -> (u32, u32) {
        (self.window.exp_cmd_sn(), self.window.max_cmd_sn())
    }

    /// Size of the command window, in commands.
    pub fn command_window(&self) -> u32 {
        self.window.size()
    }

    /// Commands received and not yet answered.
    pub fn open_commands(&self) -> usize {
        self.tasks.len()
    }

    /// Bytes kept for commands that arrived ahead of their CmdSN order.
    pub fn early_bytes(&self) -> usize {
        self.early_bytes
    }

    /// Returns true if the queued responses of a connection reach the limit at which no more requests are read from it.
    /// An initiator that sends requests and never reads must not exhaust the memory of the target.
    pub fn is_backed_up(&self, connection: ConnectionId) -> bool {
        let connection = self.connection(connection);
        connection.urgent.is_backed_up() || connection.made_bytes >= MADE_MAX_BYTES
    }

    /// Memory of queued responses and of collected text of a connection, in bytes.
    pub fn made_bytes(&self, connection: ConnectionId) -> usize {
        let connection = self.connection(connection);
        let rest_bytes = connection.text_answer.as_ref().map_or(0, |answer| answer.rest.len());
        connection.urgent.held_bytes() + connection.made_bytes + connection.text.len() + rest_bytes
    }

    /// Payload ready to be sent on a connection and not yet polled, in bytes.
    pub fn unsent_payload_bytes(&self, connection: ConnectionId) -> u64 {
        self.connection(connection).unsent_bytes
    }

    fn connection(&self, id: ConnectionId) -> &Connection {
        let found = self.connections.iter().find(|connection| connection.id == id);
        let Some(connection) = found else { unreachable!("{id:?} has left the session") };
        connection
    }

    /// Initiator task tag of an open task.
    pub fn tag(&self, task: TaskId) -> Option<u32> {
        self.tasks.get(task.0 as usize).map(|task| task.itt)
    }

    /// Sets the size of the command window, in commands; MaxCmdSN never moves back.
    pub fn set_command_window(&mut self, commands: u32) {
        self.window.limit(commands);
    }

    /// Selects the PDU that carries the status of a read: a SCSI Response behind the data if true, the last Data-In
    /// otherwise. The default is false.
    pub fn set_separate_status(&mut self, is_separate: bool) {
        self.has_separate_status = is_separate;
    }

    /// Sets the MaxRecvDataSegmentLength that the initiator has declared anew on a connection (RFC 7143 section 13.12).
    pub fn declare_segment(&mut self, connection: ConnectionId, segment_len: u32) {
        at(&mut self.connections, connection).params.peer_max_recv_data_segment_len = segment_len;
    }

    /// Releases memory that a session without open commands does not need: to be called after a period without
    /// requests.
    pub fn rest(&mut self) {
        if self.tasks.is_empty() {
            self.tasks.shrink_to_fit();
            self.by_itt.shrink_to_fit();
            self.events.shrink_to_fit();
            for connection in &mut self.connections {
                connection.sending.shrink_to_fit();
                connection.urgent.shrink();
            }
        }
    }

    /// Takes a header that has just arrived. A SCSI command becomes a task here and may be due at once: poll events
    /// before the call of [`Session::segment`].
    pub fn begin(&mut self, connection: ConnectionId, pdu: &Pdu) -> Result<(), Fault> {
        let at = at(&mut self.connections, connection);
        let (found_bytes, limit_bytes) = (pdu.data_segment_len(), at.params.our_max_recv_data_segment_len);
        if found_bytes > limit_bytes {
            return Err(Fault::SegmentTooLong { found_bytes, limit_bytes });
        }
        if at.logged_out {
            return Err(Fault::Unexpected { found: pdu.opcode() });
        }
        at.current = Current::Ignored;
        match pdu {
            Pdu::ScsiCommand(command) => self.begin_command(connection, command),
            _ => Ok(()),
        }
    }

    /// Destination of the data segment of the PDU that [`Session::begin`] was called with.
    pub fn segment(&self, connection: ConnectionId, pdu: &Pdu) -> Segment {
        let len = pdu.data_segment_len();
        let (key, offset_bytes) = match pdu {
            _ if len == 0 => return Segment::Discard,
            Pdu::ScsiCommand(_) => match self.connection(connection).current {
                Current::Task(key) => (key, 0),
                Current::Ignored | Current::Refused(_) => return Segment::Discard,
            },
            Pdu::DataOut(data) => match self.burst_of(connection, data) {
                Ok((key, index)) if self.shows_loss(key, index, data) => return Segment::Discard,
                Ok((key, _)) => (key, data.buffer_offset),
                Err(_) => return Segment::Discard,
            },
            _ => return Segment::Collect,
        };
        let task = &self.tasks[key];
        match task.stage {
            _ if task.is_damaged => Segment::Discard,
            Stage::Early => Segment::Collect,
            Stage::Receiving { wanted_bytes, .. } if offset_bytes < wanted_bytes => {
                let len_bytes = len.min(wanted_bytes - offset_bytes);
                Segment::Payload { token: task.token, offset_bytes, len_bytes }
            }
            _ => Segment::Discard,
        }
    }

    /// Takes a PDU whose data segment has been stored; `header` are its 48 bytes, `collected` its data segment if
    /// [`Session::segment`] returned [`Segment::Collect`].
    pub fn handle(
        &mut self,
        connection: ConnectionId,
        pdu: &Pdu,
        header: &[u8; 48],
        collected: &[u8],
    ) -> Result<(), Fault> {
        match pdu {
            Pdu::ScsiCommand(command) => self.finish_command(connection, command, header, collected),
            Pdu::DataOut(data) => self.handle_data_out(connection, data, header, collected),
            Pdu::NopOut(nop) if nop.itt == RESERVED_TAG => Ok(()), // The answer to a ping of ours.
            Pdu::NopOut(_) | Pdu::TextRequest(_) | Pdu::TaskManagementRequest(_) | Pdu::LogoutRequest(_) => {
                self.handle_request(connection, pdu, collected)
            }
            Pdu::SnackRequest(_) => {
                self.reject(connection, header, reject_reason::SNACK_REJECT);
                Ok(())
            }
            other => Err(Fault::Unexpected { found: other.opcode() }),
        }
    }

    /// Replaces [`Session::handle`] for a PDU whose data segment does not match its digest: a Reject is queued (RFC
    /// 7143 section 7.8). Error recovery level 0 has no retransmission of data, so the connection is to be closed when
    /// the Reject is sent.
    pub fn reject_damaged(&mut self, connection: ConnectionId, header: &[u8; 48]) {
        self.reject(connection, header, reject_reason::DATA_DIGEST_ERROR);
    }

    /// Takes the next event for the serving loop.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Starts a write of `wanted_bytes` (at most the expected length of the initiator): [`Event::Received`] follows.
    /// `token` names the payload in [`Segment`], [`Event::Late`], [`Event::Received`] and [`Event::Damaged`].
    pub fn receive(&mut self, task: TaskId, token: u64, wanted_bytes: u32) {
        let key = task.0 as usize;
        let task = &mut self.tasks[key];
        task.token = token;
        let wanted_bytes = wanted_bytes.min(task.expected_bytes);
        let asked_bytes = task.bursts.back().map_or(0, |burst| burst.end_bytes);
        task.stage = Stage::Receiving { wanted_bytes, asked_bytes };
        if task.is_damaged {
            self.events.push_back(Event::Damaged { task: TaskId(key as u32), token });
        }
        self.solicit(key);
    }

    /// Takes the data that arrived before the task was due, from the start of its transfer.
    pub fn take_early(&mut self, task: TaskId) -> Vec<u8> {
        let early = std::mem::take(&mut self.tasks[task.0 as usize].early);
        self.early_bytes -= early.len();
        early
    }

    /// Starts a read of `actual_bytes` from the payload `token`: Data-In PDUs and GOOD follow.
    pub fn send(&mut self, task: TaskId, token: u64, actual_bytes: u32) {
        self.tasks[task.0 as usize].token = token;
        self.begin_sending(task, actual_bytes, None);
    }

    /// Like [`Session::send`], for small data that the session takes ownership of.
    pub fn send_owned(&mut self, task: TaskId, data: Vec<u8>) {
        self.begin_sending(task, data.len() as u32, Some(data));
    }

    /// Ends a task with a status. Data-Out PDUs in flight are received and discarded first.
    pub fn answer(&mut self, task: TaskId, answer: Answer) {
        let key = task.0 as usize;
        let task = &mut self.tasks[key];
        if at(&mut self.connections, task.connection).logged_out {
            return;
        }
        let outstanding = task.bursts.iter().any(|burst| burst.next_bytes < burst.end_bytes);
        if outstanding {
            task.stage = Stage::Draining(answer);
        } else {
            self.respond(key, &answer);
        }
    }

    /// Answers [`Event::Text`].
    pub fn answer_text(&mut self, connection: ConnectionId, text: Vec<u8>) {
        if let Some(answer) = &mut at(&mut self.connections, connection).text_answer {
            answer.rest = text;
            self.send_text(connection);
        }
    }

    /// Answers [`Event::Text`] with a Reject PDU, for a text with an undefined key or value.
    pub fn refuse_text(&mut self, connection: ConnectionId) {
        if let Some(answer) = at(&mut self.connections, connection).text_answer.take() {
            self.reject_text(connection, answer.request);
        }
    }

    /// Returns true if [`Session::poll_transmit`] has a PDU to send.
    pub fn wants_transmit(&self, connection: ConnectionId) -> bool {
        let connection = self.connection(connection);
        !connection.urgent.is_empty() || !connection.sending.is_empty()
    }

    /// The next PDU to send on a connection: responses and R2Ts first, then payload in the order of its commands.
    pub fn poll_transmit(&mut self, connection: ConnectionId) -> Option<Transmit> {
        let at = at(&mut self.connections, connection);
        if let Some((pdu, data)) = at.urgent.pop() {
            return Some(self.urgent_transmit(connection, pdu, data));
        }
        let key = *at.sending.front()?;
        Some(self.data_in_transmit(key))
    }
}

/// Takes the next target transfer tag.
fn next_tag(next: &mut u32) -> u32 {
    let tag = *next;
    *next = if tag >= RESERVED_TAG - 1 { 0 } else { tag + 1 };
    tag
}
