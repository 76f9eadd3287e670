//! Unsolicited PDUs of a target: pings and Async Messages (RFC 7143 sections 11.9, 11.19). None follows the Logout
//! Response (section 11.14).

use wire::iscsi::{AsyncMessage, Lun, NopIn, Pdu, RESERVED_TAG, async_event};

use super::connection::{ConnectionId, at};
use super::{Session, next_tag};

impl Session {
    /// Sends a NOP-In that requests an answer. The answer needs no handling of its own: any PDU shows that the
    /// initiator is alive.
    pub fn ping(&mut self, connection: ConnectionId) {
        let ttt = next_tag(&mut self.next_ttt);
        let (itt, lun) = (RESERVED_TAG, Lun(0));
        let ping = NopIn { data_segment_len: 0, lun, itt, ttt, stat_sn: 0, exp_cmd_sn: 0, max_cmd_sn: 0 };
        self.say(connection, ping, Vec::new());
    }

    /// Requests a logout of the initiator within `within_s` seconds.
    pub fn request_logout(&mut self, connection: ConnectionId, within_s: u16) {
        let message = message(async_event::LOGOUT_REQUESTED);
        self.say(connection, AsyncMessage { parameter3: within_s, ..message }, Vec::new());
    }

    /// Announces that all connections of the session are about to be closed. No session state is kept for a
    /// reconnect.
    pub fn announce_drop(&mut self, connection: ConnectionId) {
        let message = message(async_event::SESSION_DROP);
        let time2wait = self.params.default_time2wait_s;
        self.say(connection, AsyncMessage { parameter2: time2wait, ..message }, Vec::new());
    }

    /// Sends a vendor-specific Async Message (AsyncEvent 255).
    pub fn notify(&mut self, connection: ConnectionId, vendor_code: u8, data: &[u8]) {
        let no_sense = [0, 0];
        let segment = [&no_sense, data].concat();
        let message = message(async_event::VENDOR);
        let data_segment_len = segment.len() as u32;
        self.say(connection, AsyncMessage { vendor_code, data_segment_len, ..message }, segment);
    }

    fn say(&mut self, connection: ConnectionId, pdu: impl Into<Pdu>, data: Vec<u8>) {
        let at = at(&mut self.connections, connection);
        if !at.logged_out {
            at.urgent.push(pdu, data);
        }
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
