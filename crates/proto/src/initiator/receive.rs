//! Inbound PDUs of the initiator's session (RFC 7143 sections 4.2.3, 4.2.4 and 11).

use wire::iscsi::{
    AsyncMessage, DataIn, LogoutResponse, NopIn, NopOut, Pdu, R2t, RESERVED_TAG, Reject, ScsiResponse,
    TextResponse, async_event, split_sense,
};

use super::task::{Burst, Completion, Transfer};
use super::{Event, Session, TEXT_MAX_BYTES};
use crate::fault::{Fault, Segment};

impl Session {
    /// Destination of the data segment of a PDU whose header has just arrived on a connection.
    pub fn segment(&self, cid: u16, pdu: &Pdu) -> Result<Segment, Fault> {
        let len = pdu.data_segment_len();
        let limit = self.connection(cid).our_max_recv_data_segment_len;
        if len > limit {
            return Err(Fault::SegmentTooLong { found_bytes: len, limit_bytes: limit });
        }
        match pdu {
            Pdu::DataIn(data) => self.data_in_segment(cid, data),
            _ if len > 0 => Ok(Segment::Collect),
            _ => Ok(Segment::Discard),
        }
    }

    /// Takes a PDU whose data segment has been stored; `collected` is that segment if [`Session::segment`] returned
    /// [`Segment::Collect`].
    pub fn handle(&mut self, cid: u16, pdu: &Pdu, collected: &[u8]) -> Result<(), Fault> {
        match pdu {
            Pdu::DataIn(data) => self.handle_data_in(cid, data),
            Pdu::ScsiResponse(response) => self.handle_response(cid, response, collected),
            Pdu::R2t(r2t) => self.handle_r2t(cid, r2t),
            Pdu::NopIn(nop) => self.handle_nop_in(cid, nop, collected),
            Pdu::TextResponse(text) => self.handle_text(cid, text, collected),
            Pdu::LogoutResponse(logout) => {
                self.handle_logout(cid, logout);
                Ok(())
            }
            Pdu::Reject(reject) => {
                self.handle_reject(cid, reject, collected);
                Ok(())
            }
            Pdu::AsyncMessage(message) => self.handle_async(cid, message, collected),
            Pdu::TaskManagementResponse(response) => self.handle_function(cid, response),
            other => Err(Fault::Unexpected { found: other.opcode() }),
        }
    }

    fn find(&self, cid: u16, itt: u32) -> Result<usize, Fault> {
        let key = (itt & 0xffff) as usize;
        match self.tasks.get(key) {
            Some(task) if task.itt == itt && task.is_sent && task.cid == cid => Ok(key),
            _ => Err(Fault::contradiction("it answers a task that is not open", itt)),
        }
    }

    pub(super) fn numbers(&mut self, cid: u16, stat_sn: Option<u32>, exp_cmd_sn: u32, max_cmd_sn: u32) {
        if let Some(stat_sn) = stat_sn {
            self.connections[usize::from(cid)].exp_stat_sn = stat_sn.wrapping_add(1);
        }
        self.window.update(exp_cmd_sn, max_cmd_sn);
        if self.connections.len() > 1 {
            self.distribute();
        }
    }

    fn data_in_segment(&self, cid: u16, data: &DataIn) -> Result<Segment, Fault> {
        let task = &self.tasks[self.find(cid, data.itt)?];
        let Transfer::In(expected) = task.command.transfer else {
            return Err(Fault::contradiction("Data-In for a command that reads nothing", data.itt));
        };
        let end = data.buffer_offset.checked_add(data.data_segment_len);
        if end.is_none_or(|end| end > expected) {
            return Err(Fault::contradiction("Data-In beyond the expected length", data.itt));
        }
        // DataPDUInOrder and DataSequenceInOrder are in force: any gap would leave a hole behind GOOD.
        if data.buffer_offset != task.received_bytes || data.data_sn != task.next_data_sn {
            return Err(Fault::contradiction("Data-In out of order", data.itt));
        }
        let (token, offset_bytes) = (task.command.token, data.buffer_offset);
        Ok(Segment::Payload { token, offset_bytes, len_bytes: data.data_segment_len })
    }

    fn handle_data_in(&mut self, cid: u16, data: &DataIn) -> Result<(), Fault> {
        let key = self.find(cid, data.itt)?;
        self.numbers(cid, data.status.map(|_| data.stat_sn), data.exp_cmd_sn, data.max_cmd_sn);
        let task = &mut self.tasks[key];
        task.received_bytes += data.data_segment_len;
        task.next_data_sn = task.next_data_sn.wrapping_add(1);
        if let Some(status) = data.status {
            let completion = Completion {
                token: task.command.token,
                cid,
                status,
                response: 0,
                transferred_bytes: task.received_bytes,
                overflow_bytes: if data.overflow { data.residual } else { 0 },
                sense: Vec::new(),
            };
            self.complete(key, completion);
        }
        Ok(())
    }

