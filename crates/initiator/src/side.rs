//! State of a session without its sockets: sends commands, receives data and statuses, and retries commands that
//! the target refused or ended with a unit attention.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use block::{Buffer, Buffers};
use engine::{Landing, Outgoing, Receiver, Sender, Span};
use event::{Instant, Io};
use net::clock;
use proto::initiator::{Command, Completion, Event, Function, Session, TASKS_MAX, Transfer};
use proto::notification::{self, Notification};
use proto::{Data, Fault, Segment};
use slab::Slab;
use wire::iscsi::{BHS_LEN, Lun, Pdu, TaskAttribute, reject_reason};
use wire::scsi::{Sense, SenseKey, Status};

use crate::asking::Asking;
use crate::error::{Error, Failure};
use crate::known::{Attention, Known};
use crate::pulse::Pulse;
use crate::request::{Body, Completed, Request};
use crate::room::Room;
use crate::tables::Tables;
use crate::trail::Trail;
use crate::watch::Watch;

/// Limit of the pool of free buffers.
const BUFFERS_KEEP_BYTES: usize = 256 << 20;
/// Wait before a refused command is issued again: the first wait, and the maximum after doublings.
const REFUSED_MIN: Duration = Duration::from_millis(5);
const REFUSED_MAX: Duration = Duration::from_secs(1);
/// Maximum retries of a command after unit attentions; a target reports each condition once.
const ATTENTIONS_MAX: u8 = 16;
/// Maximum number of vendor notifications kept between two turns; a farlun target sends ten a second on a connection.
const TOLD_MAX: usize = 64;

/// State of a session except its sockets.
pub(crate) struct Side {
    pub(crate) session: Session,
    pub(crate) address: SocketAddr,
    pub(crate) lun: Lun,
    /// Outstanding requests, by token.
    pub(crate) open: Slab<Open>,
    /// Requests to issue again at once, after a unit attention.
    pub(crate) again: VecDeque<usize>,
    /// Requests to issue again later, after BUSY, TASK SET FULL or NOT READY.
    pub(crate) refused: Vec<usize>,
    pub(crate) refusal: Option<Refusal>,
    /// The target refused a command since the workload was last notified.
    pub(crate) has_refused: bool,
    pub(crate) outstanding_bytes: u64,
    pub(crate) buffers: Buffers,
    /// Completed requests in order of their statuses; `None` marks a reset of the LUN.
    pub(crate) finished: VecDeque<Option<Completed>>,
    /// Identity and capacity that the LUN reported when the session was opened.
    pub(crate) known: Vec<Known>,
    /// Re-validation of the LUN's identity in progress.
    pub(crate) asking: Option<Asking>,
    /// Number of resets that the LUN has reported.
    pub(crate) resets: u64,
    /// Command limit, learned from TASK SET FULL.
    pub(crate) room: Room,
    /// The LUN does not support SYNCHRONIZE CACHE.
    pub(crate) is_without_flush: bool,
    /// The LUN has a volatile cache for certain (WCE): a refused SYNCHRONIZE CACHE is a failure.
    pub(crate) needs_flush: bool,
    /// Notifications of the target that have not been processed, with the CID of their connection.
    pub(crate) told: Vec<(u16, Notification)>,
    /// Text request that awaits its response, and the response.
    pub(crate) question: Option<Vec<u8>>,
    pub(crate) answer: Option<Vec<u8>>,
    /// Time at which the text request was sent.
    pub(crate) questioned: Instant,
    pub(crate) tables: Rc<Tables>,
    /// Recorder of the requests' times in each layer, if they are traced.
    pub(crate) trail: Option<Trail>,
    /// Requests issued since the last sample, and their bytes: the policy gets the mean length.
    pub(crate) issued: (u64, u64),
    pub(crate) watch: Watch,
    /// The target wants the session to end.
    pub(crate) leave: Option<Leave>,
    /// Time2Wait of the answered logout: minimum time before the next login.
    pub(crate) logged_out: Option<Duration>,
    pub(crate) now: Instant,
    pub(crate) timeout: Duration,
}

/// Ways in which a target ends a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leave {
    /// After a logout of the initiator, within this time.
    LogOut { within: Duration },
    /// At once; `time2wait` is the minimum time before the next login.
    Now { time2wait: Duration },
}

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
    pub(crate) side: &'a mut Side,
    pub(crate) port: &'a mut Port,
}

/// Backoff after a refusal for lack of resources; the wait doubles with each refusal.
#[derive(Clone, Copy)]
pub(crate) struct Refusal {
    pub(crate) since: Instant,
    pub(crate) wait: Duration,
    pub(crate) until: Instant,
}

