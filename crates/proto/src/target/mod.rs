//! The target's session in the full feature phase, without I/O: one connection, error recovery level 0
//! (RFC 7143 sections 4, 7 and 11).
//!
//! Inputs, in this order for each PDU: [`Session::begin`] when its header has arrived (a SCSI command
//! becomes a task), [`Session::segment`] to learn where its data belongs, [`Session::handle`] when the
//! data has been laid down. Commands, from the serving loop: [`Session::receive`], [`Session::send`],
//! [`Session::answer`] and their like. Outputs: [`Session::poll_event`], after `begin` and after `handle`,
//! and [`Session::poll_transmit`].
//! SCSI is not executed here, and how wide the command window is, is told from outside.

mod answer;
mod command;
mod data_out;
mod manage;
mod notice;
mod request;
mod task;

use std::collections::{BTreeMap, HashMap, VecDeque};

use slab::Slab;
use wire::iscsi::{Pdu, RESERVED_TAG, reject_reason};

use crate::fault::{Fault, Segment, Transmit};
use crate::outbox::Outbox;
use crate::params::Params;
use crate::window::TargetWindow;

pub use manage::Function;
pub use task::{Answer, Run, TaskId};
use task::{Early, Stage, Task};

/// What a session tells the serving loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A command's turn has come: decode it and call `receive`, `send`, `send_owned` or `answer`.
    Run(Run),
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
        /// Tag of the request.
        itt: u32,
        /// What to do.
        function: Function,
    },
    /// Text of the initiator, complete: call [`Session::answer_text`].
    Text(Vec<u8>),
    /// The initiator logs out; the answer is queued, and the connection closes when it is sent.
    Logout,
}

/// Longest text an initiator may send in one request sequence.
const TEXT_MAX_BYTES: usize = 64 << 10;
/// Immediate commands are outside the window, so they need a bound of their own.
const IMMEDIATE_MAX: usize = 64;
/// Most data kept for commands that arrived ahead of their turn.
const EARLY_MAX_BYTES: usize = 16 << 20;

/// A target's session.
#[derive(Debug)]
pub struct Session {
    params: Params,
    window: TargetWindow,
    stat_sn: u32,
    tasks: Slab<Task>,
    by_itt: HashMap<u32, usize>,
    /// Tasks that arrived ahead of their turn, by CmdSN.
    early: BTreeMap<u32, Early>,
    early_bytes: usize,
    /// What became of the command whose PDU is being received.
    current: Current,
    immediate: usize,
    /// Task management requests that are not answered yet.
    managed: usize,
    /// Data that is still on its way for tasks that are gone, by initiator and target task tag.
    forgotten: VecDeque<(u32, u32)>,
    next_ttt: u32,
    urgent: Outbox,
    sending: VecDeque<usize>,
    unsent_bytes: u64,
    text: Vec<u8>,
    text_answer: Option<TextAnswer>,
    events: VecDeque<Event>,
    logged_out: bool,
}

#[derive(Clone, Copy, Debug)]
enum Current {
    /// It is outside the window, or no command.
    Ignored,
    /// It cannot be taken: Reject with this reason.
    Refused(u8),
    /// It became this task.
    Task(usize),
}

#[derive(Debug)]
struct TextAnswer {
    itt: u32,
    ttt: u32,
    rest: Vec<u8>,
    /// The request had its F bit set, so the answer may.
    ends: bool,
}

impl Session {
    /// A session that has just logged in: `exp_cmd_sn` is the next command's number, `stat_sn` the next
    /// status number, `window` the number of commands that may be open at once.
    pub fn new(params: Params, exp_cmd_sn: u32, stat_sn: u32, window: u32) -> Session {
        Session {
            params,
            window: TargetWindow::new(exp_cmd_sn, window),
            stat_sn,
            tasks: Slab::new(),
            by_itt: HashMap::new(),
            early: BTreeMap::new(),
            early_bytes: 0,
            current: Current::Ignored,
            immediate: 0,
            managed: 0,
            forgotten: VecDeque::new(),
            next_ttt: 0,
            urgent: Outbox::default(),
            sending: VecDeque::new(),
            unsent_bytes: 0,
            text: Vec::new(),
            text_answer: None,
            events: VecDeque::new(),
            logged_out: false,
        }
    }

    /// What was agreed at login.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Commands received and not yet answered.
    pub fn open_commands(&self) -> usize {
        self.tasks.len()
    }

    /// Whether so many answers wait to be sent that no more requests should be read: a peer that asks and
    /// never listens must not fill our memory.
    pub fn is_backed_up(&self) -> bool {
        self.urgent.is_backed_up()
    }

    /// Payload that is ready to be sent and has not been polled.
    pub fn unsent_payload_bytes(&self) -> u64 {
        self.unsent_bytes
    }

    /// Sets how many commands may be open at once; MaxCmdSN never moves back.
    pub fn set_command_window(&mut self, commands: u32) {
        self.window.limit(commands);
    }

    /// Gives memory back that a session without open commands does not need: to be called when nothing has
    /// happened for a while.
    pub fn rest(&mut self) {
        if self.tasks.is_empty() {
            self.tasks.shrink_to_fit();
            self.by_itt.shrink_to_fit();
            self.sending.shrink_to_fit();
            self.events.shrink_to_fit();
            self.urgent.shrink();
        }
    }

