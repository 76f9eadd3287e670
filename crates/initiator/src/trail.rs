//! What the requests of a session went through at this end, from the caller to the socket and back: the rows
//! `near` of the tables `layers` and `pdus`.
//!
//! It is told what happens and when; nothing here decides anything, and a session without it works the same.

use std::collections::VecDeque;
use std::rc::Rc;

use engine::trace::{Ledger, Place, Tracer};
use engine::{Departed, Mark, Span, Stamped};
use event::{Instant, Layers, NearTimes, RequestId, TcpTimes};
use proto::initiator::Session;
use wire::iscsi::{Lun, Pdu};

use crate::side::Open;

/// A session's requests.
pub(crate) struct Trail {
    ledger: Ledger<NearTimes>,
    /// Commands that the window has not let go, the oldest first; `None` for those that move nothing and have no rows.
    queued: VecDeque<Option<Place>>,
    /// Commands that it has let go and that are not sent.
    granted: u32,
    /// Requests whose caller is about to be told.
    ended: Vec<Place>,
    /// When what is being received was read.
    came: Instant,
}

impl Trail {
    /// For a session, by its number in the tables.
    pub(crate) fn new(tracer: Rc<Tracer>, session: u64) -> Trail {
        let ledger = Ledger::new(tracer, session);
        Trail { ledger, queued: VecDeque::new(), granted: 0, ended: Vec::new(), came: Instant::ZERO }
    }

    /// The session was lost and made again: what is open will be submitted once more.
    pub(crate) fn begin_again(&mut self, session: u64) {
        self.ledger.begin_again(session);
        self.queued.clear();
        self.ended.clear();
        self.granted = 0;
    }

    /// A request was given to the session, which calls it `itt`.
    pub(crate) fn submitted(&mut self, itt: u32, open: &Open, lun: Lun, now: Instant) {
        let Some(op) = open.request.op() else { return self.queued.push_back(None) };
        let place = self.ledger.begin(Layers {
            id: RequestId { session: self.ledger.session(), connection: 0, itt, cmd_sn: 0 },
            op,
            status: 0,
            lun: lun.number().unwrap_or(0),
            len_bytes: open.request.len_bytes() as u32,
            offset_bytes: open.request.offset_bytes,
            command_stream_end: 0,
            status_stream_end: 0,
            tcp: TcpTimes::default(),
            times: NearTimes { called: open.issued, scsi: open.issued, queued: now, ..NearTimes::default() },
        });
        self.queued.push_back(Some(place));
    }

    /// Lets those go that the command window lets go, which has room for as many as `session` says.
    pub(crate) fn grant(&mut self, session: &Session, now: Instant) {
        let room = session.command_room();
        while self.granted < room {
            let Some(place) = self.queued.pop_front() else { return };
            match place.and_then(|place| self.ledger.at(place)) {
                // Sent before others that had waited longer: it has been counted.
                Some(request) if request.times.started != Instant::ZERO => {}
                Some(request) => {
                    request.times.granted = now;
                    self.granted += 1;
                }
                // Commands that move nothing are few and sent at once.
                None => {}
            }
        }
    }

    /// A PDU is handed to the sender.
    pub(crate) fn sends(&mut self, cid: u16, pdu: &Pdu, now: Instant) -> Option<Mark> {
        let connection = u32::from(cid);
        let Pdu::ScsiCommand(command) = pdu else {
            let request = match pdu {
                Pdu::DataOut(data) => self.ledger.find(data.itt),
                _ => None,
            };
            let cmd_sn = request.map(|request| request.id.cmd_sn);
            return self.ledger.sends(connection, pdu, (cmd_sn, None), now);
        };
        let place = self.ledger.place(command.itt)?;
        let request = self.ledger.at(place)?;
        (request.id.connection, request.id.cmd_sn) = (connection, command.cmd_sn);
        let times = &mut request.times;
        times.started = now;
        if times.granted == Instant::ZERO {
            times.granted = now;
        } else {
            self.granted = self.granted.saturating_sub(1);
        }
        if !self.ledger.takes(command.cmd_sn) {
            self.ledger.forget(command.itt);
            return None;
        }
        self.ledger.sends(connection, pdu, (Some(command.cmd_sn), Some(place)), now)
    }

    /// The socket has taken a PDU.
    pub(crate) fn departed(&mut self, departed: &Departed) {
        let place = self.ledger.departed(departed);
        if let Some(request) = place.and_then(|place| self.ledger.at(place)) {
            request.times.socketed = departed.at;
            request.command_stream_end = departed.end;
        }
    }

    /// TCP's times of a PDU are known.
    pub(crate) fn stamped(&mut self, stamped: &Stamped) {
        self.ledger.stamped(stamped);
    }

    /// What is received from now on was read then.
    pub(crate) fn came(&mut self, at: Instant) {
        self.came = at;
    }

    /// A header has come.
    pub(crate) fn header(&mut self, pdu: &Pdu) {
        if let Pdu::DataIn(_) | Pdu::R2t(_) = pdu
            && let Some(request) = self.ledger.find(pdu.itt())
        {
            let times = &mut request.times;
            if times.data_first == Instant::ZERO {
                times.data_first = self.came;
            }
            times.data_last = self.came;
        }
    }

    /// A PDU has come as a whole.
    pub(crate) fn pdu(&mut self, cid: u16, pdu: &Pdu, span: Span) {
        let has_status = match pdu {
            Pdu::DataIn(data) => Some(data.status.is_some()),
            Pdu::ScsiResponse(_) => Some(true),
            Pdu::R2t(_) => Some(false),
            _ => None,
        };
        let request = has_status.and_then(|_| self.ledger.find(pdu.itt()));
        let cmd_sn = request.map(|request| {
            if let Pdu::DataIn(_) = pdu {
                request.times.data_last = self.came;
            }
            if has_status == Some(true) {
                request.times.status = self.came;
                request.status_stream_end = span.end;
            }
            request.id.cmd_sn
        });
        self.ledger.receives(u32::from(cid), pdu, cmd_sn, (span, self.came));
    }

    /// A request has ended, and its caller is about to be told.
    pub(crate) fn ended(&mut self, itt: u32, status: u8) {
        let Some(place) = self.ledger.close(itt) else { return };
        if let Some(request) = self.ledger.at(place) {
            request.status = status;
        }
        self.ended.push(place);
    }

    /// The callers are told.
    pub(crate) fn tell(&mut self, now: Instant) {
        while let Some(place) = self.ended.pop() {
            if let Some(request) = self.ledger.at(place) {
                request.times.completed = now;
            }
            self.ledger.end(place);
        }
    }

    /// A request is submitted again later, under another name.
    pub(crate) fn forget(&mut self, itt: u32) {
        self.ledger.forget(itt);
    }

    /// The session is over.
    pub(crate) fn close(&mut self) {
        self.ledger.end_all();
    }
}
