//! PDUs of a connection, between the engine and the session: placement of received payload, and selection of the next
//! PDU.

use std::sync::Arc;

use block::Buffer;
use engine::{Landing, Outgoing, Receiver, Sender, Span};
use event::Instant;
use proto::{Data, Fault, Segment};
use wire::iscsi::{BHS_LEN, Pdu};

use crate::error::Error;
use crate::request::Body;
use crate::session::dead_peer::Pulse;
use crate::session::payload::{Payload, Place};
use crate::session::state::SessionState;

/// State of one connection except its socket.
pub(crate) struct Port {
    pub(crate) cid: u16,
    pub(crate) pulse: Pulse,
    pub(crate) pdu: Option<Pdu>,
    /// Position of the PDU in the byte stream, set when the whole PDU has been received.
    pub(crate) span: Span,
}

/// A session with the state of one of its connections.
pub(crate) struct AtPort<'a> {
    pub(crate) side: &'a mut SessionState,
    pub(crate) port: &'a mut Port,
}

impl SessionState {
    fn write_buffer(&self, token: usize) -> &Arc<Buffer> {
        let Body::Write(buffer) = &self.requests.open[token].request.body else {
            unreachable!("the session sends payload only of requests that write")
        };
        buffer
    }
}

impl Receiver for AtPort<'_> {
    type Place = Place;
    type Error = Error;

    fn header(&mut self, header: &[u8; BHS_LEN], _ahs: &[u8]) -> Result<Landing<Place>, Error> {
        let address = self.side.address;
        let fault = |source| Error::Fault { address, source };
        let pdu = Pdu::parse(header).map_err(|error| fault(error.into()))?;
        let segment = self.side.session.segment(self.port.cid, &pdu).map_err(fault)?;
        // A NOP-In is a sign of life but no progress of a command, and neither is an unsolicited PDU.
        if matches!(pdu, Pdu::DataIn(_) | Pdu::ScsiResponse(_) | Pdu::R2t(_)) {
            self.side.watch.progress(self.port.cid, self.side.now);
        }
        if let Some(trail) = &mut self.side.records.trail {
            trail.header(&pdu);
        }
        self.port.pdu = Some(pdu);
        self.port.pulse.hear(self.side.now);
        Ok(match segment {
            Segment::Discard => Landing::Discard,
            Segment::Collect => Landing::Collect,
            Segment::Payload { token, offset_bytes, len_bytes } => Landing::Place {
                place: Place { token: token as usize, offset_bytes: offset_bytes as usize },
                len_bytes: len_bytes as usize,
            },
        })
    }

    fn space(&mut self, place: &Place, offset_bytes: usize, len_bytes: usize) -> &mut [u8] {
        // A large segment takes long on a slow path; each part received is a sign of life.
        self.port.pulse.hear(self.side.now);
        self.side.watch.progress(self.port.cid, self.side.now);
        match &mut self.side.requests.open[place.token].request.body {
            Body::Read(buffer) => &mut buffer[place.offset_bytes + offset_bytes..][..len_bytes],
            _ => unreachable!("the session places payload only in requests that read"),
        }
    }

    fn pdu(&mut self, _header: &[u8; BHS_LEN], collected: &[u8]) -> Result<(), Error> {
        let Some(pdu) = self.port.pdu.take() else { unreachable!("every PDU begins with its header") };
        if let Some(trail) = &mut self.side.records.trail {
            trail.pdu(self.port.cid, &pdu, self.port.span);
        }
        let address = self.side.address;
        let handled = self.side.session.handle(self.port.cid, &pdu, collected);
        handled.map_err(|source| Error::Fault { address, source })?;
        self.side.handle_events()
    }

    fn bad_header(&mut self) -> Error {
        Error::Fault { address: self.side.address, source: Fault::HeaderDigest }
    }

    fn bad_data(&mut self, _header: &[u8; BHS_LEN]) -> Result<(), Error> {
        Err(Error::Fault { address: self.side.address, source: Fault::DataDigest })
    }

    fn wants_times(&self) -> bool {
        self.side.records.trail.is_some()
    }

    fn came(&mut self, at: Instant) {
        if let Some(trail) = &mut self.side.records.trail {
            trail.came(at);
            self.side.now = self.side.now.max(at);
        }
    }

    fn lies(&mut self, span: Span) {
        self.port.span = span;
    }
}

impl Sender for AtPort<'_> {
    type Data = Payload;

    fn next(&mut self) -> Option<Outgoing<Payload>> {
        let transmit = self.side.session.poll_transmit(self.port.cid)?;
        let header = transmit.header();
        let (data, is_payload) = match transmit.data {
            Data::None => (None, false),
            Data::Owned(bytes) => (Some(Payload::Owned(bytes)), false),
            Data::Payload { token, offset_bytes, len_bytes } => {
                let buffer = Arc::clone(self.side.write_buffer(token as usize));
                let (offset_bytes, len_bytes) = (offset_bytes as usize, len_bytes as usize);
                (Some(Payload::Shared { buffer, offset_bytes, len_bytes }), true)
            }
        };
        let side = &mut *self.side;
        let mark =
            side.records.trail.as_mut().and_then(|trail| trail.sends(self.port.cid, &transmit.pdu, side.now));
        Some(Outgoing { header, data, is_payload, mark, is_alone: false })
    }

    fn bytes<'a>(&'a self, data: &'a Payload) -> &'a [u8] {
        data.bytes()
    }
}
