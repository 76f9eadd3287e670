//! The initiator's session in the full feature phase, without I/O: one connection, error recovery
//! level 0 (RFC 7143 sections 4, 7 and 11).
//!
//! Commands: [`Session::submit`], [`Session::ping`], [`Session::send_text`], [`Session::logout`].
//! Inputs: [`Session::segment`] when a header has arrived, then [`Session::handle`] when its data
//! segment has been laid down. Outputs: [`Session::poll_transmit`], [`Session::poll_event`].
//! Login comes before and is a machine of its own. Nothing here knows SCSI beyond a status byte, and
//! nothing decides how much to send: the caller submits what its policy allows.

mod task;

use std::collections::VecDeque;

use slab::Slab;
use wire::iscsi::{
    AsyncMessage, DataIn, DataOut, LogoutRequest, Lun, NopIn, NopOut, Pdu, R2t, RESERVED_TAG, Reject,
    ScsiCommand, ScsiResponse, TextRequest, TextResponse, async_event, logout_reason, split_sense,
};

use crate::fault::{Data, Fault, Segment, Transmit};
use crate::header::emit;
use crate::outbox::Outbox;
use crate::params::Params;
use crate::window::InitiatorWindow;

use task::{Burst, Task};
pub use task::{Command, Completion, Transfer};

/// What a session tells its caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A command ended.
    Completed(Completion),
    /// The answer to a ping, or to nothing in particular: the target is alive.
    Pong,
    /// Text of the target, complete.
    Text(Vec<u8>),
    /// The target asks us to log out, or says that it is about to go.
    LogoutRequested {
        /// AsyncEvent code (RFC 7143 section 11.9.1).
        event: u8,
    },
    /// A message of the vendor's own (AsyncEvent 255).
    Vendor {
        /// AsyncVCode.
        code: u8,
        /// Its data.
        data: Vec<u8>,
    },
    /// The logout is answered: the connection may be closed.
    LoggedOut,
    /// The target rejected one of our PDUs.
    Rejected {
        /// Reason code (RFC 7143 section 11.17.1).
        reason: u8,
        /// The task it belonged to, if that is still open.
        token: Option<u64>,
    },
}

/// Most commands that may be submitted and not completed; tags have sixteen bits for the slot.
pub const TASKS_MAX: usize = (1 << 16) - 1;
/// Longest text a target may answer with.
const TEXT_MAX_BYTES: usize = 1 << 20;

/// An initiator's session.
#[derive(Debug)]
pub struct Session {
    params: Params,
    window: InitiatorWindow,
    exp_stat_sn: u32,
    tasks: Slab<Task>,
    uses: u16,
    /// Commands waiting to be sent that carry no data to the target.
    reads: VecDeque<usize>,
    /// Commands waiting to be sent that do.
    writes: VecDeque<usize>,
    /// Bursts being sent, in the order in which they must be (RFC 7143 section 4.2.4.2 … 4.2.5.2).
    bursts: VecDeque<(usize, Burst)>,
    urgent: Outbox,
    unsent_bytes: u64,
    text: Vec<u8>,
    events: VecDeque<Event>,
}