pub(crate) struct Open {
    pub(crate) request: Request,
    pub(crate) issued: Instant,
    /// Time of the last submission; `FAR_FUTURE` while the request waits to be submitted again.
    pub(crate) submitted: Instant,
    /// Initiator Task Tag of the last submission.
    pub(crate) itt: u32,
    pub(crate) attentions: u8,
    /// Index in `known` of the fact that the request re-validates; `None` for a request of a workload.
    pub(crate) question: Option<usize>,
}

/// Destination of received payload in the buffer of an outstanding request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    token: usize,
    offset_bytes: usize,
}

/// Source of a PDU's data segment.
#[derive(Debug)]
pub(crate) enum Payload {
    /// Part of a write's buffer, kept alive by the send queue: a target may answer before all data have been sent.
    Shared { buffer: Arc<Buffer>, offset_bytes: usize, len_bytes: usize },
    /// Bytes generated for this PDU.
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
    /// Creates the state of a session that has just logged in.
    pub(crate) fn new(
        (session, address): (Session, SocketAddr),
        (tables, trail): (Rc<Tables>, Option<Trail>),
        timeout: Duration,
        now: Instant,
    ) -> Side {
        Side {
            session,
            address,
            lun: Lun::from_number(0),
            open: Slab::new(),
            again: VecDeque::new(),
            refused: Vec::new(),
            refusal: None,
            has_refused: false,
            outstanding_bytes: 0,
            buffers: Buffers::new(BUFFERS_KEEP_BYTES),
            finished: VecDeque::new(),
            known: Vec::new(),
            asking: None,
            resets: 0,
            room: Room::OPEN,
            is_without_flush: false,
            needs_flush: false,
            told: Vec::new(),
            question: None,
            answer: None,
            questioned: now,
            tables,
            trail,
            issued: (0, 0),
            watch: Watch::new(now),
            leave: None,
            logged_out: None,
            now,
            timeout,
        }
    }

    pub(crate) fn submit(&mut self, token: usize) {
        let open = &mut self.open[token];
        open.submitted = self.now;
        let Request { cdb, body, .. } = &open.request;
        let transfer = match body {
            Body::None => Transfer::None,
            Body::Read(buffer) => Transfer::In(buffer.len() as u32),
            Body::Write(buffer) => Transfer::Out(buffer.len() as u32),
        };
        open.itt = self.session.submit(Command {
            token: token as u64,
            lun: self.lun,
            cdb: cdb.emit(),
            transfer,
            attribute: TaskAttribute::Simple,
        });
        if let Some(trail) = &mut self.trail {
            trail.submitted(open.itt, open, self.lun, self.now);
        }
    }

    /// Continues with a new session: every outstanding request is issued again, if the LUN's identity is unchanged.
    /// All requests of this crate are idempotent: the same blocks are read, or written with the same bytes.
    pub(crate) fn begin_again(&mut self, session: Session, address: SocketAddr) {
        (self.session, self.address) = (session, address);
        (self.leave, self.logged_out, self.refusal) = (None, None, None);
        self.watch = Watch::new(self.now);
        self.room = Room::OPEN;
        self.again.clear();
        self.refused.clear();
        // The notifications refer to connections of the lost session.
        self.told.clear();
        self.ask_first();
        self.go_on();
        if let Some(question) = self.question.clone() {
            self.questioned = self.now;
            self.session.send_text(question);
        }
    }

    /// Returns true if another request may be issued. `depth` is the workload's queue depth; with `None` the limit is
    /// `outstanding_bytes`.
    pub(crate) fn has_room(&self, depth: Option<usize>, outstanding_bytes: u64) -> bool {
        let may_issue = self.refused.is_empty() && self.asking.is_none();
        may_issue
            && self.open.len() < TASKS_MAX - self.known.len()
            && match depth {
                Some(depth) => self.open.len() < depth,
                None => self.outstanding_bytes < outstanding_bytes,
            }
    }

