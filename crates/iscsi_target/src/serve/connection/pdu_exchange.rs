//! PDUs of a connection, between the engine and the session: placement of received payload, and selection of the next
//! PDU.

use std::sync::Arc;

use engine::{Landing, Outgoing, Receiver, Sender, Span};
use event::Instant;
use net::clock;
use proto::login::{Admitted, SEGMENT_BYTES};
use proto::name;
use proto::target::ConnectionId;
use proto::{Data, Fault, Segment};
use slab::Slab;
use wire::iscsi::{BHS_LEN, Bhs, Pdu};

use crate::backend::Backend;
use crate::lun::Port;
use crate::serve::Shared;
use crate::serve::connection::admission::Door;
use crate::serve::connection::end_reason::{End, Ending};
use crate::serve::connection::link::{Link, Phase};
use crate::serve::session::state::SessionState;
use crate::serve::session::transfer::{Body, Payload, Place};

/// A client in its turn, with the state that all clients share.
pub(crate) struct Active<'a> {
    pub(crate) link: &'a mut Link,
    pub(crate) sides: &'a mut Slab<SessionState>,
    pub(crate) shared: &'a mut Shared,
}

impl Receiver for Active<'_> {
    type Place = Place;
    type Error = End;

    fn header(&mut self, header: &[u8; BHS_LEN], _ahs: &[u8]) -> Result<Landing<Place>, End> {
        let (side, connection) = match &mut self.link.phase {
            // Nothing may follow the last request of a login before its response.
            Phase::Login { login, .. } if login.outcome().is_some() => return Err(End::NotLogin),
            Phase::Login { .. } => {
                let pdu = Pdu::parse(header).map_err(|_| End::NotLogin)?;
                if Bhs::new(header).data_segment_len() > SEGMENT_BYTES {
                    return Err(End::NotLogin);
                }
                self.link.pdu = Some(pdu);
                return Ok(Landing::Collect);
            }
            Phase::Full { side, connection } => (*side, *connection),
        };
        let pdu = Pdu::parse(header).map_err(Fault::from)?;
        if let (Some(trail), Pdu::ScsiCommand(command)) = (&mut self.sides[side].trail, &pdu) {
            trail.command(self.link.cid, command);
        }
        self.sides[side].session.begin(connection, &pdu)?;
        self.link.pdu = Some(pdu);
        self.handle_events(side);
        let side = &mut self.sides[side];
        Ok(match side.session.segment(connection, &pdu) {
            Segment::Discard => Landing::Discard,
            Segment::Collect => Landing::Collect,
            Segment::Payload { token, offset_bytes, len_bytes } => {
                side.member(connection).landing = Some(token);
                Landing::Place { place: Place { token, offset_bytes }, len_bytes: len_bytes as usize }
            }
        })
    }

    fn space(&mut self, place: &Place, offset_bytes: usize, len_bytes: usize) -> &mut [u8] {
        let Phase::Full { side, .. } = self.link.phase else {
            unreachable!("payload comes after the login");
        };
        self.sides[side].space(place, offset_bytes, len_bytes, self.shared)
    }

    fn laid(&mut self, place: &Place, len_bytes: usize) {
        if let Phase::Full { side, .. } = self.link.phase {
            self.sides[side].laid(place.token, len_bytes, self.shared);
        }
    }

    fn pdu(&mut self, header: &[u8; BHS_LEN], collected: &[u8]) -> Result<(), End> {
        let Some(pdu) = self.link.pdu.take() else {
            unreachable!("every PDU begins with its header, in the same phase");
        };
        let (side, connection) = match &mut self.link.phase {
            Phase::Login { login, .. } => {
                if let Pdu::LoginRequest(request) = pdu {
                    let mut door = Door { sessions: &mut self.shared.admission.sessions, sides: self.sides };
                    if let Err(error) = login.handle_request(&request, collected, &mut door) {
                        self.link.end = Some(End::Login(error));
                    }
                } else {
                    login.handle_other(pdu.itt());
                    self.link.end = Some(End::NotLogin);
                }
                return Ok(());
            }
            Phase::Full { side, connection } => (*side, *connection),
        };
        let place = &mut self.sides[side];
        // A transfer that was ended meanwhile was kept for the rest of this PDU.
        if let Some(token) = place.member(connection).landing.take()
            && matches!(place.transfers[token as usize].body, Body::Waste)
        {
            place.remove(token as usize);
        }
        if let Some(trail) = &mut place.trail {
            trail.pdu(self.link.cid, &pdu, self.link.span);
        }
        place.session.handle(connection, &pdu, header, collected)?;
        place.count_early(self.shared)?;
        self.handle_events(side);
        self.shared.turn.look(clock::now);
        Ok(())
    }

    fn bad_header(&mut self) -> End {
        End::Fault(Fault::HeaderDigest)
    }

    fn bad_data(&mut self, header: &[u8; BHS_LEN]) -> Result<(), End> {
        self.link.pdu = None;
        if let Phase::Full { side, connection } = self.link.phase {
            self.sides[side].session.reject_damaged(connection, header);
        }
        self.link.end = Some(End::Fault(Fault::DataDigest));
        Ok(())
    }

    /// Also evaluated within a turn: the requests of one read can need many times the memory that exists.
    fn wants_more(&self) -> bool {
        !self.shared.turn.is_over() && self.link.may_read(self.sides, self.shared)
    }

    fn wants_times(&self) -> bool {
        self.shared.report.tracer.is_some()
    }

    fn came(&mut self, at: Instant) {
        if let Phase::Full { side, .. } = self.link.phase
            && let Some(trail) = &mut self.sides[side].trail
        {
            trail.came(at);
        }
    }

    fn lies(&mut self, span: Span) {
        self.link.span = span;
    }
}