impl Session {
    /// A session that has just logged in. `cmd_sn` is the first command's number and `exp_stat_sn` the
    /// number after the login's last response; `max_cmd_sn` is that response's.
    pub fn new(params: Params, cmd_sn: u32, max_cmd_sn: u32, exp_stat_sn: u32) -> Session {
        Session {
            params,
            window: InitiatorWindow::new(cmd_sn, max_cmd_sn),
            exp_stat_sn,
            tasks: Slab::new(),
            uses: 0,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            bursts: VecDeque::new(),
            urgent: Outbox::default(),
            unsent_bytes: 0,
            text: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// What was agreed at login.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Commands submitted and not yet completed.
    pub fn open_commands(&self) -> usize {
        self.tasks.len()
    }

    /// Whether so many answers wait to be sent that no more should be read.
    pub fn is_backed_up(&self) -> bool {
        self.urgent.is_backed_up()
    }

    /// Payload of submitted writes that has not been polled.
    pub fn unsent_payload_bytes(&self) -> u64 {
        self.unsent_bytes
    }

    /// Whether another command can be submitted at all.
    pub fn has_room(&self) -> bool {
        self.tasks.len() < TASKS_MAX
    }

    /// Queues a command; it is sent when the command window allows.
    ///
    /// # Panics
    /// If there is no room, which the caller asks first.
    pub fn submit(&mut self, command: Command) {
        assert!(self.has_room(), "more than {TASKS_MAX} commands submitted");
        let slot = self.tasks.vacant_entry();
        let key = slot.key();
        // A tag names the slot and the use of it, so that a late PDU of the slot's former task is told
        // apart from one of the present. 0xffff in both halves would be the reserved tag.
        self.uses = if self.uses >= 0xfffe { 0 } else { self.uses + 1 };
        let itt = u32::from(self.uses) << 16 | key as u32;
        slot.insert(Task {
            command,
            itt,
            is_sent: false,
            received_bytes: 0,
            next_data_sn: 0,
            sent_bytes: 0,
            bursts: 0,
        });
        match command.transfer {
            Transfer::Out(len) => {
                self.unsent_bytes += u64::from(len);
                self.writes.push_back(key);
            }
            Transfer::None | Transfer::In(_) => self.reads.push_back(key),
        }
    }

    /// Asks the target whether it is alive (NOP-Out, immediate).
    pub fn ping(&mut self) {
        let itt = u32::from(self.uses) << 16 | 0xffff;
        let nop = NopOut {
            immediate: true,
            data_segment_len: 0,
            lun: Lun(0),
            itt: if itt == RESERVED_TAG { 0xffff } else { itt },
            ttt: RESERVED_TAG,
            cmd_sn: 0,
            exp_stat_sn: 0,
        };
        self.urgent.push(nop, Vec::new());
    }

    /// Sends text (key=value pairs, RFC 7143 section 11.10); the answer comes as [`Event::Text`].
    pub fn send_text(&mut self, text: Vec<u8>) {
        self.text.clear();
        self.text_request(text, Lun(0), RESERVED_TAG);
    }

    /// Closes the session; [`Event::LoggedOut`] follows.
    pub fn logout(&mut self) {
        let logout = LogoutRequest {
            immediate: true,
            reason: logout_reason::CLOSE_SESSION,
            itt: 0x10_ffff,
            cid: 0,
            cmd_sn: 0,
            exp_stat_sn: 0,
        };
        self.urgent.push(logout, Vec::new());
    }

    /// Says where the data segment of a PDU belongs whose header has just arrived.
    pub fn segment(&self, pdu: &Pdu) -> Result<Segment, Fault> {
        let len = pdu.data_segment_len();
        let limit = self.params.our_max_recv_data_segment_len;
        if len > limit {
            return Err(Fault::SegmentTooLong { found_bytes: len, limit_bytes: limit });
        }
        match pdu {
            Pdu::DataIn(data) => self.data_in_segment(data),
            _ if len > 0 => Ok(Segment::Collect),
            _ => Ok(Segment::Discard),
        }
    }

    /// Takes a PDU whose data segment has been laid down; `collected` is that segment if
    /// [`Session::segment`] asked for it.
    pub fn handle(&mut self, pdu: &Pdu, collected: &[u8]) -> Result<(), Fault> {
        match pdu {
            Pdu::DataIn(data) => self.handle_data_in(data),
            Pdu::ScsiResponse(response) => self.handle_response(response, collected),
            Pdu::R2t(r2t) => self.handle_r2t(r2t),
            Pdu::NopIn(nop) => self.handle_nop_in(nop, collected),
            Pdu::TextResponse(text) => self.handle_text(text, collected),
            Pdu::LogoutResponse(logout) => {
                self.numbers(Some(logout.stat_sn), logout.exp_cmd_sn, logout.max_cmd_sn);
                self.events.push_back(Event::LoggedOut);
                Ok(())
            }
            Pdu::Reject(reject) => {
                self.handle_reject(reject, collected);
                Ok(())
            }
            Pdu::AsyncMessage(message) => self.handle_async(message, collected),
            Pdu::TaskManagementResponse(response) => {
                self.numbers(Some(response.stat_sn), response.exp_cmd_sn, response.max_cmd_sn);
                Ok(())
            }
            other => Err(Fault::Unexpected { found: other.opcode() }),
        }
    }

    /// The next thing to tell the caller.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether [`Session::poll_transmit`] has something.
    pub fn wants_transmit(&self) -> bool {
        let granted = self.window.room() > 0;
        let commands = granted && !(self.reads.is_empty() && self.writes.is_empty());
        !self.urgent.is_empty() || !self.bursts.is_empty() || commands
    }

    /// The next PDU to send: first what is urgent, then commands that carry no data, then payload in the
    /// order of its commands and R2Ts, then the next write.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        if let Some((pdu, data)) = self.urgent.pop() {
            return Some(self.urgent_transmit(pdu, data));
        }
        if self.window.room() > 0
            && let Some(key) = self.reads.pop_front()
        {
            return Some(self.command_transmit(key));
        }
        if let Some((key, burst)) = self.bursts.pop_front() {
            return Some(self.burst_transmit(key, burst));
        }
        if self.window.room() > 0
            && let Some(key) = self.writes.pop_front()
        {
            return Some(self.command_transmit(key));
        }
        None
    }

