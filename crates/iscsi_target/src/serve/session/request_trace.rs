//! Trace of a session's requests at the target, from the socket to the store and back: the rows `far` of the tables
//! `layers` and `pdus`.
//!
//! The trace records events with their times and decides nothing; a session without a trace works the same.

use std::collections::HashMap;
use std::rc::Rc;

use engine::trace::{Ledger, Tracer};
use engine::{Departed, Mark, Span, Stamped};
use event::{FarTimes, Instant, Layers, Op, RequestId, TcpTimes};
use wire::iscsi::{Pdu, ScsiCommand};

/// Commands ahead of their turn that are known at a time.
const EARLY_MAX: usize = 1 << 12;

/// A session's requests.
pub(crate) struct Trail {
    ledger: Ledger<FarTimes>,
    /// Command whose header came last; `early` are the earlier commands ahead of their turn in CmdSN order.
    last: Option<Arrival>,
    early: HashMap<u32, Arrival>,
    /// Command in its turn.
    running: Option<Arrival>,
    /// Time at which the data being received was read; `now` is the last reading of the clock.
    came: Instant,
    now: Instant,
}

/// A command before its turn.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    id: RequestId,
    came: Instant,
    /// End of the PDU in the stream, once the PDU is complete.
    end: u64,
    /// Time of the last arrival of data.
    data: Instant,
}

impl Trail {
    /// For a session, by its number in the tables.
    pub(crate) fn new(tracer: Rc<Tracer>, session: u64) -> Trail {
        Trail {
            ledger: Ledger::new(tracer, session),
            last: None,
            early: HashMap::new(),
            running: None,
            came: Instant::ZERO,
            now: Instant::ZERO,
        }
    }

