//! The target's session in the full feature phase, without I/O: one connection or several, error recovery level 0
//! (RFC 7143 sections 4, 7 and 11).
//!
//! Inputs, in this order for each PDU of a connection: [`Session::begin`] when its header has arrived (a SCSI command
//! becomes a task), [`Session::segment`] to learn where its data belongs, [`Session::handle`] when the
//! data has been laid down. Commands, from the serving loop: [`Session::receive`], [`Session::send`],
//! [`Session::answer`] and their like. Outputs: [`Session::poll_event`], after `begin` and after `handle`,
//! and [`Session::poll_transmit`] for each connection: what came on one may give others something to send.
//! SCSI is not executed here, and how wide the command window is, is told from outside.

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

/// What a session tells the serving loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A command's turn has come: decode it and call `receive`, `send`, `send_owned` or `answer`.
    Run(Run),
    /// Data of a task that was on its way when the task's turn came, which nobody could have given its place:
    /// to be laid down now.
    Late {
        /// The task.
        task: TaskId,
        /// The serving loop's name of its payload.
        token: u64,
        /// From the start of the transfer.
        offset_bytes: u32,
        /// The data, no more than is wanted.
        data: Vec<u8>,
    },
    /// All data of a task that the serving loop wanted is there.
    Received {
        /// The task.
        task: TaskId,
        /// The serving loop's name of its payload.
        token: u64,
    },
    /// Data of a task was lost on its way, and what follows of it will be forgotten: let go of its payload and
    /// answer with a protocol service CRC error (RFC 7143 section 11.4.7.2).
    Damaged {
        /// The task.
        task: TaskId,
        /// The serving loop's name of its payload.
        token: u64,
    },
    /// Task management: do it, then call [`Session::answer_manage`].
    Manage {
        /// Where the request came.
        connection: ConnectionId,
        /// Tag of the request.
        itt: u32,
        /// What to do.
        function: Function,
        /// CmdSN of the request: it concerns what this session sent with a smaller one.
        cmd_sn: u32,
    },
    /// Text of the initiator, complete: call [`Session::answer_text`] or [`Session::refuse_text`].
    Text {
        /// Where it came.
        connection: ConnectionId,
        /// The text.
        text: Vec<u8>,
    },
    /// The initiator logs out; the answer is queued. Connections that end close at once, except the one where the
    /// request came: that when the answer is sent.
    Logout {
        /// Where the request came.
        connection: ConnectionId,
        /// The connection that ends, or `None` if all do.
        ends: Option<ConnectionId>,
    },
    /// A request that had waited for its turn breaks the protocol: its connection must be dropped.
    Fault {
        /// Where it came.
        connection: ConnectionId,
        /// What is wrong.
        fault: Fault,
    },
}

impl Event {
    /// The task that it tells of.
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
/// Answers that were made for a connection and wait to be sent, from which on no more requests are read from it.
const MADE_MAX_BYTES: usize = 1 << 20;
/// Immediate commands are outside the window, so they need a bound of their own.
const IMMEDIATE_MAX: usize = 64;
/// Most data kept for commands that arrived ahead of their turn. One connection alone delivers in order, so that what is
/// missing there is not on its way but late by the initiator's own will.
const EARLY_MAX_BYTES: usize = 16 << 20;
const EARLY_ALONE_MAX_BYTES: usize = 64 << 10;

/// A target's session.
#[derive(Debug)]
pub struct Session {
    /// What was agreed for all connections.
    params: Params,
    connections: Vec<Connection>,
    /// There was more than one connection, so that what is missing may still come.
    has_joined: bool,
    has_separate_status: bool,
    last_connection: u32,
    window: TargetWindow,
    tasks: Slab<Task>,
    by_itt: HashMap<u32, usize>,
    /// What arrived ahead of its turn, by CmdSN.
    early: BTreeMap<u32, Early>,
    early_bytes: usize,
    immediate: usize,
    /// Task management requests that are not answered yet, and those that wait for commands before them.
    managed: usize,
    waiting: Vec<Waiting>,
    /// Data that is still on its way for tasks that are gone, by initiator and target task tag.
    forgotten: Forgotten,
    next_ttt: u32,
    events: VecDeque<Event>,
}

#[derive(Debug)]
struct TextAnswer {
    /// The last request: the answer may have its F bit set if that has.
    request: TextRequest,
    ttt: u32,
    rest: Vec<u8>,
}

impl Session {
    /// A session that has just logged in, over a connection that its initiator calls `cid` and that is
    /// [`ConnectionId::LEADING`] here: `exp_cmd_sn` is the next command's number, `stat_sn` the next status number,
    /// `window` the number of commands that may be open at once.
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