    fn urgent_transmit(&mut self, mut pdu: Pdu, data: Vec<u8>) -> Transmit {
        let exp = self.exp_stat_sn;
        match &mut pdu {
            Pdu::NopOut(nop) => (nop.cmd_sn, nop.exp_stat_sn) = (self.window.peek(), exp),
            Pdu::TextRequest(text) => (text.cmd_sn, text.exp_stat_sn) = (self.window.peek(), exp),
            Pdu::LogoutRequest(logout) => (logout.cmd_sn, logout.exp_stat_sn) = (self.window.peek(), exp),
            other => unreachable!("{:?} is never queued as urgent", other.opcode()),
        }
        let data = if data.is_empty() { Data::None } else { Data::Owned(data) };
        Transmit { header: emit(&pdu), data }
    }

    fn command_transmit(&mut self, key: usize) -> Transmit {
        let cmd_sn = self.window.take();
        let params = &self.params;
        let task = &mut self.tasks[key];
        let command = task.command;
        let expected = task.expected_bytes();
        let out = matches!(command.transfer, Transfer::Out(_));
        let immediate = match out && params.immediate_data {
            true => expected.min(params.first_burst_len).min(params.peer_max_recv_data_segment_len),
            false => 0,
        };
        let unsolicited = match out && !params.initial_r2t {
            true => expected.min(params.first_burst_len),
            false => immediate,
        };
        if unsolicited > immediate {
            task.bursts += 1;
            let burst =
                Burst { ttt: RESERVED_TAG, next_bytes: immediate, end_bytes: unsolicited, data_sn: 0 };
            self.bursts.push_back((key, burst));
        }
        task.is_sent = true;
        task.sent_bytes = immediate;
        self.unsent_bytes -= u64::from(immediate);
        let pdu = Pdu::from(ScsiCommand {
            immediate: false,
            is_final: unsolicited == immediate,
            read: matches!(command.transfer, Transfer::In(_)),
            write: out,
            attribute: command.attribute,
            ahs_len: 0,
            data_segment_len: immediate,
            lun: command.lun,
            itt: task.itt,
            expected_data_transfer_len: expected,
            cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            cdb: command.cdb,
        });
        Transmit { header: emit(&pdu), data: payload(command.token, 0, immediate) }
    }

    fn burst_transmit(&mut self, key: usize, burst: Burst) -> Transmit {
        let task = &mut self.tasks[key];
        let len = (burst.end_bytes - burst.next_bytes).min(self.params.peer_max_recv_data_segment_len);
        let next = burst.next_bytes + len;
        let is_final = next == burst.end_bytes;
        // A target may ask for the same data twice; it is unsent only once.
        let fresh = next.saturating_sub(task.sent_bytes);
        task.sent_bytes += fresh;
        self.unsent_bytes -= u64::from(fresh);
        let pdu = Pdu::from(DataOut {
            is_final,
            data_segment_len: len,
            lun: task.command.lun,
            itt: task.itt,
            ttt: burst.ttt,
            exp_stat_sn: self.exp_stat_sn,
            data_sn: burst.data_sn,
            buffer_offset: burst.next_bytes,
        });
        if is_final {
            task.bursts -= 1;
        } else {
            self.bursts.push_front((key, Burst { next_bytes: next, data_sn: burst.data_sn + 1, ..burst }));
        }
        Transmit { header: emit(&pdu), data: payload(task.command.token, burst.next_bytes, len) }
    }

