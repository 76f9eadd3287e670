//! Requests other than SCSI commands: CmdSN order; ping, text, logout (RFC 7143 sections 11.10, 11.14, 11.18).

use wire::iscsi::{
    BHS_LEN, LogoutRequest, LogoutResponse, Lun, NopIn, NopOut, Pdu, RESERVED_TAG, TextRequest, TextResponse,
    logout_reason, reject_reason,
};

use super::connection::{ConnectionId, at};
use super::task::{Early, EarlyRequest};
use super::{Event, Session, TEXT_MAX_BYTES, TextAnswer, next_tag};
use crate::fault::Fault;
use crate::window::Admit;

/// Response codes of a logout (RFC 7143 section 11.15.1).
const CLOSED: u8 = 0;
const CID_NOT_FOUND: u8 = 1;
const RECOVERY_NOT_SUPPORTED: u8 = 2;

/// When a request is carried out.
enum Turn {
    Now,
    Later,
    Never,
}

impl Session {
    pub(super) fn handle_request(
        &mut self,
        connection: ConnectionId,
        pdu: &Pdu,
        collected: &[u8],
    ) -> Result<(), Fault> {
        let (immediate, cmd_sn) = match pdu {
            Pdu::NopOut(nop) => (nop.immediate, nop.cmd_sn),
            Pdu::TextRequest(text) => (text.immediate, text.cmd_sn),
            Pdu::TaskManagementRequest(request) => (request.immediate, request.cmd_sn),
            Pdu::LogoutRequest(logout) => (logout.immediate, logout.cmd_sn),
            other => return Err(Fault::Unexpected { found: other.opcode() }),
        };
        match self.turn_of(immediate, cmd_sn, pdu.itt())? {
            Turn::Now => {
                self.carry_out(connection, pdu, collected)?;
                self.run_early();
            }
            Turn::Later => {
                let request = EarlyRequest { connection, pdu: *pdu, collected: collected.to_vec() };
                self.early.insert(cmd_sn, Early::Request(Box::new(request)));
                self.count_early(collected.len(), pdu.itt())?;
            }
            Turn::Never => {}
        }
        Ok(())
    }

    /// Takes the number of a request that is not a SCSI command.
    fn turn_of(&mut self, immediate: bool, cmd_sn: u32, itt: u32) -> Result<Turn, Fault> {
        match self.window.admit(cmd_sn) {
            _ if immediate => Ok(Turn::Now),
            Admit::Next => {
                self.window.take(false);
                Ok(Turn::Now)
            }
            Admit::Outside => Ok(Turn::Never),
            Admit::Early if self.early.contains_key(&cmd_sn) => Ok(Turn::Never),
            Admit::Early if self.has_joined => Ok(Turn::Later),
            // A single connection delivers in order: the missing requests will never arrive.
            Admit::Early => Err(Fault::contradiction("requests before it are missing", itt)),
        }
    }

    /// Carries out a request that is due.
    pub(super) fn carry_out(
        &mut self,
        connection: ConnectionId,
        pdu: &Pdu,
        collected: &[u8],
    ) -> Result<(), Fault> {
        match pdu {
            Pdu::NopOut(nop) => self.handle_nop_out(connection, nop, collected),
            Pdu::TextRequest(text) => return self.handle_text(connection, text, collected),
            Pdu::TaskManagementRequest(request) => self.manage(connection, request),
            Pdu::LogoutRequest(logout) => self.handle_logout(connection, logout),
            other => return Err(Fault::Unexpected { found: other.opcode() }),
        }
        Ok(())
    }