    /// Another connection has logged in to this session, with what it agreed for itself.
    pub fn join(&mut self, cid: u16, params: Params, stat_sn: u32) -> ConnectionId {
        self.has_joined = true;
        self.last_connection += 1;
        let id = ConnectionId(self.last_connection);
        self.connections.push(Connection::new(id, cid, params, stat_sn));
        id
    }

    /// A connection is over, and with it its tasks: those to be forgotten, see [`Session::abort`].
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
        // Their tags may be used again on another connection before the serving loop has let go of them.
        for task in &tasks {
            self.by_itt.remove(&self.tasks[task.0 as usize].itt);
        }
        self.connections.retain(|other| other.id != connection);
        tasks
    }

    /// Its connections.
    pub fn connections(&self) -> impl ExactSizeIterator<Item = ConnectionId> {
        self.connections.iter().map(|connection| connection.id)
    }

    /// The connection that the initiator calls so.
    pub fn connection_of(&self, cid: u16) -> Option<ConnectionId> {
        self.connections.iter().find(|connection| connection.cid == cid).map(|connection| connection.id)
    }

    /// All connections that the initiator calls so: those that others have come in place of are there until they leave.
    pub fn connections_of(&self, cid: u16) -> impl Iterator<Item = ConnectionId> {
        self.connections.iter().filter(move |own| own.cid == cid).map(|own| own.id)
    }

    /// Whether no other connection has the CID of this one.
    pub fn is_only_with_its_cid(&self, connection: ConnectionId) -> bool {
        let own = self.connections.iter().find(|own| own.id == connection);
        own.is_some_and(|own| self.connections.iter().filter(|other| other.cid == own.cid).count() == 1)
    }

    /// What was agreed for all its connections, at its first login.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// What is in force on one connection.
    pub fn params_of(&self, connection: ConnectionId) -> &Params {
        &self.connection(connection).params
    }

    /// Its CID.
    pub fn cid_of(&self, connection: ConnectionId) -> u16 {
        self.connection(connection).cid
    }

    /// The numbers of the first and of the last command that may come.
    pub fn window(&self) -> (u32, u32) {
        (self.window.exp_cmd_sn(), self.window.max_cmd_sn())
    }

    /// Commands that may be open at once.
    pub fn command_window(&self) -> u32 {
        self.window.size()
    }

    /// Commands received and not yet answered.
    pub fn open_commands(&self) -> usize {
        self.tasks.len()
    }

    /// Data that is kept for commands that arrived ahead of their turn.
    pub fn early_bytes(&self) -> usize {
        self.early_bytes
    }

    /// Whether so many answers wait to be sent on a connection that no more requests should be read from it: a
    /// peer that asks and never listens must not fill our memory.
    pub fn is_backed_up(&self, connection: ConnectionId) -> bool {
        let connection = self.connection(connection);
        connection.urgent.is_backed_up() || connection.made_bytes >= MADE_MAX_BYTES
    }

