//! A connection's PDUs, between the engine and its side: where received payload lands, what is sent next.

use std::sync::Arc;

use engine::{Landing, Outgoing, Receiver, Sender};
use proto::login::SEGMENT_BYTES;
use proto::{Data, Fault, Segment};
use wire::iscsi::{BHS_LEN, Bhs, Pdu};

use super::Shared;
use super::end::End;
use super::side::{Phase, Side};
use super::transfer::{Body, Payload, Place};
use crate::backend::Backend;

/// A client at work, with what all clients share.
pub(super) struct Active<'a> {
    pub(super) side: &'a mut Side,
    pub(super) shared: &'a mut Shared,
}

impl Receiver for Active<'_> {
    type Place = Place;
    type Error = End;

    fn header(&mut self, header: &[u8; BHS_LEN], _ahs: &[u8]) -> Result<Landing<Place>, End> {
        match &mut self.side.phase {
            // Nothing may follow the last request of a login before its response.
            Phase::Login { login, .. } if login.outcome().is_some() => Err(End::NotLogin),
            Phase::Login { .. } => {
                let pdu = Pdu::parse(header).map_err(|_| End::NotLogin)?;
                if Bhs::new(header).data_segment_len() > SEGMENT_BYTES {
                    return Err(End::NotLogin);
                }
                self.side.pdu = Some(pdu);
                Ok(Landing::Collect)
            }
            Phase::Full { session, .. } => {
                let pdu = Pdu::parse(header).map_err(Fault::from)?;
                session.begin(&pdu)?;
                self.side.pdu = Some(pdu);
                self.side.handle_events(self.shared);
                Ok(match self.side.session().segment(&pdu) {
                    Segment::Discard => Landing::Discard,
                    Segment::Collect => Landing::Collect,
                    Segment::Payload { token, offset_bytes, len_bytes } => {
                        self.side.landing = Some(token);
                        Landing::Place { place: Place { token, offset_bytes }, len_bytes: len_bytes as usize }
                    }
                })
            }
        }
    }

    fn space(&mut self, place: &Place, offset_bytes: usize, len_bytes: usize) -> &mut [u8] {
        self.side.space(place, offset_bytes, len_bytes, self.shared)
    }

    fn pdu(&mut self, header: &[u8; BHS_LEN], collected: &[u8]) -> Result<(), End> {
        let Some(pdu) = self.side.pdu.take() else {
            unreachable!("every PDU begins with its header, in the same phase");
        };
        // A transfer that was ended meanwhile was kept for the rest of this PDU.
        if let Some(token) = self.side.landing.take()
            && matches!(self.side.transfers[token as usize].body, Body::Waste)
        {
            self.side.remove(token as usize);
        }
        match &mut self.side.phase {
            Phase::Login { login, .. } => {
                if let Pdu::LoginRequest(request) = pdu {
                    let result = login.handle_request(&request, collected, &mut self.shared.sessions);
                    if let Err(error) = result {
                        self.side.end = Some(End::Login(error));
                    }
                } else {
                    login.handle_other(pdu.itt());
                    self.side.end = Some(End::NotLogin);
                }
                Ok(())
            }
            Phase::Full { session, .. } => {
                session.handle(&pdu, header, collected)?;
                self.side.handle_events(self.shared);
                Ok(())
            }
        }
    }

    fn bad_header(&mut self) -> End {
        End::Fault(Fault::HeaderDigest)
    }

    fn bad_data(&mut self, header: &[u8; BHS_LEN]) -> Result<(), End> {
        self.side.pdu = None;
        self.side.session().reject_damaged(header);
        self.side.end = Some(End::Fault(Fault::DataDigest));
        Ok(())
    }

    fn wants_more(&self) -> bool {
        self.side.end.is_none()
    }
}

impl Sender for Active<'_> {
    type Data = Payload;

    fn next(&mut self) -> Option<Outgoing<Payload>> {
        let transmit = match &mut self.side.phase {
            Phase::Login { login, .. } => {
                let (response, text) = login.poll_transmit()?;
                let mut header = [0; BHS_LEN];
                response.emit(&mut header);
                let admitted = login.outcome().cloned();
                if let Some(admitted) = admitted {
                    self.side.admit(&admitted, self.shared);
                }
                return Some(Outgoing { header, data: Some(Payload::Owned(text)), is_payload: false });
            }
            Phase::Full { session, .. } => session.poll_transmit()?,
        };
        let (data, is_payload) = match transmit.data {
            Data::None => (None, false),
            Data::Owned(bytes) => (Some(Payload::Owned(bytes)), false),
            Data::Payload { token, offset_bytes, len_bytes } => {
                (Some(self.payload(token, offset_bytes, len_bytes)), true)
            }
        };
        Some(Outgoing { header: transmit.header, data, is_payload })
    }

    fn bytes<'a>(&'a self, data: &'a Payload) -> &'a [u8] {
        match data {
            Payload::Owned(bytes) => bytes,
            Payload::Buffer { buffer, offset_bytes, len_bytes } => &buffer[*offset_bytes..][..*len_bytes],
            Payload::Memory { lun, offset_bytes, len_bytes } => {
                let backend = self.shared.luns.lun(*lun).map(super::super::lun::Lun::backend);
                let Some(Backend::Memory(memory)) = backend else {
                    unreachable!("the payload was made for a LUN in memory");
                };
                &memory.bytes()[*offset_bytes as usize..][..*len_bytes]
            }
        }
    }
}

impl Active<'_> {
    /// Names a stretch of a transfer's data; with the last one the transfer is over.
    fn payload(&mut self, token: u64, offset_bytes: u32, len_bytes: u32) -> Payload {
        let transfer = &self.side.transfers[token as usize];
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
            self.side.remove(token as usize);
        }
        payload
    }
}