    /// Takes a header that has just arrived. A SCSI command becomes a task here, and its turn may come at
    /// once: poll events before asking for the segment.
    pub fn begin(&mut self, pdu: &Pdu) -> Result<(), Fault> {
        let (found_bytes, limit_bytes) = (pdu.data_segment_len(), self.params.our_max_recv_data_segment_len);
        if found_bytes > limit_bytes {
            return Err(Fault::SegmentTooLong { found_bytes, limit_bytes });
        }
        if self.logged_out {
            return Err(Fault::Unexpected { found: pdu.opcode() });
        }
        self.current = Current::Ignored;
        match pdu {
            Pdu::ScsiCommand(command) => self.begin_command(command),
            _ => Ok(()),
        }
    }

    /// Says where the data segment of the PDU belongs that [`Session::begin`] was called with.
    pub fn segment(&self, pdu: &Pdu) -> Segment {
        let len = pdu.data_segment_len();
        let (key, offset_bytes) = match pdu {
            _ if len == 0 => return Segment::Discard,
            Pdu::ScsiCommand(_) => match self.current {
                Current::Task(key) => (key, 0),
                Current::Ignored | Current::Refused(_) => return Segment::Discard,
            },
            Pdu::DataOut(data) => match self.burst_of(data) {
                Ok((key, index)) if self.shows_loss(key, index, data) => return Segment::Discard,
                Ok((key, _)) => (key, data.buffer_offset),
                Err(_) => return Segment::Discard,
            },
            _ => return Segment::Collect,
        };
        let task = &self.tasks[key];
        match task.stage {
            _ if task.is_damaged => Segment::Discard,
            Stage::Early { .. } => Segment::Collect,
            Stage::Receiving { wanted_bytes, .. } if offset_bytes < wanted_bytes => {
                let len_bytes = len.min(wanted_bytes - offset_bytes);
                Segment::Payload { token: task.token, offset_bytes, len_bytes }
            }
            _ => Segment::Discard,
        }
    }

    /// Takes a PDU whose data segment has been laid down; `header` are its 48 bytes, `collected` its data
    /// segment if [`Session::segment`] asked for it.
    pub fn handle(&mut self, pdu: &Pdu, header: &[u8; 48], collected: &[u8]) -> Result<(), Fault> {
        match pdu {
            Pdu::ScsiCommand(command) => self.finish_command(command, header, collected)?,
            Pdu::DataOut(data) => self.handle_data_out(data, header, collected)?,
            Pdu::NopOut(nop) if nop.itt == RESERVED_TAG => {} // The answer to a ping of ours.
            Pdu::NopOut(nop) => {
                if self.consume(nop.immediate, nop.cmd_sn, nop.itt)? {
                    self.handle_nop_out(nop, collected);
                }
            }
            Pdu::TextRequest(text) => {
                if self.consume(text.immediate, text.cmd_sn, text.itt)? {
                    self.handle_text(text, collected)?;
                }
            }
            Pdu::TaskManagementRequest(request) => {
                if self.consume(request.immediate, request.cmd_sn, request.itt)? {
                    self.manage(request);
                }
            }
            Pdu::LogoutRequest(logout) => {
                if self.consume(logout.immediate, logout.cmd_sn, logout.itt)? {
                    self.handle_logout(logout);
                }
            }
            Pdu::SnackRequest(_) => self.reject(header, reject_reason::SNACK_REJECT),
            other => return Err(Fault::Unexpected { found: other.opcode() }),
        }
        Ok(())
    }

    /// In place of [`Session::handle`], for a PDU whose data segment does not match its digest: a Reject is
    /// queued (RFC 7143 section 7.8). At error recovery level 0 there is no way to have the data again, so
    /// the connection is to be closed when it is sent.
    pub fn reject_damaged(&mut self, header: &[u8; 48]) {
        self.reject(header, reject_reason::DATA_DIGEST_ERROR);
    }

    /// The next thing to tell the serving loop.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The task writes `wanted_bytes` (at most what the initiator expected): [`Event::Received`] follows.
    /// `token` names the payload in [`Segment`] and [`Data`].
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
        if self.logged_out {
            return;
        }
        let key = task.0 as usize;
        let task = &mut self.tasks[key];
        let outstanding = task.bursts.iter().any(|burst| burst.next_bytes < burst.end_bytes);
        if outstanding {
            task.stage = Stage::Draining(answer);
        } else {
            self.respond(key, &answer);
        }
    }

    /// Answers [`Event::Text`].
    pub fn answer_text(&mut self, text: Vec<u8>) {
        if let Some(answer) = &mut self.text_answer {
            answer.rest = text;
            self.send_text();
        }
    }

    /// Whether [`Session::poll_transmit`] has something.
    pub fn wants_transmit(&self) -> bool {
        !self.urgent.is_empty() || !self.sending.is_empty()
    }

    /// The next PDU to send: responses and R2Ts first, then payload in the order of its commands.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        if let Some((pdu, data)) = self.urgent.pop() {
            return Some(self.urgent_transmit(pdu, data));
        }
        let key = *self.sending.front()?;
        Some(self.data_in_transmit(key))
    }
}

/// Takes the next target transfer tag.
fn next_tag(next: &mut u32) -> u32 {
    let tag = *next;
    *next = if tag >= RESERVED_TAG - 1 { 0 } else { tag + 1 };
    tag
}
