//! Outbound responses: Data-In with status, responses, rejects, and their sequence numbers (RFC 7143 sections 11.4,
//! 11.7, 11.17).

use wire::iscsi::{DataIn, Pdu, RESERVED_TAG, Reject, ScsiResponse, put_sense};

use super::Session;
use super::connection::{ConnectionId, at};
use super::task::{Answer, Sending, Stage, TaskId};
use crate::fault::{Data, Transmit};
use crate::header::set_numbers;

impl Session {
    pub(super) fn begin_sending(&mut self, id: TaskId, actual_bytes: u32, mut owned: Option<Vec<u8>>) {
        let key = id.0 as usize;
        let task = &mut self.tasks[key];
        let at = at(&mut self.connections, task.connection);
        if at.logged_out {
            return;
        }
        let end_bytes = if task.read { actual_bytes.min(task.expected_bytes) } else { 0 };
        let draining = task.bursts.iter().any(|burst| burst.next_bytes < burst.end_bytes);
        if end_bytes == 0 || draining {
            self.answer(id, Answer { status: 0, sense: Vec::new(), actual_bytes });
            return;
        }
        if let Some(made) = &mut owned {
            // The data may be queued for long: bytes beyond the expected length are released at once.
            made.truncate(end_bytes as usize);
            made.shrink_to_fit();
            at.made_bytes += made.len();
        }
        task.stage =
            Stage::Sending(Sending { next_bytes: 0, end_bytes, actual_bytes, next_data_sn: 0, owned });
        at.sending.push_back(key);
        at.unsent_bytes += u64::from(end_bytes);
    }

    pub(super) fn data_in_transmit(&mut self, key: usize) -> Transmit {
        let task = &mut self.tasks[key];
        let at = at(&mut self.connections, task.connection);
        let Stage::Sending(sending) = &mut task.stage else {
            unreachable!("only tasks that send are queued for sending");
        };
        let offset = sending.next_bytes;
        // A sequence is at most MaxBurstLength long and ends with the F bit (RFC 7143 section 11.7.1).
        let burst_left = self.params.max_burst_len - offset % self.params.max_burst_len;
        let left = sending.end_bytes - offset;
        let len = left.min(at.params.peer_max_recv_data_segment_len).min(burst_left);
        let is_last = len == left;
        let bears_status = is_last && !self.has_separate_status;
        let data_sn = sending.next_data_sn;
        sending.next_bytes += len;
        sending.next_data_sn += 1;
        at.unsent_bytes -= u64::from(len);
        let data = match &sending.owned {
            Some(bytes) => Data::Owned(bytes[offset as usize..(offset + len) as usize].to_vec()),
            None => Data::Payload { token: task.token, offset_bytes: offset, len_bytes: len },
        };
        let made_bytes = sending.made_bytes();
        let (itt, lun, expected, actual) = (task.itt, task.lun, task.expected_bytes, sending.actual_bytes);
        let stat_sn = if bears_status { at.take_stat_sn() } else { 0 };
        if is_last {
            at.sending.pop_front();
            at.made_bytes -= made_bytes;
            match bears_status {
                true => self.close(key),
                false => self.respond(key, &Answer { status: 0, sense: Vec::new(), actual_bytes: actual }),
            }
        }
        let pdu = Pdu::from(DataIn {
            is_final: is_last || len == burst_left,
            acknowledge: false,
            overflow: bears_status && actual > expected,
            underflow: bears_status && actual < expected,
            status: bears_status.then_some(0),
            data_segment_len: len,
            lun,
            itt,
            ttt: RESERVED_TAG,
            stat_sn,
            exp_cmd_sn: self.window.exp_cmd_sn(),
            max_cmd_sn: self.window.max_cmd_sn(),
            data_sn,
            buffer_offset: offset,
            residual: if bears_status { actual.abs_diff(expected) } else { 0 },
        });
        Transmit { pdu, data }
    }

    pub(super) fn respond(&mut self, key: usize, answer: &Answer) {
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
            exp_data_sn: match &task.stage {
                Stage::Sending(sending) => sending.next_data_sn,
                _ => task.next_r2t_sn,
            },
            bidi_residual: 0,
            residual: actual.abs_diff(expected),
        };
        let connection = task.connection;
        self.close(key);
        at(&mut self.connections, connection).urgent.push(response, segment);
    }

    pub(super) fn reject(&mut self, connection: ConnectionId, header: &[u8; 48], reason: u8) {
        let reject = Reject {
            reason,
            data_segment_len: header.len() as u32,
            stat_sn: 0,
            exp_cmd_sn: 0,
            max_cmd_sn: 0,
            data_sn: 0,
        };
        at(&mut self.connections, connection).urgent.push(reject, header.to_vec());
    }

    pub(super) fn urgent_transmit(
        &mut self,
        connection: ConnectionId,
        mut pdu: Pdu,
        data: Vec<u8>,
    ) -> Transmit {
        let at = at(&mut self.connections, connection);
        let (exp, max) = (self.window.exp_cmd_sn(), self.window.max_cmd_sn());
        // An R2T and a ping carry the next StatSN without consuming it; all other PDUs here consume it.
        let stat_sn = match &pdu {
            Pdu::R2t(_) => at.stat_sn,
            Pdu::NopIn(ping) if ping.itt == RESERVED_TAG => at.stat_sn,
            _ => at.take_stat_sn(),
        };
        set_numbers(&mut pdu, stat_sn, exp, max);
        let data = if data.is_empty() { Data::None } else { Data::Owned(data) };
        Transmit { pdu, data }
    }
}
