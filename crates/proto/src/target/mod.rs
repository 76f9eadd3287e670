//! The target's session in the full feature phase, without I/O: one connection, error recovery level 0
//! (RFC 7143 sections 4, 7 and 11).
//!
//! Inputs, in this order for each PDU: [`Session::begin`] when its header has arrived (a SCSI command
//! becomes a task), [`Session::segment`] to learn where its data belongs, [`Session::handle`] when the
//! data has been laid down. Commands, from the serving loop: [`Session::receive`], [`Session::send`],
//! [`Session::answer`] and their like. Outputs: [`Session::poll_event`], after `begin` and after `handle`,
//! and [`Session::poll_transmit`].
//! SCSI is not executed here, and how wide the command window is, is told from outside.

mod task;

use std::collections::{BTreeMap, HashMap, VecDeque};

use slab::Slab;
use wire::iscsi::{
    AsyncMessage, DataIn, DataOut, LogoutResponse, Lun, NopIn, NopOut, Pdu, R2t, RESERVED_TAG, Reject,
    ScsiCommand, ScsiResponse, TaskManagementResponse, TextRequest, TextResponse, async_event, put_sense,
    reject_reason, task_response,
};

use crate::fault::{Data, Fault, Segment, Transmit};
use crate::header::{emit, set_numbers};
use crate::params::Params;
use crate::window::{Admit, TargetWindow};

pub use task::{Answer, Run, TaskId};
use task::{Burst, Sending, Stage, Task};

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
    early: BTreeMap<u32, usize>,
    early_bytes: usize,
    /// The task whose command PDU is being received.
    current: Option<usize>,
    immediate: usize,
    next_ttt: u32,
    urgent: VecDeque<(Pdu, Vec<u8>)>,
    sending: VecDeque<usize>,
    unsent_bytes: u64,
    text: Vec<u8>,
    text_answer: Option<TextAnswer>,
    events: VecDeque<Event>,
    logged_out: bool,
}

#[derive(Debug)]
struct TextAnswer {
    itt: u32,
    ttt: u32,
    rest: Vec<u8>,
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
            current: None,
            immediate: 0,
            next_ttt: 0,
            urgent: VecDeque::new(),
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

    /// Payload that is ready to be sent and has not been polled.
    pub fn unsent_payload_bytes(&self) -> u64 {
        self.unsent_bytes
    }

    /// Sets how many commands may be open at once; MaxCmdSN never moves back.
    pub fn set_command_window(&mut self, commands: u32) {
        self.window.limit(commands);
    }