impl Sender for Active<'_> {
    type Data = Payload;

    fn next(&mut self) -> Option<Outgoing<Payload>> {
        let transmit = match &mut self.link.phase {
            Phase::Login { login, .. } => {
                let admitted = login.outcome().cloned();
                if admitted.as_ref().is_some_and(|admitted| !self.may_begin(admitted)) {
                    return None;
                }
                let Phase::Login { login, .. } = &mut self.link.phase else { return None };
                let (response, text) = login.poll_transmit()?;
                let mut header = [0; BHS_LEN];
                response.emit(&mut header);
                if let Some(admitted) = login.outcome().cloned() {
                    self.admit(&admitted);
                }
                return Some(Outgoing {
                    header,
                    data: Some(Payload::Owned(text)),
                    is_payload: false,
                    mark: None,
                    is_alone: false,
                });
            }
            Phase::Full { side, connection } => self.sides[*side].session.poll_transmit(*connection)?,
        };
        let is_alone = self.shared.rules.compat.sends_alone() && matches!(transmit.pdu, Pdu::ScsiResponse(_));
        let header = transmit.header();
        let (data, is_payload) = match transmit.data {
            Data::None => (None, false),
            Data::Owned(bytes) => (Some(Payload::Owned(bytes)), false),
            Data::Payload { token, offset_bytes, len_bytes } => {
                (Some(self.payload(token, offset_bytes, len_bytes)), true)
            }
        };
        let mark = match self.link.phase {
            Phase::Full { side, .. } => self.sides[side].trail.as_mut(),
            Phase::Login { .. } => None,
        };
        let mark = mark.and_then(|trail| trail.sends(self.link.cid, &transmit.pdu));
        Some(Outgoing { header, data, is_payload, mark, is_alone })
    }

    fn bytes<'a>(&'a self, data: &'a Payload) -> &'a [u8] {
        match data {
            Payload::Owned(bytes) => bytes,
            Payload::Buffer { buffer, offset_bytes, len_bytes } => &buffer[*offset_bytes..][..*len_bytes],
            Payload::Memory { lun, offset_bytes, len_bytes } => {
                let backend = self.shared.luns.lun(*lun).map(crate::lun::Lun::backend);
                let Some(Backend::Inline(inline)) = backend else {
                    unreachable!("the payload was made for a LUN that is served inline");
                };
                inline.bytes(*offset_bytes, *len_bytes)
            }
        }
    }
}

