//! Times of a session's requests at the initiator, from the caller to the socket and back: the rows `near` of the
//! tables `layers` and `pdus`.
//!
//! The recorder only observes events and their times; sessions without it behave the same.

use std::collections::VecDeque;
use std::rc::Rc;

use engine::trace::{Ledger, Place, Tracer};
use engine::{Departed, Mark, Span, Stamped};
use event::{Instant, Layers, NearTimes, RequestId, TcpTimes};
use proto::initiator::Session;
use wire::iscsi::{Lun, Pdu};

use crate::session::requests::Open;

/// Recorder of a session's requests.
pub(crate) struct Trail {
    ledger: Ledger<NearTimes>,
    /// Commands that wait for the command window, the oldest first; `None` for commands without data, which have no
    /// rows.
    queued: VecDeque<Option<Place>>,
    /// Number of commands inside the command window that have not been sent.
    granted: u32,
    /// Completed requests whose callers have not been notified.
    ended: Vec<Place>,
    /// Time at which the data being processed were read from the socket.
    came: Instant,
}

impl Trail {
    /// Creates the recorder of a session, by its number in the tables.
    pub(crate) fn new(tracer: Rc<Tracer>, session: u64) -> Trail {
        let ledger = Ledger::new(tracer, session);
        Trail { ledger, queued: VecDeque::new(), granted: 0, ended: Vec::new(), came: Instant::ZERO }
    }

    /// Continues after a reconnect: outstanding requests will be submitted again.
    pub(crate) fn begin_again(&mut self, session: u64) {
        self.ledger.begin_again(session);
        self.queued.clear();
        self.ended.clear();
        self.granted = 0;
    }

    /// Notes that a request was submitted to the session with the Initiator Task Tag `itt`.
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

    /// Marks the commands for which the command window has room.
    pub(crate) fn grant(&mut self, session: &Session, now: Instant) {
        let room = session.command_room();
        while self.granted < room {
            let Some(place) = self.queued.pop_front() else { return };
            match place.and_then(|place| self.ledger.at(place)) {
                // The command was sent ahead of older ones, and has been counted.
                Some(request) if request.times.started != Instant::ZERO => {}
                Some(request) => {
                    request.times.granted = now;
                    self.granted += 1;
                }
                // Commands without data are few and sent at once.
                None => {}
            }
        }
    }

    /// Notes that a PDU is passed to the sender.
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

    /// Notes that the socket has accepted a PDU.
    pub(crate) fn departed(&mut self, departed: &Departed) {
        let place = self.ledger.departed(departed);
        if let Some(request) = place.and_then(|place| self.ledger.at(place)) {
            request.times.socketed = departed.at;
            request.command_stream_end = departed.end;
        }
    }

    /// Notes the kernel's timestamps of a PDU.
    pub(crate) fn stamped(&mut self, stamped: &Stamped) {
        self.ledger.stamped(stamped);
    }

    /// Sets the time at which the following data were read.
    pub(crate) fn came(&mut self, at: Instant) {
        self.came = at;
    }

    /// Notes the arrival of a PDU header.
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

    /// Notes the arrival of a whole PDU.
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

    /// Notes the completion of a request, whose caller will be notified.
    pub(crate) fn ended(&mut self, itt: u32, status: u8) {
        let Some(place) = self.ledger.close(itt) else { return };
        if let Some(request) = self.ledger.at(place) {
            request.status = status;
        }
        self.ended.push(place);
    }

    /// Notes the notification of the callers of all completed requests.
    pub(crate) fn tell(&mut self, now: Instant) {
        while let Some(place) = self.ended.pop() {
            if let Some(request) = self.ledger.at(place) {
                request.times.completed = now;
            }
            self.ledger.end(place);
        }
    }

    /// Drops a request that is submitted again later with another tag.
    pub(crate) fn forget(&mut self, itt: u32) {
        self.ledger.forget(itt);
    }

    /// Ends the record of the session.
    pub(crate) fn close(&mut self) {
        self.ledger.end_all();
    }
}
