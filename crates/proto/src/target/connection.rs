//! One connection of a session: its numbers, what waits to be sent on it, and the request whose PDU is being received
//! (RFC 7143 section 4.2.2.2: StatSN is a connection's, CmdSN is the session's).
//!
//! A connection may be lost without harm to the others of its session: its own tasks end, those of the others go on.
//! Numbers of commands that were lost with it are the initiator's to fill, by ABORT TASK on another connection
//! (section 11.6.1). Nothing is kept for it to come back to, since error recovery is at level 0: a connection that is
//! logged in again under the same CID takes the place of the old one (section 6.3.4).

use std::collections::VecDeque;

use super::TextAnswer;
use crate::outbox::Outbox;
use crate::params::Params;

/// Names a connection of a session; no name is used twice in a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(pub(super) u32);

impl ConnectionId {
    /// The one that the session was logged in with.
    pub const LEADING: ConnectionId = ConnectionId(0);
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    /// Its initiator's name for it.
    pub(super) cid: u16,
    pub(super) params: Params,
    pub(super) stat_sn: u32,
    /// What became of the command whose PDU is being received.
    pub(super) current: Current,
    pub(super) urgent: Outbox,
    pub(super) sending: VecDeque<usize>,
    pub(super) unsent_bytes: u64,
    /// Of it what was made for it and is kept here until all of it is sent.
    pub(super) made_bytes: usize,
    pub(super) text: Vec<u8>,
    pub(super) text_answer: Option<TextAnswer>,
    pub(super) logged_out: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Current {
    /// It is outside the window, or no command.
    Ignored,
    /// It cannot be taken: Reject with this reason.
    Refused(u8),
    /// It became this task.
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

    /// Nothing that is not sent by now is sent any more.
    pub(super) fn log_out(&mut self) {
        self.sending.clear();
        (self.unsent_bytes, self.made_bytes) = (0, 0);
        self.logged_out = true;
    }
}

/// A connection that is there.
pub(super) fn at(connections: &mut [Connection], id: ConnectionId) -> &mut Connection {
    let found = connections.iter_mut().find(|connection| connection.id == id);
    let Some(connection) = found else { unreachable!("{id:?} has left the session") };
    connection
}
