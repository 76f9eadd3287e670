//! A session at work: one connection, a loop, and the workload that lives in it.
//!
//! The policy says how much may be outstanding and how the connection is paced; this file translates.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use control::{Bdp, Decision, Observation, Policy};
use engine::{Buffer, Buffers, Connection, Landing, Outgoing, Progress, Receiver, Scratch, Sender, Service};
use engine::{Stop, Turn};
use event::{Host, Instant, Io, Sink, SocketSample};
use net::{EndSignals, Poll, Ready, clock};
use proto::initiator::{Command, Completion, Event, Session, Transfer};
use proto::{Data, Segment};
use slab::Slab;
use store::tables::Recorder;
use wire::iscsi::{BHS_LEN, Lun, Pdu, TaskAttribute};
use wire::scsi::{Sense, Status};

use crate::error::{Error, Failure};
use crate::request::{Body, Completed, Request, Workload};

pub(crate) const TOKEN: u64 = 0;
/// Free buffers that are kept for reuse.
const BUFFERS_KEEP_BYTES: usize = 256 << 20;
/// Times a command is issued again after a unit attention, which is told once per condition.
const ATTENTIONS_MAX: u8 = 3;

/// What every session of a caller has in common.
#[derive(Clone, Debug)]
pub struct Options {
    /// For connecting, for the login, and for a target that says nothing although it owes an answer.
    pub timeout: Duration,
    /// Congestion control; the system's if `None`.
    pub congestion: Option<String>,
    /// Where the tables `sockets` and `io` go, if anywhere.
    pub trace: Option<PathBuf>,
}

/// A session.
pub struct Client {
    poll: Poll,
    connection: Connection<Place, Payload>,
    scratch: Scratch,
    side: Side,
    policy: Bdp,
    sockets: Option<Recorder<SocketSample>>,
    next_sample: Instant,
    readable: bool,
    timeout: Duration,
}

/// Everything of a session that is not its socket.
struct Side {
    session: Session,
    address: SocketAddr,
    lun: Lun,
    /// What is outstanding, by token.
    open: Slab<Open>,
    /// Commands to issue again.
    again: VecDeque<usize>,
    outstanding_bytes: u64,
    buffers: Buffers,
    finished: VecDeque<Completed>,
    texts: VecDeque<Vec<u8>>,
    ios: Option<Recorder<Io>>,
    /// For the mean request.
    issued: (u64, u64),
    /// When the target was last heard, and whether it was asked for a sign since.
    heard: Instant,
    is_pinged: bool,
    is_logged_out: bool,
    pdu: Option<Pdu>,
    now: Instant,
}

struct Open {
    request: Request,
    issued: Instant,
    attentions: u8,
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

impl Client {
    pub(crate) fn new(
        poll: Poll,
        connection: Connection<Place, Payload>,
        scratch: Scratch,
        session: Session,
        address: SocketAddr,
        options: &Options,
    ) -> Result<Client, Error> {
        let now = clock::now();
        let table = |name: &str| options.trace.as_ref().map(|dir| dir.join(name));
        let sockets = table("sockets-near.parquet").map(Recorder::create).transpose()?;
        let ios = table("io-near.parquet").map(Recorder::create).transpose()?;
        Ok(Client {
            poll,
            connection,
            scratch,
            side: Side {
                session,
                address,
                lun: Lun::from_number(0),
                open: Slab::new(),
                again: VecDeque::new(),
                outstanding_bytes: 0,
                buffers: Buffers::new(BUFFERS_KEEP_BYTES),
                finished: VecDeque::new(),
                texts: VecDeque::new(),
                ios,
                issued: (0, 0),
                heard: now,
                is_pinged: false,
                is_logged_out: false,
                pdu: None,
                now,
            },
            policy: Bdp::new(),
            sockets,
            next_sample: now,
            readable: false,
            timeout: options.timeout,
        })
    }

