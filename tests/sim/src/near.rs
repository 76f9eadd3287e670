//! The near end: the initiator's session and the buffers of its requests.

use std::collections::VecDeque;
use std::sync::Arc;

use proto::initiator::{Command, Completion, Event, Session, Transfer};
use proto::params::Params;
use proto::{Data, Fault, Segment};
use slab::Slab;
use wire::iscsi::{Lun, Pdu, TaskAttribute};

use crate::{Order, Sent, Spans};

/// Its one connection.
const CID: u16 = 0;

/// An initiator.
#[derive(Debug)]
pub struct Near {
    session: Session,
    open: Slab<Request>,
    done: VecDeque<Done>,
    events: VecDeque<Event>,
}

#[derive(Debug)]
struct Request {
    order: Order,
    source: Option<Arc<Vec<u8>>>,
    buffer: Vec<u8>,
    placed: Spans,
}

/// A request that has come back.
#[derive(Clone, Debug)]
pub struct Done {
    /// The caller's name of it, as [`Near::read`] and its like gave it.
    pub token: u64,
    /// What was asked.
    pub order: Order,
    /// What came of it.
    pub completion: Completion,
    /// Data that was read, and room that was not filled.
    pub buffer: Vec<u8>,
    /// Which parts of `buffer` were filled.
    pub placed: Spans,
}

impl Near {
    /// An initiator that has just logged in.
    pub fn new(params: Params, cmd_sn: u32, max_cmd_sn: u32, exp_stat_sn: u32) -> Near {
        Near {
            session: Session::new(params, cmd_sn, max_cmd_sn, exp_stat_sn),
            open: Slab::new(),
            done: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Its session.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Submits a command without data.
    pub fn command(&mut self, order: Order) -> u64 {
        self.submit(order, Transfer::None, None)
    }

    /// Submits a command that expects to read so many bytes.
    pub fn read(&mut self, order: Order, expected_bytes: u32) -> u64 {
        self.submit(order, Transfer::In(expected_bytes), None)
    }

    /// Submits a command that expects to write all of `source`.
    pub fn write(&mut self, order: Order, source: Arc<Vec<u8>>) -> u64 {
        self.submit(order, Transfer::Out(source.len() as u32), Some(source))
    }

    /// The next request that has come back.
    pub fn done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// The next event that is no completion.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes a PDU with its whole data segment.
    ///
    /// # Errors
    /// The connection would be dropped.
    pub fn take(&mut self, header: &[u8; 48], data: &[u8]) -> Result<(), Fault> {
        let pdu = Pdu::parse(header)?;
        let collected = match self.session.segment(CID, &pdu)? {
            Segment::Discard => &[],
            Segment::Collect => data,
            Segment::Payload { token, offset_bytes, len_bytes } => {
                let request = &mut self.open[token as usize];
                request.placed.add(offset_bytes, len_bytes);
                let space = &mut request.buffer[offset_bytes as usize..][..len_bytes as usize];
                space.copy_from_slice(&data[..len_bytes as usize]);
                &[]
            }
        };
        self.session.handle(CID, &pdu, collected)?;
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Completed(completion) => {
                    let token = completion.token;
                    let Request { order, buffer, placed, .. } = self.open.remove(token as usize);
                    self.done.push_back(Done { token, order, completion, buffer, placed });
                }
                other => self.events.push_back(other),
            }
        }
        Ok(())
    }

    /// The next PDU to send.
    pub fn poll_transmit(&mut self) -> Option<Sent> {
        let wants = self.session.wants_transmit(CID);
        let transmit = self.session.poll_transmit(CID);
        assert_eq!(transmit.is_some(), wants, "the session does what it says it wants");
        let transmit = transmit?;
        let header = transmit.header();
        let data = match transmit.data {
            Data::None => Vec::new(),
            Data::Owned(bytes) => bytes,
            Data::Payload { token, offset_bytes, len_bytes } => {
                let source = self.open[token as usize].source.as_ref();
                let source = source.expect("payload is sent only of requests that write");
                source[offset_bytes as usize..][..len_bytes as usize].to_vec()
            }
        };
        Some(Sent { header, data })
    }

    fn submit(&mut self, order: Order, transfer: Transfer, source: Option<Arc<Vec<u8>>>) -> u64 {
        let room = match transfer {
            Transfer::In(len) => len as usize,
            Transfer::None | Transfer::Out(_) => 0,
        };
        let request = Request { order, source, buffer: vec![0; room], placed: Spans::default() };
        let token = self.open.insert(request) as u64;
        self.session.submit(Command {
            token,
            lun: Lun::from_number(0),
            cdb: order.emit(),
            transfer,
            attribute: TaskAttribute::Simple,
        });
        token
    }
}
