//! State of a connection between its socket and its session: login or full feature phase, the PDU at hand, the end.

use std::net::SocketAddr;

use engine::Span;
use event::Instant;
use proto::login::{Candidate, Target as Login};
use proto::target::ConnectionId;
use slab::Slab;
use wire::iscsi::Pdu;

use crate::serve::Shared;
use crate::serve::connection::end_reason::End;
use crate::serve::session::request_trace::Trail;
use crate::serve::session::state::SessionState;

/// State of a connection that belongs neither to its socket nor to its session.
pub(crate) struct Link {
    pub(crate) index: usize,
    pub(crate) peer: SocketAddr,
    /// Local address of the connection.
    pub(crate) local: SocketAddr,
    pub(crate) name: String,
    pub(crate) phase: Phase,
    /// Session and connection that the login has joined, before the initiator has the final Login Response.
    pub(crate) joining: Option<(usize, ConnectionId)>,
    /// CID, chosen by the initiator.
    pub(crate) cid: u16,
    /// PDU whose data segment is being received, and the span of the complete segment.
    pub(crate) pdu: Option<Pdu>,
    pub(crate) span: Span,
    pub(crate) end: Option<End>,
}

pub(crate) enum Phase {
    Login {
        login: Box<Login>,
        deadline: Instant,
    },
    /// In the full feature phase, as a connection of a session.
    Full {
        side: usize,
        connection: ConnectionId,
    },
}

impl Link {
    /// See [`SessionState::may_read`].
    pub(crate) fn may_read(&self, sides: &Slab<SessionState>, shared: &Shared) -> bool {
        self.end.is_none()
            && match self.phase {
                Phase::Login { .. } => true,
                Phase::Full { side, connection } => sides[side].may_read(connection, shared),
            }
    }

    /// Request trace of the session; `None` before the login or without a trace.
    pub(crate) fn trail<'a>(&self, sides: &'a mut Slab<SessionState>) -> Option<&'a mut Trail> {
        match self.phase {
            Phase::Full { side, .. } => sides[side].trail.as_mut(),
            Phase::Login { .. } => None,
        }
    }

    /// Enters the full feature phase as a connection of a session.
    pub(crate) fn joined(&mut self, side: usize, connection: ConnectionId, candidate: &Candidate) {
        self.name = format!("{} ({})", candidate.initiator_name, self.peer);
        self.cid = candidate.cid;
        self.phase = Phase::Full { side, connection };
        self.joining = None;
    }
}