    /// The LUN that requests go to from now on.
    pub(crate) fn set_lun(&mut self, number: u16) {
        self.side.lun = Lun::from_number(number);
    }

    /// The pool that requests' buffers come from.
    pub fn buffers(&self) -> &Buffers {
        &self.side.buffers
    }

    /// Where the target is.
    pub fn address(&self) -> SocketAddr {
        self.side.address
    }

    /// Software of a target of our own kind.
    pub fn peer_software(&self) -> Option<&str> {
        self.side.session.params().peer_software.as_deref()
    }

    /// Smallest round-trip time that TCP has seen on this connection.
    pub fn min_rtt(&self) -> Option<Duration> {
        net::tcp_info::read(self.connection.stream()).ok()?.min_rtt
    }

    /// Runs a workload until it is over and nothing is outstanding.
    pub fn run<W: Workload>(&mut self, workload: &mut W) -> Result<(), W::Error> {
        let signals = None;
        engine::run(&mut Running { client: self, workload, signals })
    }

    /// Like [`Client::run`], but SIGINT and SIGTERM end it between two requests.
    pub fn run_until_signal<W: Workload>(
        &mut self,
        workload: &mut W,
        signals: &EndSignals,
    ) -> Result<(), W::Error> {
        engine::run(&mut Running { client: self, workload, signals: Some(signals) })
    }

    /// Runs one command; its data, cut to what was moved.
    pub(crate) fn command(&mut self, request: Request, name: &'static str) -> Result<Vec<u8>, Error> {
        let mut once = Once { request: Some(request), completed: None };
        self.run(&mut once)?;
        let Some(completed) = once.completed else {
            unreachable!("a workload is over when its request has completed");
        };
        completed.result.map_err(|failure| Error::Command { command: name, failure })?;
        let Body::Read(buffer) = completed.request.body else { return Ok(Vec::new()) };
        Ok(buffer[..buffer.len().min(completed.transferred_bytes as usize)].to_vec())
    }

    /// Sends text and waits for the answer.
    pub(crate) fn text(&mut self, text: Vec<u8>) -> Result<Vec<u8>, Error> {
        self.side.session.send_text(text);
        self.side.heard = clock::now();
        engine::run(&mut Waiting { client: self, is_done: |side: &Side| !side.texts.is_empty() })?;
        Ok(self.side.texts.pop_front().unwrap_or_default())
    }