    /// Answers a logout. Queued data that is not sent yet is dropped (RFC 7143 section 11.14).
    fn handle_logout(&mut self, connection: ConnectionId, logout: &LogoutRequest) {
        let subject = match logout.reason {
            logout_reason::CLOSE_SESSION => Ok(None),
            logout_reason::CLOSE_CONNECTION => self.connection_of(logout.cid).map(Some).ok_or(CID_NOT_FOUND),
            // Connection recovery requires error recovery level 2.
            _ => Err(RECOVERY_NOT_SUPPORTED),
        };
        let response = LogoutResponse {
            response: subject.err().unwrap_or(CLOSED),
            itt: logout.itt,
            stat_sn: 0,
            exp_cmd_sn: 0,
            max_cmd_sn: 0,
            time2wait: self.params.default_time2wait_s,
            // No task or connection state is kept for a reconnect.
            time2retain: 0,
        };
        let at = at(&mut self.connections, connection);
        at.urgent.push(response, Vec::new());
        let Ok(ends) = subject else { return };
        if ends.is_none_or(|ends| ends == connection) {
            at.log_out();
        }
        self.events.push_back(Event::Logout { connection, ends });
    }

    fn handle_nop_out(&mut self, connection: ConnectionId, nop: &NopOut, collected: &[u8]) {
        let at = at(&mut self.connections, connection);
        let echo = &collected[..collected.len().min(at.params.peer_max_recv_data_segment_len as usize)];
        let answer = NopIn {
            data_segment_len: echo.len() as u32,
            lun: Lun(0),
            itt: nop.itt,
            ttt: RESERVED_TAG,
            stat_sn: 0,
            exp_cmd_sn: 0,
            max_cmd_sn: 0,
        };
        at.urgent.push(answer, echo.to_vec());
    }

    fn handle_text(
        &mut self,
        connection: ConnectionId,
        request: &TextRequest,
        collected: &[u8],
    ) -> Result<(), Fault> {
        let at = at(&mut self.connections, connection);
        if request.ttt == RESERVED_TAG {
            at.text.clear();
        } else if at.text_answer.as_ref().is_none_or(|answer| answer.ttt != request.ttt) {
            // The request continues an exchange that was never begun or is over (section 11.10.4).
            self.reject_text(connection, *request);
            return Ok(());
        }
        // A request with the target transfer tag of this session requests the rest of a long answer.
        if let Some(answer) = &mut at.text_answer
            && request.ttt == answer.ttt
            && !answer.rest.is_empty()
        {
            answer.request = *request;
            self.send_text(connection);
            return Ok(());
        }
        if at.text.len() + collected.len() > TEXT_MAX_BYTES {
            return Err(Fault::contradiction("text without end", request.itt));
        }
        at.text.extend_from_slice(collected);
        let ttt = next_tag(&mut self.next_ttt);
        at.text_answer = Some(TextAnswer { request: *request, ttt, rest: Vec::new() });
        if request.is_continued {
            self.send_text(connection);
        } else {
            let text = std::mem::take(&mut at.text);
            self.events.push_back(Event::Text { connection, text });
        }
        Ok(())
    }

    pub(super) fn reject_text(&mut self, connection: ConnectionId, request: TextRequest) {
        let mut header = [0; BHS_LEN];
        Pdu::from(request).emit(&mut header);
        self.reject(connection, &header, reject_reason::PROTOCOL_ERROR);
    }

    pub(super) fn send_text(&mut self, connection: ConnectionId) {
        let at = at(&mut self.connections, connection);
        let Some(answer) = &mut at.text_answer else { return };
        let most = answer.rest.len().min(at.params.peer_max_recv_data_segment_len as usize);
        let part: Vec<u8> = answer.rest.drain(..most).collect();
        let is_final = answer.rest.is_empty() && at.text.is_empty() && answer.request.is_final;
        let response = TextResponse {
            is_final,
            is_continued: !answer.rest.is_empty(),
            data_segment_len: part.len() as u32,
            lun: Lun(0),
            itt: answer.request.itt,
            ttt: if is_final { RESERVED_TAG } else { answer.ttt },
            stat_sn: 0,
            exp_cmd_sn: 0,
            max_cmd_sn: 0,
        };
        if is_final {
            at.text_answer = None;
        }
        at.urgent.push(response, part);
    }
}
