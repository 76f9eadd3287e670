//! The initiator's session in the full feature phase, without I/O: one or more connections, error recovery
//! level 0 (RFC 7143 sections 4, 7 and 11).
//!
//! Commands: [`Session::submit`], [`Session::manage`], [`Session::ping`], [`Session::send_text`],
//! [`Session::logout`]. Inputs: [`Session::segment`] when a header has arrived, then [`Session::handle`]
//! when its data segment has been stored. Outputs: [`Session::poll_transmit`],
//! [`Session::poll_event`]. The login comes before and is in the `login` module.
//!
//! CmdSN belongs to the session, StatSN to the connection. A command with all its data and its status belongs to the
//! connection it was sent on, which is the connection with the least outstanding data. Connections are identified by
//! CID, counted from 0; the loss of one ends the session. SCSI is unknown here beyond a status byte, and so is flow
//! policy: the caller submits as many commands as its policy allows.

mod connection;
mod function;
mod receive;
mod task;
mod transmit;

use std::collections::VecDeque;

use slab::Slab;
use wire::iscsi::{LogoutRequest, Lun, NopOut, RESERVED_TAG, TextRequest, logout_reason};

use crate::params::Params;
use crate::window::InitiatorWindow;

use connection::Connection;
use function::Asked;
use task::Task;

pub use function::Function;
pub use task::{Command, Completion, Transfer};

/// Event of a session for its caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A command ended.
    Completed(Completion),
    /// The answer to a ping, or a NOP-In that requests no answer: the target is alive.
    Pong,
    /// Complete text of the target.
    Text(Vec<u8>),
    /// A command that a task management function has ended and that will not be answered any more.
    Aborted {
        /// Token of the command, chosen by the caller.
        token: u64,
        /// The connection of the command itself carried the end, so no PDU of the command can follow. False if another
        /// connection did: PDUs sent before may still be in flight, and would answer a task that is not open.
        is_fenced: bool,
    },
    /// A task management function is answered.
    Managed {
        /// The function, as requested.
        function: Function,
        /// One of [`wire::iscsi::task_response`].
        response: u8,
    },
    /// The target requests a logout (RFC 7143 section 11.9.1, event 1), or a negotiation, for which a new login serves
    /// as well (event 4).
    LogoutRequested {
        /// Time until the logout is due, in seconds.
        within_s: u16,
    },
    /// The target is about to drop a connection, or all of them (events 2 and 3).
    Dropping {
        /// The connection; `None` for all.
        cid: Option<u16>,
        /// Seconds to wait before another login.
        time2wait_s: u16,
    },
    /// A vendor-specific message (AsyncEvent 255).
    Vendor {
        /// The connection of the message.
        cid: u16,
        /// AsyncVCode.
        code: u8,
        /// Data of the message, without sense data.
        data: Vec<u8>,
    },
    /// The logout is answered: the connections may be closed.
    LoggedOut {
        /// Seconds to wait before another login.
        time2wait_s: u16,
    },
    /// The target rejected a PDU of the initiator.
    Rejected {
        /// Reason code (RFC 7143 section 11.17.1).
        reason: u8,
        /// The task of the PDU, if the task is still open.
        token: Option<u64>,
    },
}

/// Most commands that may be submitted and not completed; tags have sixteen bits for the slot.
pub const TASKS_MAX: usize = (1 << 16) - 1;
/// Longest text accepted from a target.
const TEXT_MAX_BYTES: usize = 1 << 20;

/// Least weight of a command in the choice of the least loaded connection.
const COMMAND_WEIGHT_BYTES: u64 = 512;

/// An initiator's session.
#[derive(Debug)]
pub struct Session {
    params: Params,
    window: InitiatorWindow,
    connections: Vec<Connection>,
    tasks: Slab<Task>,
    uses: u16,
    services: u16,
    /// Commands without a connection yet: with several connections, each is chosen when the window admits the command.
    waiting_reads: VecDeque<usize>,
    waiting_writes: VecDeque<usize>,
    /// Commands with a connection that are not sent yet.
    assigned: u32,
    asked: Vec<Asked>,
    text: Vec<u8>,
    /// Tag of the text request whose answer is incomplete.
    text_itt: Option<u32>,
    /// No more commands are sent.
    is_leaving: bool,
    events: VecDeque<Event>,
}