    fn find(&self, itt: u32) -> Result<usize, Fault> {
        let key = (itt & 0xffff) as usize;
        match self.tasks.get(key) {
            Some(task) if task.itt == itt && task.is_sent => Ok(key),
            _ => Err(Fault::contradiction("it answers a task that is not open", itt)),
        }
    }

    fn numbers(&mut self, stat_sn: Option<u32>, exp_cmd_sn: u32, max_cmd_sn: u32) {
        if let Some(stat_sn) = stat_sn {
            self.exp_stat_sn = stat_sn.wrapping_add(1);
        }
        self.window.update(exp_cmd_sn, max_cmd_sn);
    }

    fn data_in_segment(&self, data: &DataIn) -> Result<Segment, Fault> {
        let task = &self.tasks[self.find(data.itt)?];
        let Transfer::In(expected) = task.command.transfer else {
            return Err(Fault::contradiction("Data-In for a command that reads nothing", data.itt));
        };
        let end = data.buffer_offset.checked_add(data.data_segment_len);
        if end.is_none_or(|end| end > expected) {
            return Err(Fault::contradiction("Data-In beyond the expected length", data.itt));
        }
        // DataPDUInOrder and DataSequenceInOrder were agreed: anything else would leave a hole behind GOOD.
        if data.buffer_offset != task.received_bytes || data.data_sn != task.next_data_sn {
            return Err(Fault::contradiction("Data-In out of order", data.itt));
        }
        let (token, offset_bytes) = (task.command.token, data.buffer_offset);
        Ok(Segment::Payload { token, offset_bytes, len_bytes: data.data_segment_len })
    }

    fn handle_data_in(&mut self, data: &DataIn) -> Result<(), Fault> {
        let key = self.find(data.itt)?;
        self.numbers(data.status.map(|_| data.stat_sn), data.exp_cmd_sn, data.max_cmd_sn);
        let task = &mut self.tasks[key];
        task.received_bytes += data.data_segment_len;
        task.next_data_sn = task.next_data_sn.wrapping_add(1);
        if let Some(status) = data.status {
            let transferred_bytes = task.received_bytes;
            let token = task.command.token;
            self.complete(
                key,
                Completion { token, status, response: 0, transferred_bytes, sense: Vec::new() },
            );
        }
        Ok(())
    }

    fn handle_response(&mut self, response: &ScsiResponse, collected: &[u8]) -> Result<(), Fault> {
        let key = self.find(response.itt)?;
        self.numbers(Some(response.stat_sn), response.exp_cmd_sn, response.max_cmd_sn);
        let task = &self.tasks[key];
        let transferred_bytes = match task.command.transfer {
            Transfer::None => 0,
            Transfer::In(_) => task.received_bytes,
            Transfer::Out(len) if response.underflow => len.saturating_sub(response.residual),
            Transfer::Out(len) => len,
        };
        let completion = Completion {
            token: task.command.token,
            status: response.status,
            response: response.response,
            transferred_bytes,
            sense: split_sense(collected)?.0.to_vec(),
        };
        self.complete(key, completion);
        Ok(())
    }

    fn complete(&mut self, key: usize, completion: Completion) {
        // A target may end a write before it has all data: what is still queued for it is not sent.
        if self.tasks[key].bursts > 0 {
            self.bursts.retain(|(task, _)| *task != key);
        }
        let task = self.tasks.remove(key);
        if let Transfer::Out(len) = task.command.transfer {
            self.unsent_bytes -= u64::from(len - task.sent_bytes);
        }
        self.events.push_back(Event::Completed(completion));
    }

