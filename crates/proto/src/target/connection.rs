//! One connection of a session: StatSN, queued PDUs, and the request whose PDU is being received (RFC 7143 section
//! 4.2.2.2: StatSN belongs to a connection, CmdSN to the session).
//!
//! The loss of a connection does not affect the other connections of its session: only its own tasks end. The initiator
//! fills the CmdSN gaps of lost commands, by ABORT TASK on another connection (section 11.6.1). No state is kept for a
//! reconnect, since the error recovery level is 0: a new login under the same CID replaces the old connection
//! (section 6.3.4).

use std::collections::VecDeque;

use super::TextAnswer;
use crate::outbox::Outbox;
use crate::params::Params;

/// Identifier of a connection; not reused within a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(pub(super) u32);

impl ConnectionId {
    /// The connection of the leading login.
    pub const LEADING: ConnectionId = ConnectionId(0);
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    /// CID, set by the initiator.
    pub(super) cid: u16,
    pub(super) params: Params,
    pub(super) stat_sn: u32,
    /// Outcome of the command whose PDU is being received.
    pub(super) current: Current,
    pub(super) urgent: Outbox,
    pub(super) sending: VecDeque<usize>,
    pub(super) unsent_bytes: u64,
    /// Memory of owned data that is queued until all of it is sent, in bytes.
    pub(super) made_bytes: usize,
    pub(super) text: Vec<u8>,
    pub(super) text_answer: Option<TextAnswer>,
    pub(super) logged_out: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Current {
    /// Outside the window, or no command.
    Ignored,
    /// Refused: Reject with this reason.
    Refused(u8),
    /// Accepted as this task.
    Task(usize),
}

impl Connection {
    pub(super) fn new(id: ConnectionId, cid: u16, params: Params, stat_sn: u32) -> Connection {
        Connection {
            id,
            cid,
            params,
            stat_sn,
            current: Current::Ignored,
            urgent: Outbox::default(),
            sending: VecDeque::new(),
            unsent_bytes: 0,
            made_bytes: 0,
            text: Vec::new(),
            text_answer: None,
            logged_out: false,
        }
    }

    pub(super) fn take_stat_sn(&mut self) -> u32 {
        let stat_sn = self.stat_sn;
        self.stat_sn = stat_sn.wrapping_add(1);
        stat_sn
    }

    /// Drops all queued payload: no PDU follows the Logout Response.
    pub(super) fn log_out(&mut self) {
        self.sending.clear();
        (self.unsent_bytes, self.made_bytes) = (0, 0);
        self.logged_out = true;
    }
}

/// The connection with this identifier, which must exist.
pub(super) fn at(connections: &mut [Connection], id: ConnectionId) -> &mut Connection {
    let found = connections.iter_mut().find(|connection| connection.id == id);
    let Some(connection) = found else { unreachable!("{id:?} has left the session") };
    connection
}