impl Active<'_> {
    /// Returns true if nothing is left of a session or connection that the new one replaces. A connection joins its
    /// session here, so that the session does not end with the replaced connection.
    fn may_begin(&mut self, admitted: &Admitted) -> bool {
        let Shared { admission, management, .. } = &mut *self.shared;
        if !admitted.joins {
            return admission
                .sessions
                .may_begin(admitted.tsih, self.link.index, |nexus| management.is_busy(nexus));
        }
        if self.link.joining.is_none() {
            let found = self.sides.iter_mut().find(|(_, side)| side.identity.tsih == admitted.tsih);
            let Some((index, side)) = found else {
                // The session has ended since the login.
                self.link.end = Some(End::Replaced);
                return false;
            };
            let connection = side.join(admitted, self.link.index, self.link.local, self.shared);
            self.link.joining = Some((index, connection));
        }
        self.link.joining.is_some_and(|(side, connection)| self.sides[side].may_begin(connection))
    }

    /// A login has succeeded: a session begins, or has one more connection.
    fn admit(&mut self, admitted: &Admitted) {
        let candidate = &admitted.candidate;
        let (client, local) = (self.link.index, self.link.local);
        if let Some((side, connection)) = self.link.joining {
            self.link.joined(side, connection, candidate);
            return;
        }
        let nexus = self.shared.admission.sessions.next_nexus();
        let entry = self.sides.vacant_entry();
        let index = entry.key();
        let side = entry.insert(SessionState::new(index, nexus, admitted, client, local, self.shared));
        side.session.set_separate_status(self.shared.rules.compat.separate_status);
        if side.identity.iqn.is_some() {
            let port = Port {
                name: name::folded(&candidate.initiator_name),
                isid: candidate.isid,
                user: candidate.proof.user().map(str::to_owned),
            };
            side.register_version = self.shared.luns.begin(nexus, port);
        }
        self.shared.report.stats.sessions += 1;
        self.shared.admission.open_sessions += 1;
        self.link.joined(index, ConnectionId::LEADING, candidate);
    }

    /// Handles the events of a PDU, and the effects on this and other connections.
    fn handle_events(&mut self, side: usize) {
        let side = &mut self.sides[side];
        side.handle_events(self.shared);
        if side.members.len() > 1 {
            side.stir_others(self.link.index, self.shared);
        }
        if !self.shared.effects.endings.is_empty() {
            let own = |ending: &Ending| ending.client == self.link.index && !ending.is_abrupt;
            if let Some(place) = self.shared.effects.endings.iter().position(own) {
                self.link.end = Some(self.shared.effects.endings.swap_remove(place).end);
            }
        }
    }

    /// Names a stretch of a transfer's data; with the last one the transfer is over.
    fn payload(&mut self, token: u64, offset_bytes: u32, len_bytes: u32) -> Payload {
        let Phase::Full { side, .. } = self.link.phase else {
            unreachable!("payload is sent after the login");
        };
        let side = &mut self.sides[side];
        let transfer = &side.transfers[token as usize];
        let payload = match &transfer.body {
            Body::Sending(buffer) => Payload::Buffer {
                buffer: Arc::clone(buffer),
                offset_bytes: offset_bytes as usize,
                len_bytes: len_bytes as usize,
            },
            _ => Payload::Memory {
                lun: transfer.lun,
                offset_bytes: transfer.offset_bytes + u64::from(offset_bytes),
                len_bytes: len_bytes as usize,
            },
        };
        if offset_bytes + len_bytes == transfer.len_bytes {
            side.remove(token as usize);
        }
        payload
    }
}