    /// Logs out and closes the tables.
    pub fn close(mut self) -> Result<(), Error> {
        let now = clock::now();
        self.side.session.logout();
        self.side.heard = now;
        let result = engine::run(&mut Waiting { client: &mut self, is_done: |side: &Side| side.is_logged_out });
        // The target may close as soon as it has seen the request.
        match result {
            Ok(()) | Err(Error::Closed { .. } | Error::Socket { .. }) => {}
            Err(error) => return Err(error),
        }
        if let (Some(mut table), Ok((_, sample))) =
            (self.sockets, self.connection.sample(now, Host::Near))
        {
            table.record(&sample);
            table.finish()?;
        }
        if let Some(table) = self.side.ios {
            table.finish()?;
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Progress, Error> {
        let address = self.side.address;
        self.connection.receive(&mut self.scratch, &mut self.side).map_err(|stop| match stop {
            Stop::Closed => Error::Closed { address, when: "before everything was done" },
            Stop::Io(source) => Error::Socket { address, source },
            Stop::Refused(error) => error,
        })
    }

    fn send(&mut self) -> Result<Progress, Error> {
        let address = self.side.address;
        let sent = self.connection.send(&self.poll, &mut self.side);
        sent.map_err(|source| Error::Socket { address, source })
    }

    /// Shows the policy what the kernel says of the connection.
    fn sample(&mut self, now: Instant) -> Result<(), Error> {
        let address = self.side.address;
        let failed = |source| Error::Socket { address, source };
        let (info, sample) = self.connection.sample(now, Host::Near).map_err(failed)?;
        if let Some(table) = &mut self.sockets {
            table.record(&sample);
        }
        let (count, bytes) = std::mem::take(&mut self.side.issued);
        self.policy.observe(&Observation {
            now,
            rtt: info.rtt,
            min_rtt: info.min_rtt,
            moved_bytes: sample.app_rx_bytes + info.acked_bytes,
            delivery_rate_bytes_per_s: info.delivery_rate_bytes_per_s,
            app_limited: info.app_limited,
            backlog_bytes: u64::from(info.notsent_bytes) + self.side.session.unsent_payload_bytes(),
            request_bytes: bytes.checked_div(count).unwrap_or(0),
        });
        let decision = self.policy.decide();
        if let Some(bytes_per_s) = decision.pacing_bytes_per_s {
            self.connection.pace(bytes_per_s).map_err(failed)?;
        }
        self.connection.follow_rate(info.delivery_rate_bytes_per_s).map_err(failed)?;
        self.next_sample = now + decision.look_again;
        Ok(())
    }

    /// A target that owes an answer and says nothing is asked for a sign, and given up in the end.
    fn check_alive(&mut self, now: Instant) -> Result<(), Error> {
        let silence = now.since(self.side.heard);
        if silence >= self.timeout {
            let address = self.side.address;
            return Err(Error::Timeout { address, what: "say anything", after: self.timeout });
        }
        if silence >= self.timeout / 2 && !self.side.is_pinged {
            self.side.is_pinged = true;
            self.side.session.ping();
        }
        Ok(())
    }
}

/// A client and the workload it runs.
struct Running<'a, W> {
    client: &'a mut Client,
    workload: &'a mut W,
    signals: Option<&'a EndSignals>,
}

impl<W: Workload> Running<'_, W> {
    fn issue(&mut self, now: Instant) {
        let Decision { outstanding_bytes, .. } = self.client.policy.decide();
        let side = &mut self.client.side;
        while let Some(token) = side.again.pop_front() {
            side.submit(token);
        }
        if side.open.is_empty() {
            // Nothing was owed until now, so silence is counted from here.
            side.heard = now;
        }
        let depth = self.workload.depth();
        while side.session.has_room() {
            let room = match depth {
                Some(depth) => side.open.len() < depth,
                None => side.outstanding_bytes < outstanding_bytes,
            };
            if !room {
                break;
            }
            let Some(request) = self.workload.next(now) else { break };
            side.outstanding_bytes += request.len_bytes();
            side.issued.0 += 1;
            side.issued.1 += request.len_bytes();
            let token = side.open.insert(Open { request, issued: now, attentions: 0 });
            side.submit(token);
        }
    }
}

impl<W: Workload> Service for Running<'_, W> {
    type Error = W::Error;

    fn poll(&self) -> &Poll {
        &self.client.poll
    }

    fn ready(&mut self, ready: Ready, now: Instant) -> Result<(), W::Error> {
        let client = &mut *self.client;
        client.readable |= ready.readable;
        client.side.now = now;
        Ok(())
    }

    fn turn(&mut self, now: Instant) -> Result<Turn, W::Error> {
        let client = &mut *self.client;
        let mut progress = Progress::Waits;
        if client.readable {
            progress = client.receive()?;
            client.readable = progress == Progress::More;
        }
        while let Some(completed) = client.side.finished.pop_front() {
            self.workload.done(completed)?;
        }
        let ended = self.signals.is_some_and(EndSignals::came);
        if !ended {
            self.issue(now);
        }
        let client = &mut *self.client;
        if client.send()? == Progress::More {
            progress = Progress::More;
        }
        let is_idle = client.side.open.is_empty();
        if is_idle && (ended || self.workload.is_over(now)) {
            return Ok(Turn::Stop);
        }
        if now >= client.next_sample {
            client.sample(now)?;
        }
        if !is_idle {
            client.check_alive(now)?;
        }
        if progress == Progress::More {
            return Ok(Turn::Again);
        }
        let resume = self.workload.resume_at().unwrap_or(Instant::FAR_FUTURE);
        Ok(Turn::WaitUntil(client.next_sample.min(resume)))
    }
}