    fn handle_response(&mut self, cid: u16, response: &ScsiResponse, collected: &[u8]) -> Result<(), Fault> {
        let key = self.find(cid, response.itt)?;
        self.numbers(cid, Some(response.stat_sn), response.exp_cmd_sn, response.max_cmd_sn);
        let task = &self.tasks[key];
        let transferred_bytes = match task.command.transfer {
            Transfer::None => 0,
            Transfer::In(_) => task.received_bytes,
            // The target cannot have received more than was sent, whatever residual it reports.
            Transfer::Out(len) if response.underflow => {
                len.saturating_sub(response.residual).min(task.sent_bytes)
            }
            Transfer::Out(_) => task.sent_bytes,
        };
        let completion = Completion {
            token: task.command.token,
            cid,
            status: response.status,
            response: response.response,
            transferred_bytes,
            overflow_bytes: if response.overflow { response.residual } else { 0 },
            sense: split_sense(collected)?.0.to_vec(),
        };
        self.complete(key, completion);
        Ok(())
    }

    fn handle_r2t(&mut self, cid: u16, r2t: &R2t) -> Result<(), Fault> {
        let key = self.find(cid, r2t.itt)?;
        self.numbers(cid, None, r2t.exp_cmd_sn, r2t.max_cmd_sn);
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
        // DataSequenceInOrder is in force, and no recovery requests the same data again.
        if r2t.buffer_offset != task.asked_bytes {
            return Err(Fault::contradiction("R2T out of order", r2t.itt));
        }
        task.bursts += 1;
        task.asked_bytes = end;
        let burst = Burst { ttt: r2t.ttt, next_bytes: r2t.buffer_offset, end_bytes: end, data_sn: 0 };
        self.connections[usize::from(cid)].bursts.push_back((key, burst));
        Ok(())
    }

    fn handle_nop_in(&mut self, cid: u16, nop: &NopIn, collected: &[u8]) -> Result<(), Fault> {
        let is_answer = nop.itt != RESERVED_TAG;
        self.numbers(cid, is_answer.then_some(nop.stat_sn), nop.exp_cmd_sn, nop.max_cmd_sn);
        if nop.ttt != RESERVED_TAG {
            let echo = &collected
                [..collected.len().min(self.connection(cid).peer_max_recv_data_segment_len as usize)];
            let answer = NopOut {
                immediate: true,
                data_segment_len: echo.len() as u32,
                lun: nop.lun,
                itt: RESERVED_TAG,
                ttt: nop.ttt,
                cmd_sn: 0,
                exp_stat_sn: 0,
            };
            self.connections[usize::from(cid)].urgent.push(answer, echo.to_vec());
        } else {
            self.events.push_back(Event::Pong);
        }
        Ok(())
    }

    fn handle_text(&mut self, cid: u16, response: &TextResponse, collected: &[u8]) -> Result<(), Fault> {
        if self.text_itt != Some(response.itt) {
            return Err(Fault::contradiction("it answers text that was not sent", response.itt));
        }
        self.numbers(cid, Some(response.stat_sn), response.exp_cmd_sn, response.max_cmd_sn);
        if self.text.len() + collected.len() > TEXT_MAX_BYTES {
            return Err(Fault::contradiction("text without end", response.itt));
        }
        self.text.extend_from_slice(collected);
        if response.is_final {
            self.text_itt = None;
            self.events.push_back(Event::Text(std::mem::take(&mut self.text)));
        } else {
            self.text_request(Vec::new(), response.lun, response.itt, response.ttt);
        }
        Ok(())
    }

    fn handle_reject(&mut self, cid: u16, reject: &Reject, collected: &[u8]) {
        self.numbers(cid, Some(reject.stat_sn), reject.exp_cmd_sn, reject.max_cmd_sn);
        // The data segment is the header of the rejected PDU; its task stays with the target, which may still answer
        // it, unless the task was never created.
        let itt = collected.get(16..20).map(|tag| u32::from_be_bytes([tag[0], tag[1], tag[2], tag[3]]));
        let key = itt.and_then(|itt| self.find(cid, itt).ok());
        let token = key.map(|key| self.tasks[key].command.token);
        self.events.push_back(Event::Rejected { reason: reject.reason, token });
    }

    fn handle_async(&mut self, cid: u16, message: &AsyncMessage, collected: &[u8]) -> Result<(), Fault> {
        self.numbers(cid, Some(message.stat_sn), message.exp_cmd_sn, message.max_cmd_sn);
        match message.event {
            async_event::LOGOUT_REQUESTED | async_event::NEGOTIATION_REQUESTED => {
                self.events.push_back(Event::LogoutRequested { within_s: message.parameter3 });
            }
            async_event::CONNECTION_DROP | async_event::SESSION_DROP => {
                let is_one = message.event == async_event::CONNECTION_DROP;
                self.events.push_back(Event::Dropping {
                    cid: is_one.then_some(message.parameter1),
                    time2wait_s: message.parameter2,
                });
            }
            async_event::VENDOR => {
                // A segment of another shape than RFC 7143 section 11.9.4 is vendor-specific and carries no data for
                // this side.
                let data = split_sense(collected).map_or(&[][..], |parts| parts.1).to_vec();
                self.events.push_back(Event::Vendor { cid, code: message.vendor_code, data });
            }
            // Unit conditions are reported again with the unit's commands; the time limit of terminated tasks expires.
            _ => {}
        }
        Ok(())
    }

    fn handle_logout(&mut self, cid: u16, logout: &LogoutResponse) {
        self.numbers(cid, Some(logout.stat_sn), logout.exp_cmd_sn, logout.max_cmd_sn);
        self.events.push_back(Event::LoggedOut { time2wait_s: logout.time2wait });
    }

    fn complete(&mut self, key: usize, completion: Completion) {
        self.remove(key);
        self.events.push_back(Event::Completed(completion));
    }
}