    fn handle_r2t(&mut self, r2t: &R2t) -> Result<(), Fault> {
        let key = self.find(r2t.itt)?;
        self.numbers(None, r2t.exp_cmd_sn, r2t.max_cmd_sn);
        let task = &mut self.tasks[key];
        let Transfer::Out(expected) = task.command.transfer else {
            return Err(Fault::contradiction("R2T for a command that writes nothing", r2t.itt));
        };
        let end = r2t.buffer_offset.checked_add(r2t.desired_len);
        let (Some(end), false) = (end.filter(|end| *end <= expected), r2t.desired_len == 0) else {
            return Err(Fault::contradiction("R2T outside the expected length", r2t.itt));
        };
        if task.bursts > u32::from(self.params.max_outstanding_r2t) {
            return Err(Fault::contradiction("more R2Ts than MaxOutstandingR2T", r2t.itt));
        }
        task.bursts += 1;
        let burst = Burst { ttt: r2t.ttt, next_bytes: r2t.buffer_offset, end_bytes: end, data_sn: 0 };
        self.bursts.push_back((key, burst));
        Ok(())
    }

    fn handle_nop_in(&mut self, nop: &NopIn, collected: &[u8]) -> Result<(), Fault> {
        let is_answer = nop.itt != RESERVED_TAG;
        self.numbers(is_answer.then_some(nop.stat_sn), nop.exp_cmd_sn, nop.max_cmd_sn);
        if nop.ttt != RESERVED_TAG {
            let echo = &collected[..collected.len().min(self.params.peer_max_recv_data_segment_len as usize)];
            let answer = NopOut {
                immediate: true,
                data_segment_len: echo.len() as u32,
                lun: nop.lun,
                itt: RESERVED_TAG,
                ttt: nop.ttt,
                cmd_sn: 0,
                exp_stat_sn: 0,
            };
            self.urgent.push(answer, echo.to_vec());
        } else {
            self.events.push_back(Event::Pong);
        }
        Ok(())
    }

    fn handle_text(&mut self, response: &TextResponse, collected: &[u8]) -> Result<(), Fault> {
        self.numbers(Some(response.stat_sn), response.exp_cmd_sn, response.max_cmd_sn);
        if self.text.len() + collected.len() > TEXT_MAX_BYTES {
            return Err(Fault::contradiction("text without end", response.itt));
        }
        self.text.extend_from_slice(collected);
        if response.is_final {
            self.events.push_back(Event::Text(std::mem::take(&mut self.text)));
        } else {
            self.text_request(Vec::new(), response.lun, response.ttt);
        }
        Ok(())
    }

    fn text_request(&mut self, text: Vec<u8>, lun: Lun, ttt: u32) {
        let request = TextRequest {
            immediate: true,
            is_final: true,
            is_continued: false,
            data_segment_len: text.len() as u32,
            lun,
            itt: 0x20_ffff,
            ttt,
            cmd_sn: 0,
            exp_stat_sn: 0,
        };
        self.urgent.push(request, text);
    }

    fn handle_reject(&mut self, reject: &Reject, collected: &[u8]) {
        self.numbers(Some(reject.stat_sn), reject.exp_cmd_sn, reject.max_cmd_sn);
        // The data segment is the header of the PDU that was rejected; its task stays with the target,
        // which may still answer it, unless it never came to be.
        let itt = collected.get(16..20).map(|tag| u32::from_be_bytes([tag[0], tag[1], tag[2], tag[3]]));
        let key = itt.and_then(|itt| self.find(itt).ok());
        let token = key.map(|key| self.tasks[key].command.token);
        self.events.push_back(Event::Rejected { reason: reject.reason, token });
    }

    fn handle_async(&mut self, message: &AsyncMessage, collected: &[u8]) -> Result<(), Fault> {
        self.numbers(Some(message.stat_sn), message.exp_cmd_sn, message.max_cmd_sn);
        match message.event {
            async_event::LOGOUT_REQUESTED | async_event::CONNECTION_DROP | async_event::SESSION_DROP => {
                self.events.push_back(Event::LogoutRequested { event: message.event });
            }
            async_event::VENDOR => {
                let data = split_sense(collected)?.1.to_vec();
                self.events.push_back(Event::Vendor { code: message.vendor_code, data });
            }
            _ => {}
        }
        Ok(())
    }
}

fn payload(token: u64, offset_bytes: u32, len_bytes: u32) -> Data {
    if len_bytes == 0 { Data::None } else { Data::Payload { token, offset_bytes, len_bytes } }
}