    pub(crate) fn handle_events(&mut self) -> Result<(), Error> {
        let address = self.address;
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Completed(completion) => {
                    self.complete(&completion)?;
                    self.go_on();
                }
                Event::Text(text) => (self.question, self.answer) = (None, Some(text)),
                Event::LoggedOut { time2wait_s } => self.logged_out = Some(seconds(time2wait_s)),
                Event::LogoutRequested { within_s } => self.log_out_within(seconds(within_s)),
                // Without one of its connections a session at error recovery level 0 is lost.
                Event::Dropping { time2wait_s, .. } => {
                    self.leave = Some(Leave::Now { time2wait: seconds(time2wait_s) });
                }
                Event::Rejected { reason: reject_reason::WAITING_FOR_LOGOUT, .. } => {
                    self.log_out_within(Duration::ZERO);
                }
                Event::Rejected { reason, .. } => return Err(Error::Rejected { address, reason }),
                Event::Managed { function: Function::AbortTask { token }, response } => {
                    self.watch.answered(token, response);
                }
                Event::Managed { function: Function::LogicalUnitReset { .. }, response } => {
                    self.watch.reset_answered(response);
                }
                Event::Vendor { cid, code, data } => self.hear(cid, code, &data),
                Event::Aborted { token, is_fenced } => {
                    if self.watch.let_go(token, &self.open[token as usize]) {
                        self.put_back(token as usize, Attention::Passing);
                    } else if !self.watch.is_aborting() && !is_fenced {
                        return Err(Error::Unfenced { address });
                    } else if !self.watch.is_aborting() {
                        // The reset was requested because of another command, which has been answered meanwhile.
                        self.put_back(token as usize, Attention::Reset);
                    }
                    // Otherwise the watch gives up the session, and with it the command.
                }
                Event::Managed { .. } | Event::Pong => {}
            }
        }
        Ok(())
    }

    /// Queues a command for another submission after the target ended it without a status.
    fn put_back(&mut self, token: usize, attention: Attention) {
        let open = &mut self.open[token];
        open.submitted = Instant::FAR_FUTURE;
        forget(&mut self.trail, open.itt);
        self.attend(token, attention);
        // The command may have been the last one that re-validation waited for.
        self.go_on();
    }

    /// Queues a vendor notification of a farlun target: a congestion window, or the share of a line that this
    /// connection gets. Notifications of other targets are ignored.
    fn hear(&mut self, cid: u16, code: u8, data: &[u8]) {
        if self.session.params().peer_software.is_some()
            && self.told.len() < TOLD_MAX
            && let Some(told) = notification::read(code, data)
        {
            self.told.push((cid, told));
        }
    }

    fn log_out_within(&mut self, within: Duration) {
        // The first request counts: a repetition does not extend the time.
        self.leave = self.leave.or(Some(Leave::LogOut { within }));
    }

    fn complete(&mut self, completion: &Completion) -> Result<(), Error> {
        let token = completion.token as usize;
        let sense = Sense::parse(&completion.sense).ok();
        let status = Status(completion.status);
        let open = &mut self.open[token];
        self.watch.completed(completion.token, completion.cid, open.submitted);
        let checked = sense.filter(|_| status == Status::CHECK_CONDITION);
        let attention = checked.filter(is_attention);
        if let Some(attention) = attention
            && open.attentions < ATTENTIONS_MAX
        {
            open.attentions += 1;
            if matches!(attention.asc, 0x29 | 0x2f) {
                self.watch.sweep(self.now);
            }
            open.submitted = Instant::FAR_FUTURE;
            forget(&mut self.trail, open.itt);
            self.attend(token, Attention::of(&attention));
            return Ok(());
        }
        let is_aborted = status == Status::TASK_ABORTED || checked.is_some_and(is_aborted);
        let is_early =
            matches!(status, Status::BUSY | Status::TASK_SET_FULL) || checked.is_some_and(is_early);
        // The timeout alone does not bound retries of aborted commands while other commands succeed.
        let may_be_again = is_early || is_aborted && open.attentions < ATTENTIONS_MAX;
        self.has_refused |= matches!(status, Status::BUSY | Status::TASK_SET_FULL);
        if may_be_again && self.may_wait() {
            let open = &mut self.open[token];
            open.attentions += u8::from(is_aborted);
            open.submitted = Instant::FAR_FUTURE;
            forget(&mut self.trail, open.itt);
            if status == Status::TASK_SET_FULL {
                self.room.refused(self.session.open_commands());
            }
            self.put_off(token);
            return Ok(());
        }
        self.refusal = None;
        self.room.ended();
        let Open { request, issued, itt, question, .. } = self.open.remove(token);
        if let Some(trail) = &mut self.trail {
            trail.ended(itt, status.0);
        }
        self.outstanding_bytes -= request.len_bytes();
        let (response, transferred_bytes) = (completion.response, completion.transferred_bytes);
        let short_bytes = (request.is_exact() && u64::from(transferred_bytes) < request.len_bytes())
            .then_some(transferred_bytes);
        let overflow_bytes = Some(completion.overflow_bytes).filter(|&bytes| request.is_exact() && bytes > 0);
        let result = match (response, status, short_bytes.or(overflow_bytes)) {
            (0, Status::GOOD, None) => Ok(()),
            (0, _, None) if checked.is_some_and(is_done) => Ok(()),
            // A LUN without SYNCHRONIZE CACHE is treated as one without a volatile cache.
            (0, _, None) if request.is_flush() && checked.is_some_and(is_unknown) && !self.needs_flush => {
                self.is_without_flush = true;
                Ok(())
            }
            _ => Err(Failure { status, response, sense, short_bytes, overflow_bytes }),
        };
        let completed = self.now;
        let completed = Completed { request, issued, completed, transferred_bytes, result };
        match question {
            Some(index) => self.answered(index, completed)?,
            None => self.finished.push_back(Some(completed)),
        }
        Ok(())
    }

    /// Records the time at which the callers of completed requests are notified.
    pub(crate) fn tell(&mut self) {
        if let Some(trail) = &mut self.trail {
            self.now = clock::now();
            trail.tell(self.now);
        }
    }

    /// Records a completed request in the table `io` and returns it for its caller. With tracing, its completion time
    /// is the time of the caller's notification, so that it is the same in all tables.
    pub(crate) fn told(&self, mut completed: Completed) -> Completed {
        if self.trail.is_some() {
            completed.completed = self.now;
        }
        if let Some(op) = completed.request.op() {
            self.tables.io(&Io {
                issued: completed.issued,
                completed: completed.completed,
                op,
                offset_bytes: completed.request.offset_bytes,
                len_bytes: completed.request.len_bytes() as u32,
                status: completed.result.as_ref().map_or_else(|failure| failure.status.0, |()| 0),
            });
        }
        completed
    }

    /// Notes a refusal for lack of resources; returns `false` if refusals have lasted for the timeout.
    fn may_wait(&mut self) -> bool {
        let now = self.now;
        let refusal = self.refusal.get_or_insert(Refusal { since: now, wait: REFUSED_MIN, until: now });
        if now >= refusal.until {
            refusal.until = now + refusal.wait;
            refusal.wait = (refusal.wait * 2).min(REFUSED_MAX);
        }
        now.since(refusal.since) < self.timeout
    }

    /// Time at which refused commands are issued again.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        match self.refusal {
            _ if self.refused.is_empty() => None,
            Some(refusal) => Some(refusal.until),
            None => Some(Instant::ZERO),
        }
    }

    fn write_buffer(&self, token: usize) -> &Arc<Buffer> {
        let Body::Write(buffer) = &self.open[token].request.body else {
            unreachable!("the session sends payload only of requests that write")
        };
        buffer
    }
}

