//! What a session does with its PDUs: commands out, data and statuses in, and what becomes of a command
//! that the target would not take.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::{Buffer, Buffers, Landing, Outgoing, Receiver, Sender};
use event::{Instant, Io, Sink};
use proto::initiator::{Command, Completion, Event, Session, Transfer};
use proto::{Data, Fault, Segment};
use slab::Slab;
use store::tables::Recorder;
use wire::iscsi::{BHS_LEN, Lun, Pdu, TaskAttribute};
use wire::scsi::{Sense, SenseKey, Status};

use crate::error::{Error, Failure};
use crate::request::{Body, Completed, Request};

/// How long a target is left alone that had no room, at first and at most.
const REFUSED_MIN: Duration = Duration::from_millis(5);
const REFUSED_MAX: Duration = Duration::from_secs(1);
/// Times a command is issued again after a unit attention, which is told once per condition.
const ATTENTIONS_MAX: u8 = 3;

/// Everything of a session that is not its socket.
pub(crate) struct Side {
    pub(crate) session: Session,
    pub(crate) address: SocketAddr,
    pub(crate) lun: Lun,
    /// What is outstanding, by token.
    pub(crate) open: Slab<Open>,
    /// Commands to issue again at once: they met a unit attention.
    pub(crate) again: VecDeque<usize>,
    /// Commands to issue again later: the target had no room.
    pub(crate) refused: Vec<usize>,
    pub(crate) refusal: Option<Refusal>,
    pub(crate) outstanding_bytes: u64,
    pub(crate) buffers: Buffers,
    pub(crate) finished: VecDeque<Completed>,
    pub(crate) texts: VecDeque<Vec<u8>>,
    pub(crate) ios: Option<Recorder<Io>>,
    /// For the mean request.
    pub(crate) issued: (u64, u64),
    /// When the target was last heard, and whether it was asked for a sign since.
    pub(crate) heard: Instant,
    pub(crate) is_pinged: bool,
    pub(crate) is_logged_out: bool,
    pub(crate) pdu: Option<Pdu>,
    pub(crate) now: Instant,
    pub(crate) timeout: Duration,
}

/// A target that had no room is left alone for a while, longer each time.
#[derive(Clone, Copy)]
pub(crate) struct Refusal {
    pub(crate) since: Instant,
    pub(crate) wait: Duration,
    pub(crate) until: Instant,
}

pub(crate) struct Open {
    pub(crate) request: Request,
    pub(crate) issued: Instant,
    pub(crate) attentions: u8,
}

/// Where received payload lands: in the buffer of an open request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    token: usize,
    offset_bytes: usize,
}

/// What a PDU is sent from.
#[derive(Debug)]
pub(crate) enum Payload {
    /// Part of a write's buffer, which the queue keeps alive: a target may answer before it has all.
    Shared { buffer: Arc<Buffer>, offset_bytes: usize, len_bytes: usize },
    /// Bytes made for this PDU.
    Owned(Vec<u8>),
}

impl Payload {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Payload::Owned(bytes) => bytes,
            Payload::Shared { buffer, offset_bytes, len_bytes } => &buffer[*offset_bytes..][..*len_bytes],
        }
    }
}

impl Side {
    pub(crate) fn submit(&mut self, token: usize) {
        let Request { cdb, body, .. } = &self.open[token].request;
        let transfer = match body {
            Body::None => Transfer::None,
            Body::Read(buffer) => Transfer::In(buffer.len() as u32),
            Body::Write(buffer) => Transfer::Out(buffer.len() as u32),
        };
        self.session.submit(Command {
            token: token as u64,
            lun: self.lun,
            cdb: cdb.emit(),
            transfer,
            attribute: TaskAttribute::Simple,
        });
    }