    /// Memory of answers that were made for a connection and of text that has come on it.
    pub fn made_bytes(&self, connection: ConnectionId) -> usize {
        let connection = self.connection(connection);
        let rest_bytes = connection.text_answer.as_ref().map_or(0, |answer| answer.rest.len());
        connection.urgent.held_bytes() + connection.made_bytes + connection.text.len() + rest_bytes
    }

    /// Payload that is ready to be sent on a connection and has not been polled.
    pub fn unsent_payload_bytes(&self, connection: ConnectionId) -> u64 {
        self.connection(connection).unsent_bytes
    }

    fn connection(&self, id: ConnectionId) -> &Connection {
        let found = self.connections.iter().find(|connection| connection.id == id);
        let Some(connection) = found else { unreachable!("{id:?} has left the session") };
        connection
    }

    /// The initiator's tag of an open task.
    pub fn tag(&self, task: TaskId) -> Option<u32> {
        self.tasks.get(task.0 as usize).map(|task| task.itt)
    }

    /// Sets how many commands may be open at once; MaxCmdSN never moves back.
    pub fn set_command_window(&mut self, commands: u32) {
        self.window.limit(commands);
    }

    /// Whether the status of a command that reads comes in a SCSI Response behind its data; in the last Data-In
    /// unless told.
    pub fn set_separate_status(&mut self, is_separate: bool) {
        self.has_separate_status = is_separate;
    }

    /// The initiator has declared anew how long a data segment it takes on a connection (RFC 7143 section 13.12).
    pub fn declare_segment(&mut self, connection: ConnectionId, segment_len: u32) {
        at(&mut self.connections, connection).params.peer_max_recv_data_segment_len = segment_len;
    }

    /// Gives memory back that a session without open commands does not need: to be called when nothing has
    /// happened for a while.
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

    /// Takes a header that has just arrived. A SCSI command becomes a task here, and its turn may come at
    /// once: poll events before asking for the segment.
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

    /// Says where the data segment of the PDU belongs that [`Session::begin`] was called with.
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

    /// Takes a PDU whose data segment has been laid down; `header` are its 48 bytes, `collected` its data
    /// segment if [`Session::segment`] asked for it.
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

    /// In place of [`Session::handle`], for a PDU whose data segment does not match its digest: a Reject is
    /// queued (RFC 7143 section 7.8). At error recovery level 0 there is no way to have the data again, so
    /// the connection is to be closed when it is sent.
    pub fn reject_damaged(&mut self, connection: ConnectionId, header: &[u8; 48]) {
        self.reject(connection, header, reject_reason::DATA_DIGEST_ERROR);
    }

    /// The next thing to tell the serving loop.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The task writes `wanted_bytes` (at most what the initiator expected): [`Event::Received`] follows.
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

    /// Data that arrived before the task's turn came, from the start of its transfer.
    pub fn take_early(&mut self, task: TaskId) -> Vec<u8> {
        let early = std::mem::take(&mut self.tasks[task.0 as usize].early);
        self.early_bytes -= early.len();
        early
    }

    /// The task reads `actual_bytes`, which the serving loop names `token`: Data-In PDUs and GOOD follow.
    pub fn send(&mut self, task: TaskId, token: u64, actual_bytes: u32) {
        self.tasks[task.0 as usize].token = token;
        self.begin_sending(task, actual_bytes, None);
    }

    /// Like [`Session::send`] for small data that is handed over.
    pub fn send_owned(&mut self, task: TaskId, data: Vec<u8>) {
        self.begin_sending(task, data.len() as u32, Some(data));
    }

    /// Ends a task with a status. Data still on its way here is taken and forgotten first.
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

    /// Answers [`Event::Text`] with a Reject PDU: there is nothing in it that could be answered.
    pub fn refuse_text(&mut self, connection: ConnectionId) {
        if let Some(answer) = at(&mut self.connections, connection).text_answer.take() {
            self.reject_text(connection, answer.request);
        }
    }

    /// Whether [`Session::poll_transmit`] has something.
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