fn forget(trail: &mut Option<Trail>, itt: u32) {
    if let Some(trail) = trail {
        trail.forget(itt);
    }
}

fn is_attention(sense: &Sense) -> bool {
    sense.key == SenseKey::UnitAttention
}

/// Returns true if the target aborted the command for a reason of its own, so that a retry is allowed.
fn is_aborted(sense: Sense) -> bool {
    sense.key == SenseKey::AbortedCommand && !sense.deferred
}

/// Returns true if the unit is becoming ready (NOT READY): it starts up, or an asymmetric access state changes.
fn is_early(sense: Sense) -> bool {
    sense.key == SenseKey::NotReady
        && !sense.deferred
        && matches!((sense.asc, sense.ascq), (0x04, 0x01 | 0x0a))
}

/// Returns true if the command was executed in spite of its sense data (SPC-4 section 4.5.6).
fn is_done(sense: Sense) -> bool {
    matches!(sense.key, SenseKey::RecoveredError | SenseKey::NoSense) && !sense.deferred
}

/// Returns true if the LUN does not support the operation code.
fn is_unknown(sense: Sense) -> bool {
    (sense.key, sense.asc, sense.ascq) == (SenseKey::IllegalRequest, 0x20, 0x00)
}

fn seconds(count: u16) -> Duration {
    Duration::from_secs(count.into())
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
        if let Some(trail) = &mut self.side.trail {
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
        match &mut self.side.open[place.token].request.body {
            Body::Read(buffer) => &mut buffer[place.offset_bytes + offset_bytes..][..len_bytes],
            _ => unreachable!("the session places payload only in requests that read"),
        }
    }

    fn pdu(&mut self, _header: &[u8; BHS_LEN], collected: &[u8]) -> Result<(), Error> {
        let Some(pdu) = self.port.pdu.take() else { unreachable!("every PDU begins with its header") };
        if let Some(trail) = &mut self.side.trail {
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
        self.side.trail.is_some()
    }

    fn came(&mut self, at: Instant) {
        if let Some(trail) = &mut self.side.trail {
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
        let mark = side.trail.as_mut().and_then(|trail| trail.sends(self.port.cid, &transmit.pdu, side.now));
        Some(Outgoing { header, data, is_payload, mark, is_alone: false })
    }

    fn bytes<'a>(&'a self, data: &'a Payload) -> &'a [u8] {
        data.bytes()
    }
}

#[cfg(test)]
mod tests;