    fn handle_events(&mut self) -> Result<(), Error> {
        let address = self.address;
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Completed(completion) => self.complete(&completion),
                Event::Text(text) => self.texts.push_back(text),
                Event::LoggedOut { .. } => self.is_logged_out = true,
                Event::LogoutRequested { .. } | Event::Dropping { .. } => {
                    return Err(Error::LogoutRequested { address });
                }
                Event::Rejected { reason, .. } => return Err(Error::Rejected { address, reason }),
                Event::Pong | Event::Vendor { .. } | Event::Aborted { .. } | Event::Managed { .. } => {}
            }
        }
        Ok(())
    }

    fn complete(&mut self, completion: &Completion) {
        let token = completion.token as usize;
        let sense = Sense::parse(&completion.sense).ok();
        let status = Status(completion.status);
        let open = &mut self.open[token];
        if is_attention(status, sense.as_ref()) && open.attentions < ATTENTIONS_MAX {
            open.attentions += 1;
            self.again.push_back(token);
            return;
        }
        if matches!(status, Status::BUSY | Status::TASK_SET_FULL) && self.may_wait() {
            self.refused.push(token);
            return;
        }
        self.refusal = None;
        let Open { request, issued, .. } = self.open.remove(token);
        self.outstanding_bytes -= request.len_bytes();
        if let (Some(table), Some(op)) = (&mut self.ios, request.op()) {
            table.record(&Io {
                issued,
                completed: self.now,
                op,
                offset_bytes: request.offset_bytes,
                len_bytes: request.len_bytes() as u32,
                status: status.0,
            });
        }
        let response = completion.response;
        let transferred_bytes = completion.transferred_bytes;
        let short_bytes = (request.is_exact() && u64::from(transferred_bytes) < request.len_bytes())
            .then_some(transferred_bytes);
        let result = match (response, status, short_bytes) {
            (0, Status::GOOD, None) => Ok(()),
            _ => Err(Failure { status, response, sense, short_bytes }),
        };
        let completed = self.now;
        self.finished.push_back(Completed { request, issued, completed, transferred_bytes, result });
    }

    /// Notes that the target has no room; `false` if that has gone on for too long.
    fn may_wait(&mut self) -> bool {
        let now = self.now;
        let refusal = self.refusal.get_or_insert(Refusal { since: now, wait: REFUSED_MIN, until: now });
        if now >= refusal.until {
            refusal.until = now + refusal.wait;
            refusal.wait = (refusal.wait * 2).min(REFUSED_MAX);
        }
        now.since(refusal.since) < self.timeout
    }

    /// When commands that were refused are issued again.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        match self.refusal {
            _ if self.refused.is_empty() => None,
            Some(refusal) => Some(refusal.until),
            None => Some(Instant::ZERO),
        }
    }

    fn write_buffer(&self, token: usize) -> &Arc<Buffer> {
        match &self.open[token].request.body {
            Body::Write(buffer) => buffer,
            _ => unreachable!("the session sends payload only of requests that write"),
        }
    }
}

fn is_attention(status: Status, sense: Option<&Sense>) -> bool {
    status == Status::CHECK_CONDITION && sense.is_some_and(|sense| sense.key == SenseKey::UnitAttention)
}

impl Receiver for Side {
    type Place = Place;
    type Error = Error;

    fn header(&mut self, header: &[u8; BHS_LEN], _ahs: &[u8]) -> Result<Landing<Place>, Error> {
        let address = self.address;
        let fault = |source| Error::Fault { address, source };
        let pdu = Pdu::parse(header).map_err(|error| fault(error.into()))?;
        let segment = self.session.segment(0, &pdu).map_err(fault)?;
        self.pdu = Some(pdu);
        (self.heard, self.is_pinged) = (self.now, false);
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
        // A large segment takes its time on a slow path; every part of it is a sign of life.
        self.heard = self.now;
        match &mut self.open[place.token].request.body {
            Body::Read(buffer) => &mut buffer[place.offset_bytes + offset_bytes..][..len_bytes],
            _ => unreachable!("the session places payload only in requests that read"),
        }
    }

    fn pdu(&mut self, _header: &[u8; BHS_LEN], collected: &[u8]) -> Result<(), Error> {
        let Some(pdu) = self.pdu.take() else { unreachable!("every PDU begins with its header") };
        let address = self.address;
        self.session.handle(0, &pdu, collected).map_err(|source| Error::Fault { address, source })?;
        self.handle_events()
    }

    fn bad_header(&mut self) -> Error {
        Error::Fault { address: self.address, source: Fault::HeaderDigest }
    }

    fn bad_data(&mut self, _header: &[u8; BHS_LEN]) -> Result<(), Error> {
        Err(Error::Fault { address: self.address, source: Fault::DataDigest })
    }
}

impl Sender for Side {
    type Data = Payload;

    fn next(&mut self) -> Option<Outgoing<Payload>> {
        let transmit = self.session.poll_transmit(0)?;
        let (data, is_payload) = match transmit.data {
            Data::None => (None, false),
            Data::Owned(bytes) => (Some(Payload::Owned(bytes)), false),
            Data::Payload { token, offset_bytes, len_bytes } => {
                let buffer = Arc::clone(self.write_buffer(token as usize));
                let (offset_bytes, len_bytes) = (offset_bytes as usize, len_bytes as usize);
                (Some(Payload::Shared { buffer, offset_bytes, len_bytes }), true)
            }
        };
        Some(Outgoing { header: transmit.header, data, is_payload })
    }

    fn bytes<'a>(&'a self, data: &'a Payload) -> &'a [u8] {
        data.bytes()
    }
}