    /// Takes a header that has just arrived. A SCSI command becomes a task here, and its turn may come at
    /// once: poll events before asking for the segment.
    pub fn begin(&mut self, pdu: &Pdu) -> Result<(), Fault> {
        let (found_bytes, limit_bytes) = (pdu.data_segment_len(), self.params.our_max_recv_data_segment_len);
        if found_bytes > limit_bytes {
            return Err(Fault::SegmentTooLong { found_bytes, limit_bytes });
        }
        self.current = None;
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
                Some(key) => (key, 0),
                None => return Segment::Discard,
            },
            Pdu::DataOut(data) => match self.burst_of(data) {
                Ok((key, _)) => (key, data.buffer_offset),
                Err(_) => return Segment::Discard,
            },
            _ => return Segment::Collect,
        };
        let task = &self.tasks[key];
        match task.stage {
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
    pub fn handle(&mut self, pdu: &Pdu, header: &[u8; 48], collected: &[u8]) -> Result<(), Fault> {
        match pdu {
            Pdu::ScsiCommand(command) => self.finish_command(command, collected)?,
            Pdu::DataOut(data) => self.handle_data_out(data, header, collected)?,
            Pdu::NopOut(nop) => self.handle_nop_out(nop, collected),
            Pdu::TextRequest(text) => self.handle_text(text, collected)?,
            Pdu::TaskManagementRequest(request) => {
                self.consume(request.immediate, request.cmd_sn);
                let response = TaskManagementResponse {
                    response: task_response::NOT_SUPPORTED,
                    itt: request.itt,
                    stat_sn: 0,
                    exp_cmd_sn: 0,
                    max_cmd_sn: 0,
                };
                self.urgent.push_back((response.into(), Vec::new()));
            }
            Pdu::LogoutRequest(logout) => {
                self.consume(logout.immediate, logout.cmd_sn);
                let response = LogoutResponse {
                    response: 0,
                    itt: logout.itt,
                    stat_sn: 0,
                    exp_cmd_sn: 0,
                    max_cmd_sn: 0,
                    time2wait: self.params.default_time2wait_s,
                    time2retain: self.params.default_time2retain_s,
                };
                self.urgent.push_back((response.into(), Vec::new()));
                self.logged_out = true;
                self.events.push_back(Event::Logout);
            }
            Pdu::SnackRequest(_) => self.reject(header, reject_reason::SNACK_REJECT),
            other => return Err(Fault::Unexpected { found: other.opcode() }),
        }
        Ok(())
    }

    /// The next thing to tell the serving loop.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether the initiator has logged out and everything it is owed has been sent.
    pub fn is_finished(&self) -> bool {
        self.logged_out && self.urgent.is_empty()
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

    /// Sends an Async Message of the vendor's own (AsyncEvent 255, RFC 7143 section 11.9).
    pub fn notify(&mut self, vendor_code: u8, data: &[u8]) {
        let no_sense = [0, 0];
        let segment = [&no_sense, data].concat();
        let message = AsyncMessage {
            event: async_event::VENDOR,
            vendor_code,
            data_segment_len: segment.len() as u32,
            lun: Lun(0),
            stat_sn: 0,
            exp_cmd_sn: 0,
            max_cmd_sn: 0,
            parameter1: 0,
            parameter2: 0,
            parameter3: 0,
        };
        self.urgent.push_back((message.into(), segment));
    }

    /// Whether [`Session::poll_transmit`] has something.
    pub fn wants_transmit(&self) -> bool {
        !self.urgent.is_empty() || !self.sending.is_empty()
    }

    /// The next PDU to send: responses and R2Ts first, then payload in the order of its commands.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        if let Some((pdu, data)) = self.urgent.pop_front() {
            return Some(self.urgent_transmit(pdu, data));
        }
        let key = *self.sending.front()?;
        Some(self.data_in_transmit(key))
    }

    fn begin_command(&mut self, command: &ScsiCommand) -> Result<(), Fault> {
        let itt = command.itt;
        let admit = match command.immediate {
            true if self.immediate >= IMMEDIATE_MAX => Admit::Outside,
            true => Admit::Next,
            false => self.window.admit(command.cmd_sn),
        };
        if admit == Admit::Outside {
            return Ok(());
        }
        if self.by_itt.contains_key(&itt) || itt == RESERVED_TAG {
            return Err(Fault::contradiction("the task tag is already in use", itt));
        }
        let expected_bytes = command.expected_data_transfer_len;
        let bursts = self.unsolicited(command)?;
        let is_early = admit == Admit::Early;
        let key = self.tasks.insert(Task {
            itt,
            lun: command.lun,
            cdb: command.cdb,
            attribute: command.attribute,
            read: command.read,
            write: command.write,
            expected_bytes,
            token: 0,
            counted: !command.immediate,
            stage: if is_early { Stage::Early } else { Stage::Running },
            bursts,
            next_r2t_sn: 0,
            early: Vec::new(),
        });
        self.current = Some(key);
        self.by_itt.insert(itt, key);
        if is_early {
            self.early.insert(command.cmd_sn, key);
        } else {
            if command.immediate {
                self.immediate += 1;
            } else {
                self.window.take(true);
            }
            self.run(key);
            self.run_early();
        }
        Ok(())
    }

    /// What the initiator sends unasked with a command (RFC 7143 sections 4.2.5.2, 13.10, 13.11, 13.14).
    fn unsolicited(&self, command: &ScsiCommand) -> Result<VecDeque<Burst>, Fault> {
        let wrong = |what| Err(Fault::contradiction(what, command.itt));
        let immediate = command.data_segment_len;
        let most = command.expected_data_transfer_len.min(self.params.first_burst_len);
        if immediate > 0 && !command.write {
            return wrong("data with a command that writes nothing");
        }
        if immediate > 0 && !self.params.immediate_data {
            return wrong("immediate data, though ImmediateData=No was agreed");
        }
        if immediate > most {
            return wrong("more immediate data than FirstBurstLength or the expected length");
        }
        if !command.is_final && (!command.write || self.params.initial_r2t) {
            return wrong("unsolicited data announced, though InitialR2T=Yes was agreed or nothing is written");
        }
        let end_bytes = if command.is_final { immediate } else { most };
        let mut bursts = VecDeque::new();
        if end_bytes > 0 {
            bursts.push_back(Burst { ttt: RESERVED_TAG, next_bytes: 0, end_bytes, next_data_sn: 0 });
        }
        Ok(bursts)
    }

    fn run(&mut self, key: usize) {
        let task = &mut self.tasks[key];
        task.stage = Stage::Running;
        let run = Run {
            task: TaskId(key as u32),
            lun: task.lun,
            cdb: task.cdb,
            attribute: task.attribute,
            read: task.read,
            write: task.write,
            expected_bytes: task.expected_bytes,
        };
        self.events.push_back(Event::Run(run));
    }

    fn run_early(&mut self) {
        while let Some(key) = self.early.remove(&self.window.exp_cmd_sn()) {
            self.window.take(true);
            self.run(key);
        }
    }

    /// Takes the number of a non-immediate request that is not a SCSI command.
    fn consume(&mut self, immediate: bool, cmd_sn: u32) {
        if !immediate && self.window.admit(cmd_sn) == Admit::Next {
            self.window.take(false);
            self.run_early();
        }
    }

    fn finish_command(&mut self, command: &ScsiCommand, collected: &[u8]) -> Result<(), Fault> {
        let (Some(key), 1..) = (self.current.take(), command.data_segment_len) else { return Ok(()) };
        self.keep_early(key, collected)?;
        if let Some(burst) = self.tasks[key].bursts.front_mut() {
            burst.next_bytes = command.data_segment_len;
            self.progress(key);
        }
        Ok(())
    }

    fn keep_early(&mut self, key: usize, collected: &[u8]) -> Result<(), Fault> {
        let task = &mut self.tasks[key];
        if matches!(task.stage, Stage::Early) {
            self.early_bytes += collected.len();
            task.early.extend_from_slice(collected);
            if self.early_bytes > EARLY_MAX_BYTES {
                return Err(Fault::contradiction("too much data of commands sent out of order", task.itt));
            }
        }
        Ok(())
    }

    fn burst_of(&self, data: &DataOut) -> Result<(usize, usize), u8> {
        let key = *self.by_itt.get(&data.itt).ok_or(reject_reason::INVALID_PDU_FIELD)?;
        let bursts = &self.tasks[key].bursts;
        let index = bursts.iter().position(|burst| burst.ttt == data.ttt);
        let index = index.ok_or(reject_reason::INVALID_PDU_FIELD)?;
        let burst = &bursts[index];
        let end = u64::from(data.buffer_offset) + u64::from(data.data_segment_len);
        let in_order = data.buffer_offset == burst.next_bytes && data.data_sn == burst.next_data_sn;
        let complete = !data.is_final || burst.ttt == RESERVED_TAG || end == u64::from(burst.end_bytes);
        if in_order && complete && end <= u64::from(burst.end_bytes) {
            Ok((key, index))
        } else {
            Err(reject_reason::PROTOCOL_ERROR)
        }
    }

    fn handle_data_out(
        &mut self,
        data: &DataOut,
        header: &[u8; 48],
        collected: &[u8],
    ) -> Result<(), Fault> {
        let (key, index) = match self.burst_of(data) {
            Ok(found) => found,
            Err(reason) => {
                self.reject(header, reason);
                return Ok(());
            }
        };
        self.keep_early(key, collected)?;
        let burst = &mut self.tasks[key].bursts[index];
        burst.next_bytes += data.data_segment_len;
        burst.next_data_sn = burst.next_data_sn.wrapping_add(1);
        if data.is_final {
            // An unsolicited burst may end early; what is missing is sent for.
            burst.end_bytes = burst.next_bytes;
        }
        self.progress(key);
        Ok(())
    }

    /// Goes on with a task after data has arrived: sends for more, or says that all is there.
    fn progress(&mut self, key: usize) {
        let task = &mut self.tasks[key];
        let mut arrived = None;
        while task.bursts.front().is_some_and(|burst| burst.next_bytes == burst.end_bytes) {
            if matches!(task.stage, Stage::Early | Stage::Running) {
                return; // Kept, so that `receive` knows how much has arrived.
            }
            arrived = task.bursts.pop_front().map(|burst| (burst.ttt, burst.end_bytes));
        }
        match &mut task.stage {
            Stage::Receiving { wanted_bytes, asked_bytes } => {
                if let Some((RESERVED_TAG, end)) = arrived {
                    *asked_bytes = end;
                }
                if task.bursts.is_empty() && *asked_bytes >= *wanted_bytes {
                    task.stage = Stage::Running;
                    self.events.push_back(Event::Received { task: TaskId(key as u32), token: task.token });
                } else {
                    self.solicit(key);
                }
            }
            Stage::Draining(answer) if task.bursts.is_empty() => {
                let answer = answer.clone();
                self.respond(key, &answer);
            }
            _ => {}
        }
    }

    /// Sends for what is missing, with as many R2Ts as may be outstanding.
    fn solicit(&mut self, key: usize) {
        let task = &mut self.tasks[key];
        let Stage::Receiving { wanted_bytes, asked_bytes } = &mut task.stage else { return };
        // The unsolicited burst comes first: until it ends nobody knows how much of it there is.
        let is_unsolicited = |burst: &Burst| burst.ttt == RESERVED_TAG && burst.next_bytes < burst.end_bytes;
        if task.bursts.iter().any(is_unsolicited) {
            return;
        }
        task.bursts.retain(|burst| burst.next_bytes < burst.end_bytes);
        while *asked_bytes < *wanted_bytes
            && task.bursts.len() < usize::from(self.params.max_outstanding_r2t.max(1))
        {
            let desired_len = (*wanted_bytes - *asked_bytes).min(self.params.max_burst_len);
            let ttt = self.next_ttt;
            self.next_ttt = if ttt >= RESERVED_TAG - 1 { 0 } else { ttt + 1 };
            let r2t = R2t {
                lun: task.lun,
                itt: task.itt,
                ttt,
                stat_sn: 0,
                exp_cmd_sn: 0,
                max_cmd_sn: 0,
                r2t_sn: task.next_r2t_sn,
                buffer_offset: *asked_bytes,
                desired_len,
            };
            let end_bytes = *asked_bytes + desired_len;
            task.bursts.push_back(Burst { ttt, next_bytes: *asked_bytes, end_bytes, next_data_sn: 0 });
            task.next_r2t_sn = task.next_r2t_sn.wrapping_add(1);
            *asked_bytes = end_bytes;
            self.urgent.push_back((r2t.into(), Vec::new()));
        }
        if task.bursts.is_empty() {
            task.stage = Stage::Running;
            self.events.push_back(Event::Received { task: TaskId(key as u32), token: task.token });
        }
    }

    fn begin_sending(&mut self, id: TaskId, actual_bytes: u32, owned: Option<Vec<u8>>) {
        let key = id.0 as usize;
        let task = &mut self.tasks[key];
        let end_bytes = if task.read { actual_bytes.min(task.expected_bytes) } else { 0 };
        let draining = task.bursts.iter().any(|burst| burst.next_bytes < burst.end_bytes);
        if end_bytes == 0 || draining {
            self.answer(id, Answer { status: 0, sense: Vec::new(), actual_bytes });
            return;
        }
        task.stage =
            Stage::Sending(Sending { next_bytes: 0, end_bytes, actual_bytes, next_data_sn: 0, owned });
        self.sending.push_back(key);
        self.unsent_bytes += u64::from(end_bytes);
    }

    fn data_in_transmit(&mut self, key: usize) -> Transmit {
        let task = &mut self.tasks[key];
        let Stage::Sending(sending) = &mut task.stage else {
            unreachable!("only tasks that send are queued for sending");
        };
        let offset = sending.next_bytes;
        // A sequence is at most MaxBurstLength long and ends with the F bit (RFC 7143 section 11.7.1).
        let burst_left = self.params.max_burst_len - offset % self.params.max_burst_len;
        let left = sending.end_bytes - offset;
        let len = left.min(self.params.peer_max_recv_data_segment_len).min(burst_left);
        let is_last = len == left;
        let data_sn = sending.next_data_sn;
        sending.next_bytes += len;
        sending.next_data_sn += 1;
        self.unsent_bytes -= u64::from(len);
        let data = match &sending.owned {
            Some(bytes) => Data::Owned(bytes[offset as usize..(offset + len) as usize].to_vec()),
            None => Data::Payload { token: task.token, offset_bytes: offset, len_bytes: len },
        };
        let (itt, lun, expected, actual) = (task.itt, task.lun, task.expected_bytes, sending.actual_bytes);
        if is_last {
            self.sending.pop_front();
            self.close(key);
        }
        let pdu = Pdu::from(DataIn {
            is_final: is_last || len == burst_left,
            acknowledge: false,
            overflow: is_last && actual > expected,
            underflow: is_last && actual < expected,
            status: is_last.then_some(0),
            data_segment_len: len,
            lun,
            itt,
            ttt: RESERVED_TAG,
            stat_sn: if is_last { self.take_stat_sn() } else { 0 },
            exp_cmd_sn: self.window.exp_cmd_sn(),
            max_cmd_sn: self.window.max_cmd_sn(),
            data_sn,
            buffer_offset: offset,
            residual: if is_last { actual.abs_diff(expected) } else { 0 },
        });
        Transmit { header: emit(&pdu), data }
    }

    fn respond(&mut self, key: usize, answer: &Answer) {
        let task = &self.tasks[key];
        let (expected, actual) = (task.expected_bytes, answer.actual_bytes);
        let mut segment = Vec::new();
        if !answer.sense.is_empty() {
            put_sense(&answer.sense, &mut segment);
        }
        let response = ScsiResponse {
            bidi_overflow: false,
            bidi_underflow: false,
            overflow: actual > expected,
            underflow: actual < expected,
            response: 0,
            status: answer.status,
            data_segment_len: segment.len() as u32,
            itt: task.itt,
            snack_tag: 0,
            stat_sn: 0,
            exp_cmd_sn: 0,
            max_cmd_sn: 0,
            exp_data_sn: task.next_r2t_sn,
            bidi_residual: 0,
            residual: actual.abs_diff(expected),
        };
        self.close(key);
        self.urgent.push_back((response.into(), segment));
    }

    fn close(&mut self, key: usize) {
        let task = self.tasks.remove(key);
        self.by_itt.remove(&task.itt);
        if task.counted {
            self.window.complete();
        } else {
            self.immediate -= 1;
        }
    }

    fn handle_nop_out(&mut self, nop: &NopOut, collected: &[u8]) {
        if nop.itt == RESERVED_TAG {
            return; // The answer to a ping of ours.
        }
        self.consume(nop.immediate, nop.cmd_sn);
        let echo = &collected[..collected.len().min(self.params.peer_max_recv_data_segment_len as usize)];
        let answer = NopIn {
            data_segment_len: echo.len() as u32,
            lun: Lun(0),
            itt: nop.itt,
            ttt: RESERVED_TAG,
            stat_sn: 0,
            exp_cmd_sn: 0,
            max_cmd_sn: 0,
        };
        self.urgent.push_back((answer.into(), echo.to_vec()));
    }

    fn handle_text(&mut self, request: &TextRequest, collected: &[u8]) -> Result<(), Fault> {
        self.consume(request.immediate, request.cmd_sn);
        // A request that carries our transfer tag asks for the rest of a long answer.
        if let Some(answer) = &mut self.text_answer {
            if request.ttt == answer.ttt && !answer.rest.is_empty() {
                answer.itt = request.itt;
                self.send_text();
                return Ok(());
            }
        }
        if self.text.len() + collected.len() > TEXT_MAX_BYTES {
            return Err(Fault::contradiction("text without end", request.itt));
        }
        self.text.extend_from_slice(collected);
        self.text_answer = Some(TextAnswer { itt: request.itt, ttt: self.next_ttt, rest: Vec::new() });
        self.next_ttt = if self.next_ttt >= RESERVED_TAG - 1 { 0 } else { self.next_ttt + 1 };
        if request.is_continued {
            self.send_text();
        } else {
            self.events.push_back(Event::Text(std::mem::take(&mut self.text)));
        }
        Ok(())
    }

    fn send_text(&mut self) {
        let Some(answer) = &mut self.text_answer else { return };
        let most = answer.rest.len().min(self.params.peer_max_recv_data_segment_len as usize);
        let part: Vec<u8> = answer.rest.drain(..most).collect();
        let is_final = answer.rest.is_empty() && self.text.is_empty();
        let response = TextResponse {
            is_final,
            is_continued: !answer.rest.is_empty(),
            data_segment_len: part.len() as u32,
            lun: Lun(0),
            itt: answer.itt,
            ttt: if is_final { RESERVED_TAG } else { answer.ttt },
            stat_sn: 0,
            exp_cmd_sn: 0,
            max_cmd_sn: 0,
        };
        if is_final {
            self.text_answer = None;
        }
        self.urgent.push_back((response.into(), part));
    }

    fn reject(&mut self, header: &[u8; 48], reason: u8) {
        let reject = Reject {
            reason,
            data_segment_len: header.len() as u32,
            stat_sn: 0,
            exp_cmd_sn: 0,
            max_cmd_sn: 0,
            data_sn: 0,
        };
        self.urgent.push_back((reject.into(), header.to_vec()));
    }

    fn take_stat_sn(&mut self) -> u32 {
        let stat_sn = self.stat_sn;
        self.stat_sn = stat_sn.wrapping_add(1);
        stat_sn
    }

    fn urgent_transmit(&mut self, mut pdu: Pdu, data: Vec<u8>) -> Transmit {
        let (exp, max) = (self.window.exp_cmd_sn(), self.window.max_cmd_sn());
        // An R2T carries the next StatSN and does not consume it; everything else here does.
        let stat_sn = match &pdu {
            Pdu::R2t(_) => self.stat_sn,
            _ => self.take_stat_sn(),
        };
        set_numbers(&mut pdu, stat_sn, exp, max);
        let data = if data.is_empty() { Data::None } else { Data::Owned(data) };
        Transmit { header: emit(&pdu), data }
    }
}