/// A client that waits for one answer outside of any workload.
struct Waiting<'a, F> {
    client: &'a mut Client,
    is_done: F,
}

impl<F: Fn(&Side) -> bool> Service for Waiting<'_, F> {
    type Error = Error;

    fn poll(&self) -> &Poll {
        &self.client.poll
    }

    fn ready(&mut self, ready: Ready, now: Instant) -> Result<(), Error> {
        self.client.side.now = now;
        if ready.readable {
            self.client.receive()?;
        }
        Ok(())
    }

    fn turn(&mut self, now: Instant) -> Result<Turn, Error> {
        let more = self.client.send()? == Progress::More;
        if (self.is_done)(&self.client.side) {
            return Ok(Turn::Stop);
        }
        self.client.check_alive(now)?;
        let look = now + self.client.timeout / 4;
        Ok(if more { Turn::Again } else { Turn::WaitUntil(look) })
    }
}

impl Side {
    fn submit(&mut self, token: usize) {
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
                Event::Completed(completion) => self.complete(completion),
                Event::Text(text) => self.texts.push_back(text),
                Event::LoggedOut => self.is_logged_out = true,
                Event::LogoutRequested { .. } => return Err(Error::LogoutRequested { address }),
                Event::Rejected { reason, .. } => return Err(Error::Rejected { address, reason }),
                Event::Pong | Event::Vendor { .. } => {}
            }
        }
        Ok(())
    }

    fn complete(&mut self, completion: Completion) {
        let token = completion.token as usize;
        let sense = Sense::parse(&completion.sense).ok();
        let status = Status(completion.status);
        let open = &mut self.open[token];
        if is_attention(status, sense.as_ref()) && open.attentions < ATTENTIONS_MAX {
            open.attentions += 1;
            self.again.push_back(token);
            return;
        }
        if matches!(status, Status::BUSY | Status::TASK_SET_FULL) && self.open.len() > self.again.len() + 1 {
            // Others of ours are under way: the target has room again when one of them is done.
            self.again.push_back(token);
            return;
        }
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

    fn write_buffer(&self, token: usize) -> &Arc<Buffer> {
        match &self.open[token].request.body {
            Body::Write(buffer) => buffer,
            _ => unreachable!("the session sends payload only of requests that write"),
        }
    }
}

fn is_attention(status: Status, sense: Option<&Sense>) -> bool {
    status == Status::CHECK_CONDITION
        && sense.is_some_and(|sense| sense.key == wire::scsi::SenseKey::UnitAttention)
}

impl Receiver for Side {
    type Place = Place;
    type Error = Error;

    fn header(&mut self, header: &[u8; BHS_LEN], _ahs: &[u8]) -> Result<Landing<Place>, Error> {
        let address = self.address;
        let fault = |source| Error::Fault { address, source };
        let pdu = Pdu::parse(header).map_err(|error| fault(error.into()))?;
        let segment = self.session.segment(&pdu).map_err(fault)?;
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
        self.session.handle(&pdu, collected).map_err(|source| Error::Fault { address, source })?;
        self.handle_events()
    }
}

impl Sender for Side {
    type Data = Payload;

    fn next(&mut self) -> Option<Outgoing<Payload>> {
        let transmit = self.session.poll_transmit()?;
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

/// One request.
struct Once {
    request: Option<Request>,
    completed: Option<Completed>,
}

impl Workload for Once {
    type Error = Error;

    fn depth(&self) -> Option<usize> {
        Some(1)
    }

    fn next(&mut self, _now: Instant) -> Option<Request> {
        self.request.take()
    }

    fn done(&mut self, completed: Completed) -> Result<(), Error> {
        self.completed = Some(completed);
        Ok(())
    }

    fn is_over(&self, _now: Instant) -> bool {
        self.completed.is_some()
    }
}
