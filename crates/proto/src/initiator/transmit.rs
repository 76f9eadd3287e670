//! Outbound PDUs of the initiator's session, and their order (RFC 7143 sections 4.2.2.1, 4.2.4, 11.2, 11.3 and 11.7).

use wire::iscsi::{DataOut, Pdu, RESERVED_TAG, ScsiCommand};

use super::Session;
use super::task::{Burst, Transfer};
use crate::fault::{Data, Transmit};

impl Session {
    /// Returns true if [`Session::poll_transmit`] has a PDU for a connection.
    pub fn wants_transmit(&self, cid: u16) -> bool {
        let connection = self.connection(cid);
        let granted = self.may_command();
        let commands = granted && !(connection.reads.is_empty() && connection.writes.is_empty());
        !connection.urgent.is_empty() || !connection.bursts.is_empty() || commands
    }

    /// The next PDU to send on a connection: urgent PDUs first, then commands without data to the target, then payload
    /// in the order of its commands and R2Ts, then the next write.
    pub fn poll_transmit(&mut self, cid: u16) -> Option<Transmit> {
        let granted = self.may_command();
        let connection = &mut self.connections[usize::from(cid)];
        if let Some((pdu, data)) = connection.urgent.pop() {
            return Some(self.urgent_transmit(cid, pdu, data));
        }
        if granted && let Some(key) = connection.reads.pop_front() {
            return Some(self.command_transmit(key));
        }
        if let Some((key, burst)) = connection.bursts.pop_front() {
            return Some(self.burst_transmit(key, burst));
        }
        if granted && let Some(key) = connection.writes.pop_front() {
            return Some(self.command_transmit(key));
        }
        None
    }

    /// Returns true if the command window has room for another command.
    fn may_command(&self) -> bool {
        self.window.room() > 0 && !self.is_leaving
    }

    fn urgent_transmit(&mut self, cid: u16, mut pdu: Pdu, data: Vec<u8>) -> Transmit {
        let numbers = (self.window.peek(), self.connection(cid).exp_stat_sn);
        match &mut pdu {
            Pdu::NopOut(nop) => (nop.cmd_sn, nop.exp_stat_sn) = numbers,
            Pdu::TextRequest(text) => (text.cmd_sn, text.exp_stat_sn) = numbers,
            Pdu::LogoutRequest(logout) => (logout.cmd_sn, logout.exp_stat_sn) = numbers,
            Pdu::TaskManagementRequest(request) => {
                (request.cmd_sn, request.exp_stat_sn) = numbers;
                self.note_asked(request.itt, numbers.0);
            }
            other => unreachable!("{:?} is never queued as urgent", other.opcode()),
        }
        let data = if data.is_empty() { Data::None } else { Data::Owned(data) };
        Transmit { pdu, data }
    }

    fn command_transmit(&mut self, key: usize) -> Transmit {
        let cmd_sn = self.window.take();
        self.assigned -= 1;
        let params = &self.params;
        let task = &mut self.tasks[key];
        let connection = &mut self.connections[usize::from(task.cid)];
        let command = task.command;
        let expected = task.expected_bytes();
        let out = matches!(command.transfer, Transfer::Out(_));
        let immediate = match out && params.immediate_data {
            true => expected.min(params.first_burst_len).min(connection.peer_max_recv_data_segment_len),
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
            connection.bursts.push_back((key, burst));
        }
        task.is_sent = true;
        task.cmd_sn = cmd_sn;
        task.sent_bytes = immediate;
        task.asked_bytes = unsolicited;
        connection.unsent_bytes -= u64::from(immediate);
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
            exp_stat_sn: connection.exp_stat_sn,
            cdb: command.cdb,
        });
        Transmit { pdu, data: payload(command.token, 0, immediate) }
    }

    fn burst_transmit(&mut self, key: usize, burst: Burst) -> Transmit {
        let task = &mut self.tasks[key];
        let connection = &mut self.connections[usize::from(task.cid)];
        let len = (burst.end_bytes - burst.next_bytes).min(connection.peer_max_recv_data_segment_len);
        let next = burst.next_bytes + len;
        let is_final = next == burst.end_bytes;
        task.sent_bytes = next;
        connection.unsent_bytes -= u64::from(len);
        let pdu = Pdu::from(DataOut {
            is_final,
            data_segment_len: len,
            lun: task.command.lun,
            itt: task.itt,
            ttt: burst.ttt,
            exp_stat_sn: connection.exp_stat_sn,
            data_sn: burst.data_sn,
            buffer_offset: burst.next_bytes,
        });
        if is_final {
            task.bursts -= 1;
        } else {
            let rest = Burst { next_bytes: next, data_sn: burst.data_sn + 1, ..burst };
            connection.bursts.push_front((key, rest));
        }
        Transmit { pdu, data: payload(task.command.token, burst.next_bytes, len) }
    }
}

fn payload(token: u64, offset_bytes: u32, len_bytes: u32) -> Data {
    if len_bytes == 0 { Data::None } else { Data::Payload { token, offset_bytes, len_bytes } }
}