impl Session {
    /// A session whose leading connection, CID 0, has just logged in. `cmd_sn` is the CmdSN of the first command,
    /// `exp_stat_sn` the StatSN that follows the last login response; `max_cmd_sn` is from that response.
    pub fn new(params: Params, cmd_sn: u32, max_cmd_sn: u32, exp_stat_sn: u32) -> Session {
        let connections = vec![Connection::new(&params, exp_stat_sn)];
        Session {
            params,
            window: InitiatorWindow::new(cmd_sn, max_cmd_sn),
            connections,
            tasks: Slab::new(),
            uses: 0,
            services: 0,
            waiting_reads: VecDeque::new(),
            waiting_writes: VecDeque::new(),
            assigned: 0,
            asked: Vec::new(),
            text: Vec::new(),
            text_itt: None,
            is_leaving: false,
            events: VecDeque::new(),
        }
    }

    /// Adds a connection that has just logged in with the CID [`Session::next_cid`]. Only the connection keys of
    /// `params` count; the session keys are those of the leading connection.
    pub fn join(&mut self, params: &Params, exp_stat_sn: u32, exp_cmd_sn: u32, max_cmd_sn: u32) {
        self.window.update(exp_cmd_sn, max_cmd_sn);
        self.connections.push(Connection::new(params, exp_stat_sn));
    }

    /// CID for the login of the next connection.
    pub fn next_cid(&self) -> u16 {
        self.connections.len() as u16
    }

    /// CmdSN of the next command, which the login of another connection carries.
    pub fn cmd_sn(&self) -> u32 {
        self.window.peek()
    }

    /// Parameters negotiated at the login of the leading connection.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Commands submitted and not yet completed.
    pub fn open_commands(&self) -> usize {
        self.tasks.len()
    }

    /// Returns true if a command has been sent and is not answered.
    pub fn awaits_answers(&self) -> bool {
        self.tasks.iter().any(|(_, task)| task.is_sent)
    }

    /// The connection of a command, by its tag; `None` before one is assigned.
    pub fn connection_of(&self, itt: u32) -> Option<u16> {
        let task = self.tasks.get((itt & 0xffff) as usize);
        task.filter(|task| task.itt == itt && task.is_assigned).map(|task| task.cid)
    }

    /// Returns true if the queued answers of a connection reach the limit at which no more is read from it.
    pub fn is_backed_up(&self, cid: u16) -> bool {
        self.connection(cid).urgent.is_backed_up()
    }

    /// Payload of writes on a connection that has not been polled, in bytes.
    pub fn unsent_payload_bytes(&self, cid: u16) -> u64 {
        self.connection(cid).unsent_bytes
    }

    /// Returns true if another command can be submitted.
    pub fn has_room(&self) -> bool {
        self.tasks.len() < TASKS_MAX
    }

    /// Commands that the command window admits now.
    pub fn command_room(&self) -> u32 {
        self.window.room()
    }

    /// Widest command window seen so far, in commands.
    pub fn command_window(&self) -> u32 {
        self.window.widest()
    }

    /// Queues a command; it is sent when the command window allows. Returns its tag.
    ///
    /// # Panics
    /// If [`Session::has_room`] is false.
    pub fn submit(&mut self, command: Command) -> u32 {
        assert!(self.has_room(), "more than {TASKS_MAX} commands submitted");
        let slot = self.tasks.vacant_entry();
        let key = slot.key();
        // A tag holds the slot and a use count, so that a late PDU of the slot's former task differs from one of the
        // present task. 0xffff in both halves would be the reserved tag.
        self.uses = if self.uses >= 0xfffe { 0 } else { self.uses + 1 };
        let itt = u32::from(self.uses) << 16 | key as u32;
        slot.insert(Task::new(command, itt));
        if self.connections.len() == 1 {
            self.assign(key, 0);
            return itt;
        }
        match command.transfer {
            Transfer::Out(_) => self.waiting_writes.push_back(key),
            Transfer::None | Transfer::In(_) => self.waiting_reads.push_back(key),
        }
        self.distribute();
        itt
    }

