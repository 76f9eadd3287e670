//! Requests that are no SCSI commands: ping, text, logout (RFC 7143 sections 11.10, 11.14, 11.18).

use wire::iscsi::{
    LogoutRequest, LogoutResponse, Lun, NopIn, NopOut, RESERVED_TAG, TextRequest, TextResponse,
};

use super::{Event, Session, TEXT_MAX_BYTES, TextAnswer, next_tag};
use crate::fault::Fault;

impl Session {
    /// Answers a logout. What is not sent by now is not sent any more (RFC 7143 section 11.14).
    pub(super) fn handle_logout(&mut self, logout: &LogoutRequest) {
        let response = LogoutResponse {
            response: 0,
            itt: logout.itt,
            stat_sn: 0,
            exp_cmd_sn: 0,
            max_cmd_sn: 0,
            time2wait: self.params.default_time2wait_s,
            time2retain: self.params.default_time2retain_s,
        };
        self.urgent.push(response, Vec::new());
        self.sending.clear();
        self.unsent_bytes = 0;
        self.logged_out = true;
        self.events.push_back(Event::Logout);
    }

    pub(super) fn handle_nop_out(&mut self, nop: &NopOut, collected: &[u8]) {
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
        self.urgent.push(answer, echo.to_vec());
    }

    pub(super) fn handle_text(&mut self, request: &TextRequest, collected: &[u8]) -> Result<(), Fault> {
        if request.ttt == RESERVED_TAG {
            self.text.clear();
        }
        // A request that carries our transfer tag asks for the rest of a long answer.
        if let Some(answer) = &mut self.text_answer
            && request.ttt == answer.ttt
            && !answer.rest.is_empty()
        {
            (answer.itt, answer.ends) = (request.itt, request.is_final);
            self.send_text();
            return Ok(());
        }
        if self.text.len() + collected.len() > TEXT_MAX_BYTES {
            return Err(Fault::contradiction("text without end", request.itt));
        }
        self.text.extend_from_slice(collected);
        let ttt = next_tag(&mut self.next_ttt);
        self.text_answer =
            Some(TextAnswer { itt: request.itt, ttt, rest: Vec::new(), ends: request.is_final });
        if request.is_continued {
            self.send_text();
        } else {
            self.events.push_back(Event::Text(std::mem::take(&mut self.text)));
        }
        Ok(())
    }

    pub(super) fn send_text(&mut self) {
        let Some(answer) = &mut self.text_answer else { return };
        let most = answer.rest.len().min(self.params.peer_max_recv_data_segment_len as usize);
        let part: Vec<u8> = answer.rest.drain(..most).collect();
        let is_final = answer.rest.is_empty() && self.text.is_empty() && answer.ends;
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
        self.urgent.push(response, part);
    }
}
