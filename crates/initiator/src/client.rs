//! A session at work: one connection, a loop, and the workload that lives in it.
//!
//! The policy says how much may be outstanding and how the connection is paced; this file translates.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use control::Decision;
use engine::{Buffers, Connection, Digests, Progress, Scratch, Service};
use engine::{Stop, Turn};
use event::{Host, Instant, Sink, SocketSample};
use net::{Poll, Ready, clock};
use proto::initiator::Session;
use proto::params::Digest;
use slab::Slab;
use store::tables::Recorder;
use wire::iscsi::Lun;

use crate::chap::Chap;
use crate::error::Error;
use crate::request::{Body, Completed, Request, Workload};
use crate::side::{Open, Payload, Place, Side};

pub(crate) const TOKEN: u64 = 0;
/// Free buffers that are kept for reuse.
const BUFFERS_KEEP_BYTES: usize = 256 << 20;
/// What every session of a caller has in common.
#[derive(Clone, Debug)]
pub struct Options {
    /// For connecting, for the login, and for a target that says nothing although it owes an answer.
    pub timeout: Duration,
    /// What is given for CHAP beside the URL.
    pub chap: Chap,
    /// Digests that the session may have, the preferred one first.
    pub digests: &'static [Digest],
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
    sockets: Option<Recorder<SocketSample>>,
    next_sample: Instant,
    readable: bool,
}

impl Client {
    pub(crate) fn new(
        poll: Poll,
        mut connection: Connection<Place, Payload>,
        scratch: Scratch,
        session: Session,
        address: SocketAddr,
        options: &Options,
    ) -> Result<Client, Error> {
        let now = clock::now();
        let is_on = |digest| digest == Digest::Crc32c;
        let (header, data) = (session.params().header_digest, session.params().data_digest);
        connection.set_digests(Digests { header: is_on(header), data: is_on(data) });
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
                refused: Vec::new(),
                refusal: None,
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
                timeout: options.timeout,
            },
            sockets,
            next_sample: now,
            // What followed the last response of the login has been read already.
            readable: true,
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

    /// What to change about this host if its limits for socket buffers may be what holds the path back.
    pub fn advice(&self) -> Option<String> {
        self.connection.advice()
    }

    /// Runs a workload until it is over and nothing is outstanding.
    pub fn run<W: Workload>(&mut self, workload: &mut W) -> Result<(), W::Error> {
        engine::run(&mut Running { client: self, workload })
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
        let result =
            engine::run(&mut Waiting { client: &mut self, is_done: |side: &Side| side.is_logged_out });
        // The target may close as soon as it has seen the request, and whatever it does about the logout,
        // everything that matters was answered before.
        match result {
            Ok(()) | Err(Error::Closed { .. } | Error::Socket { .. } | Error::Timeout { .. }) => {}
            Err(error) => return Err(error),
        }
        if let (Some(mut table), Ok(sample)) = (self.sockets, self.connection.sample(now, Host::Near)) {
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
        let failed = |source| Error::Socket { address, source };
        let sent = self.connection.send(&self.poll, &mut self.side).map_err(failed)?;
        // A target that asks and never listens must not fill our memory with answers.
        let is_reading = !self.side.session.is_backed_up(0);
        self.connection.set_reading(&self.poll, is_reading).map_err(failed)?;
        Ok(sent)
    }

    /// Shows the policy what the kernel says of the connection.
    fn sample(&mut self, now: Instant) -> Result<(), Error> {
        let address = self.side.address;
        let failed = |source| Error::Socket { address, source };
        let (count, bytes) = std::mem::take(&mut self.side.issued);
        let request_bytes = bytes.checked_div(count).unwrap_or(0);
        let unsent_bytes = self.side.session.unsent_payload_bytes(0);
        let acked_bytes = self.connection.acked_bytes();
        let looked = self.connection.look(now, Host::Near, unsent_bytes, request_bytes);
        let (sample, decision) = looked.map_err(failed)?;
        if let Some(table) = &mut self.sockets {
            table.record(&sample);
        }
        // A large request takes its time on a slow path; what arrives there is a sign of life.
        if self.connection.acked_bytes() > acked_bytes {
            self.side.heard = now;
        }
        self.next_sample = now + decision.look_again;
        Ok(())
    }

    /// A target that owes an answer and says nothing is asked for a sign, and given up in the end.
    fn check_alive(&mut self, now: Instant) -> Result<(), Error> {
        let silence = now.since(self.side.heard);
        let (address, after) = (self.side.address, self.side.timeout);
        if silence >= after {
            return Err(Error::Timeout { address, what: "say anything", after });
        }
        if silence >= after / 2 && !self.side.is_pinged {
            self.side.is_pinged = true;
            self.side.session.ping(0);
        }
        Ok(())
    }
}

/// A client and the workload it runs.
struct Running<'a, W> {
    client: &'a mut Client,
    workload: &'a mut W,
}

impl<W: Workload> Running<'_, W> {
    fn issue(&mut self, now: Instant) {
        let Decision { outstanding_bytes, .. } = self.client.connection.decision();
        let side = &mut self.client.side;
        if side.retry_at().is_some_and(|at| now >= at) {
            side.again.extend(side.refused.drain(..));
        }
        while let Some(token) = side.again.pop_front() {
            side.submit(token);
        }
        if side.open.is_empty() {
            // Nothing was owed until now, so silence is counted from here.
            side.heard = now;
        }
        let depth = self.workload.depth();
        while side.session.has_room() && side.refused.is_empty() {
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
        self.issue(now);
        let client = &mut *self.client;
        if client.send()? == Progress::More {
            progress = Progress::More;
        }
        let is_idle = client.side.open.is_empty();
        if is_idle && self.workload.is_over(now) {
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
        let timers = [self.workload.resume_at(), client.side.retry_at(), Some(client.next_sample)];
        Ok(Turn::WaitUntil(timers.into_iter().flatten().min().unwrap_or(Instant::FAR_FUTURE)))
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
        let look = now + self.client.side.timeout / 4;
        Ok(if more { Turn::Again } else { Turn::WaitUntil(look) })
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