    /// Assigns connections to waiting commands, as far as the window reaches: an assigned command can be sent, so later
    /// commands on other connections cannot overtake it for want of window.
    fn distribute(&mut self) {
        while self.window.room() > self.assigned {
            let waiting = self.waiting_reads.pop_front().or_else(|| self.waiting_writes.pop_front());
            let Some(key) = waiting else { return };
            let loads = self.connections.iter().map(|connection| connection.outstanding_bytes);
            let least = loads.enumerate().min_by_key(|(_, bytes)| *bytes);
            self.assign(key, least.map_or(0, |(cid, _)| cid as u16));
        }
    }

    fn assign(&mut self, key: usize, cid: u16) {
        let task = &mut self.tasks[key];
        task.cid = cid;
        task.is_assigned = true;
        self.assigned += 1;
        let connection = &mut self.connections[usize::from(cid)];
        connection.outstanding_bytes += weight(task);
        match task.command.transfer {
            Transfer::Out(len) => {
                connection.unsent_bytes += u64::from(len);
                connection.writes.push_back(key);
            }
            Transfer::None | Transfer::In(_) => connection.reads.push_back(key),
        }
    }

    /// Removes a task from all tables and queues.
    fn remove(&mut self, key: usize) -> Task {
        let task = self.tasks.remove(key);
        let is_it = |other: &usize| *other == key;
        if !task.is_assigned {
            self.waiting_reads.retain(|other| !is_it(other));
            self.waiting_writes.retain(|other| !is_it(other));
            return task;
        }
        let connection = &mut self.connections[usize::from(task.cid)];
        connection.outstanding_bytes -= weight(&task);
        // A target may end a write before it has all data: the queued rest is not sent.
        if task.bursts > 0 {
            connection.bursts.retain(|(other, _)| !is_it(other));
        }
        if let Transfer::Out(len) = task.command.transfer {
            connection.unsent_bytes -= u64::from(len - task.sent_bytes);
        }
        if !task.is_sent {
            self.assigned -= 1;
            connection.reads.retain(|other| !is_it(other));
            connection.writes.retain(|other| !is_it(other));
        }
        task
    }

    /// Sends a ping (NOP-Out, immediate) on one connection.
    pub fn ping(&mut self, cid: u16) {
        let nop = NopOut {
            immediate: true,
            data_segment_len: 0,
            lun: Lun(0),
            itt: self.service_tag(0),
            ttt: RESERVED_TAG,
            cmd_sn: 0,
            exp_stat_sn: 0,
        };
        self.connections[usize::from(cid)].urgent.push(nop, Vec::new());
    }

    /// Sends text (key=value pairs, RFC 7143 section 11.10); the answer comes as [`Event::Text`].
    pub fn send_text(&mut self, text: Vec<u8>) {
        self.text.clear();
        let itt = self.service_tag(0x2000);
        self.text_itt = Some(itt);
        self.text_request(text, Lun(0), itt, RESERVED_TAG);
    }

    fn text_request(&mut self, text: Vec<u8>, lun: Lun, itt: u32, ttt: u32) {
        let request = TextRequest {
            immediate: true,
            is_final: true,
            is_continued: false,
            data_segment_len: text.len() as u32,
            lun,
            itt,
            ttt,
            cmd_sn: 0,
            exp_stat_sn: 0,
        };
        self.connections[0].urgent.push(request, text);
    }

    /// Stops sending commands; commands already sent continue.
    pub fn send_no_more(&mut self) {
        self.is_leaving = true;
    }

    /// Closes the session with all its connections; [`Event::LoggedOut`] follows. No command is sent after that (RFC 7143
    /// section 11.14).
    pub fn logout(&mut self) {
        self.send_no_more();
        let logout = LogoutRequest {
            immediate: true,
            reason: logout_reason::CLOSE_SESSION,
            itt: 0x1000_ffff,
            cid: 0,
            cmd_sn: 0,
            exp_stat_sn: 0,
        };
        self.connections[0].urgent.push(logout, Vec::new());
    }

    /// Takes the next event for the caller.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// A tag for a request other than a command, from a slot that no command has.
    fn service_tag(&mut self, kind: u16) -> u32 {
        self.services = (self.services + 1) & 0xfff;
        u32::from(kind | self.services) << 16 | 0xffff
    }

    fn connection(&self, cid: u16) -> &Connection {
        &self.connections[usize::from(cid)]
    }
}

fn weight(task: &Task) -> u64 {
    u64::from(task.expected_bytes()).max(COMMAND_WEIGHT_BYTES)
}
