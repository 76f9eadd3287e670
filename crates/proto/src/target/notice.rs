//! What a target says unasked: pings and Async Messages (RFC 7143 sections 11.9, 11.19).

use wire::iscsi::{AsyncMessage, Lun, NopIn, RESERVED_TAG, async_event};

use super::connection::{ConnectionId, at};
use super::{Session, next_tag};

impl Session {
    /// Asks whether the initiator is still there. Its answer is a PDU like any other: that something comes is
    /// what counts.
    pub fn ping(&mut self, connection: ConnectionId) {
        let ttt = next_tag(&mut self.next_ttt);
        let (itt, lun) = (RESERVED_TAG, Lun(0));
        let ping = NopIn { data_segment_len: 0, lun, itt, ttt, stat_sn: 0, exp_cmd_sn: 0, max_cmd_sn: 0 };
        at(&mut self.connections, connection).urgent.push(ping, Vec::new());
    }

    /// Asks the initiator to log out within so many seconds.
    pub fn request_logout(&mut self, connection: ConnectionId, within_s: u16) {
        let message = message(async_event::LOGOUT_REQUESTED);
        at(&mut self.connections, connection)
            .urgent
            .push(AsyncMessage { parameter3: within_s, ..message }, Vec::new());
    }

    /// Says that all connections of the session are about to be closed. Nothing of it is kept for the initiator
    /// to come back to.
    pub fn announce_drop(&mut self, connection: ConnectionId) {
        let message = message(async_event::SESSION_DROP);
        let time2wait = self.params.default_time2wait_s;
        at(&mut self.connections, connection)
            .urgent
            .push(AsyncMessage { parameter2: time2wait, ..message }, Vec::new());
    }

    /// Sends an Async Message of the vendor's own (AsyncEvent 255). Nothing follows the response to a logout (RFC 7143
    /// section 11.14).
    pub fn notify(&mut self, connection: ConnectionId, vendor_code: u8, data: &[u8]) {
        if at(&mut self.connections, connection).logged_out {
            return;
        }
        let no_sense = [0, 0];
        let segment = [&no_sense, data].concat();
        let message = message(async_event::VENDOR);
        let data_segment_len = segment.len() as u32;
        at(&mut self.connections, connection)
            .urgent
            .push(AsyncMessage { vendor_code, data_segment_len, ..message }, segment);
    }
}

fn message(event: u8) -> AsyncMessage {
    AsyncMessage {
        event,
        vendor_code: 0,
        data_segment_len: 0,
        lun: Lun(0),
        stat_sn: 0,
        exp_cmd_sn: 0,
        max_cmd_sn: 0,
        parameter1: 0,
        parameter2: 0,
        parameter3: 0,
    }
}