    /// The clock was looked at.
    pub(crate) fn look(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Sets the time at which the data received from now on was read.
    pub(crate) fn came(&mut self, at: Instant) {
        self.came = at;
        self.look(at);
    }

    /// Notes the header of a command.
    pub(crate) fn command(&mut self, cid: u16, command: &ScsiCommand) {
        if let Some(waiting) = self.last.take() {
            if self.early.len() >= EARLY_MAX {
                // Most of these will never have their turn. The others are missing in the table, which reports the
                // loss.
                for (_, early) in self.early.drain() {
                    self.ledger.lose(early.id.cmd_sn);
                }
            }
            self.early.insert(waiting.id.itt, waiting);
        }
        let id = RequestId {
            session: self.ledger.session(),
            connection: u32::from(cid),
            itt: command.itt,
            cmd_sn: command.cmd_sn,
        };
        self.last = Some(Arrival { id, came: self.came, end: 0, data: Instant::ZERO });
    }

    /// Notes that a command has its turn.
    pub(crate) fn turn(&mut self, itt: u32) {
        let last = self.last.take_if(|last| last.id.itt == itt);
        self.running = last.or_else(|| self.early.remove(&itt));
    }

    /// Begins the row of the command in its turn, which reads or writes.
    pub(crate) fn begin(&mut self, op: Op, lun: u16, offset_bytes: u64, len_bytes: u32) {
        let Some(Arrival { id, came, end, data }) = self.running.take() else { return };
        if !self.ledger.takes(id.cmd_sn) {
            return;
        }
        let now = self.now;
        self.ledger.begin(Layers {
            id,
            op,
            status: 0,
            lun,
            len_bytes,
            offset_bytes,
            command_stream_end: end,
            status_stream_end: 0,
            tcp: TcpTimes::default(),
            times: FarTimes {
                received: came,
                parsed: now,
                executed: now,
                data_out_last: data,
                ..FarTimes::default()
            },
        });
    }

    /// Notes an event of a request at the last reading of the clock.
    pub(crate) fn note(&mut self, itt: u32, set: impl FnOnce(&mut FarTimes, Instant)) {
        if let Some(request) = self.ledger.find(itt) {
            set(&mut request.times, self.now);
        }
    }

    /// Ends the row of a request that gets no answer.
    pub(crate) fn end(&mut self, itt: u32) {
        if let Some(place) = self.ledger.close(itt) {
            self.ledger.end(place);
        }
    }

    /// Notes that a PDU is complete.
    pub(crate) fn pdu(&mut self, cid: u16, pdu: &Pdu, span: Span) {
        let itt = pdu.itt();
        let (mut end, mut data) = (None, None);
        match pdu {
            Pdu::ScsiCommand(command) => {
                end = Some(span.end);
                data = (command.data_segment_len > 0).then_some(self.came);
            }
            Pdu::DataOut(_) => data = Some(self.came),
            _ => {}
        }
        let last = self.last.as_mut().filter(|last| last.id.itt == itt);
        let mut cmd_sn = None;
        if end.is_none() && data.is_none() {
            // The PDU moves no data of this command.
        } else if let Some(waiting) = last.or_else(|| self.early.get_mut(&itt)) {
            (waiting.end, waiting.data) = (end.unwrap_or(waiting.end), data.unwrap_or(waiting.data));
            cmd_sn = Some(waiting.id.cmd_sn);
        } else if let Some(request) = self.ledger.find(itt) {
            let place = (&mut request.command_stream_end, &mut request.times.data_out_last);
            (*place.0, *place.1) = (end.unwrap_or(*place.0), data.unwrap_or(*place.1));
            cmd_sn = Some(request.id.cmd_sn);
        }
        self.ledger.receives(u32::from(cid), pdu, cmd_sn, (span, self.came));
    }

    /// A PDU is handed to the sender.
    pub(crate) fn sends(&mut self, cid: u16, pdu: &Pdu) -> Option<Mark> {
        let status = match pdu {
            Pdu::ScsiResponse(response) => Some(response.status),
            Pdu::DataIn(data) => data.status,
            Pdu::R2t(_) => None,
            _ => return self.ledger.sends(u32::from(cid), pdu, (None, None), self.now),
        };
        // Behind its status nothing is heard of a request but when that PDU leaves.
        let place = match status {
            Some(_) => self.ledger.close(pdu.itt()),
            None => self.ledger.place(pdu.itt()),
        };
        let request = place.and_then(|place| self.ledger.at(place));
        let cmd_sn = request.map(|request| {
            match (status, pdu) {
                (Some(status), _) => request.status = status,
                (None, Pdu::R2t(_)) if request.times.r2t_first == Instant::ZERO => {
                    request.times.r2t_first = self.now;
                }
                (None, _) => {}
            }
            request.id.cmd_sn
        });
        self.ledger.sends(u32::from(cid), pdu, (cmd_sn, place.filter(|_| status.is_some())), self.now)
    }

    /// The socket has taken a PDU; with that of its status a request has ended.
    pub(crate) fn departed(&mut self, departed: &Departed) {
        self.look(departed.at);
        let Some(place) = self.ledger.departed(departed) else { return };
        if let Some(request) = self.ledger.at(place) {
            request.times.sent = departed.at;
            request.status_stream_end = departed.end;
            self.ledger.end(place);
        }
    }

    /// TCP's times of a PDU are known.
    pub(crate) fn stamped(&mut self, stamped: &Stamped) {
        self.ledger.stamped(stamped);
    }

    /// Removes the traces of a closed connection.
    pub(crate) fn leave(&mut self, cid: u16) {
        self.ledger.leave(u32::from(cid));
    }

    /// The session is over.
    pub(crate) fn close(&mut self) {
        self.ledger.end_all();
    }
}

#[cfg(test)]
mod tests {
    use engine::trace::Sampling;
    use event::Host;
    use wire::iscsi::BHS_LEN;

    use super::*;

    fn command(itt: u32) -> ScsiCommand {
        let mut header = [0; BHS_LEN];
        (header[0], header[1]) = (0x01, 0xc0);
        header[16..20].copy_from_slice(&itt.to_be_bytes());
        header[24..28].copy_from_slice(&itt.to_be_bytes());
        let Ok(Pdu::ScsiCommand(command)) = Pdu::parse(&header) else { unreachable!("a command") };
        command
    }

    #[test]
    fn commands_that_are_not_kept_until_their_turn_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let sampling = Sampling { layers: 2, pdus: 0 };
        let tracer = Rc::new(Tracer::create(dir.path(), Host::Far, sampling).unwrap());
        let mut trail = Trail::new(Rc::clone(&tracer), 7);
        // One more than the bound, and the last header.
        (0..EARLY_MAX as u32 + 2).for_each(|itt| trail.command(0, &command(itt)));
        trail.close();
        drop(trail);
        let traced = Rc::into_inner(tracer).expect("nobody else has it").finish().unwrap();
        assert_eq!((traced.layers.rows, traced.layers.lost_rows), (0, EARLY_MAX as u64 / 2));
    }
}
