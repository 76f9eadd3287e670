//! A running session: its connections and the requests of the workload, driven by the event loop in `run`. Additional
//! connections are in `growth`, the recovery of a lost session in `recovery`, its end in `departure`. The policy limits
//! outstanding data and paces each connection; this file applies its decisions.

mod arrival;
mod departure;
mod growth;
mod recovery;

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use block::Buffers;
use engine::{Progress, Scratch, Turn};
use event::{Host, Instant, RequestId};
use net::{Poll, Ready, clock};
use proto::initiator::Function;
use proto::login::Session as Kind;
use proto::notification::Notification;
use tables::manifest::Trace;
use wire::iscsi::Lun;

use crate::approach::{Arrived, Destination};
use crate::error::Error;
use crate::known::Known;
use crate::line::Line;
use crate::once::{Nothing, Once};
use crate::options::Options;
use crate::request::{Request, Workload};
use crate::room::lone_outstanding_bytes;
use crate::run;
use crate::side::{Open, Side};
use crate::tables::Tables;
use crate::trail::Trail;
use crate::watch::Finding;
use arrival::{lines, note_logins};
use growth::Growth;
use recovery::{Recovery, Trouble};

/// Number of epoll tokens reserved for the sockets of one session.
const TOKENS_PER_SESSION: u64 = 1 << 16;
/// Interval between checks of timeouts: the maximum, and its divisor of the timeout.
const CHECK_EVERY: Duration = Duration::from_millis(250);
const CHECKS_PER_TIMEOUT: u32 = 16;

/// A session with a target: its connections, outstanding requests and recovery.
pub struct Client {
    pub(crate) poll: Poll,
    pub(crate) side: Side,
    /// Connections by CID; empty while there is no session.
    lines: Vec<Line>,
    state: State,
    /// Chooser of the number of connections, if the caller leaves it open.
    growth: Option<Growth>,
    trouble: Option<Trouble>,
    /// Losses of the session during a flush, since the last completed flush.
    lost_flushes: u32,
    reconnects: u64,
    destination: Destination,
    first_token: u64,
    pub(crate) options: Options,
    min_rtt: Option<Duration>,
    next_check: Instant,
}

/// Reception on the connections of a session, summed, from TCP_INFO.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reception {
    /// Receive window offered; 0 on kernels before Linux 6.2, which do not report it.
    pub window_bytes: u64,
    /// Packets received out of order, behind a gap of lost or overtaken packets.
    pub behind_gap_packets: u64,
}

enum State {
    Up,
    /// The target requested a logout: outstanding requests may complete until then.
    Draining {
        until: Instant,
    },
    /// The logout request is sent; its response is awaited until then.
    LoggingOut {
        until: Instant,
    },
    /// No session; recovery is in progress.
    Down(Box<Recovery>),
    /// The user closes the session: the logout request is sent, and there is no recovery.
    Closing {
        until: Instant,
    },
    Closed,
}

impl Client {
    pub(crate) fn first_token(number: usize) -> u64 {
        number as u64 * TOKENS_PER_SESSION
    }

    pub(crate) fn new(
        poll: Poll,
        arrived: Arrived,
        destination: &Destination,
        first_token: u64,
        options: &Options,
        tables: Rc<Tables>,
    ) -> Client {
        let now = clock::now();
        let Arrived { session, address, tsih, connections, destination: understood } = arrived;
        let number = RequestId::session_of(destination.request.isid, tsih);
        let trail = tables.tracer().map(|tracer| Trail::new(Rc::clone(tracer), number));
        let growth = Growth::of(options, session.params(), tsih, None);
        let lines = lines(connections, 0, &tables, now);
        note_logins(&lines, &session, (number, options), &tables, now);
        Client {
            poll,
            side: Side::new((session, address), (tables, trail), options.timeout, now),
            lines,
            state: State::Up,
            growth,
            trouble: None,
            lost_flushes: 0,
            reconnects: 0,
            // A reconnect starts at the original address, with the login parameters that the target accepted.
            destination: Destination { request: understood.request, ..destination.clone() },
            first_token,
            options: options.clone(),
            min_rtt: None,
            next_check: now,
        }
    }

    /// Sets the LUN for further requests.
    pub(crate) fn set_lun(&mut self, number: u16) {
        self.side.lun = Lun::from_number(number);
    }

    /// Sets the facts by which the LUN is re-validated. The first one must use a command that reports unit attentions.
    pub(crate) fn set_known(&mut self, known: Vec<Known>) {
        self.side.known = known;
    }

    /// Pool for the buffers of requests.
    pub fn buffers(&self) -> &Buffers {
        &self.side.buffers
    }

    /// Address of the target.
    pub fn address(&self) -> SocketAddr {
        self.side.address
    }

    /// Software version of a farlun target; `None` for other targets.
    pub fn peer_software(&self) -> Option<&str> {
        self.side.session.params().peer_software.as_deref()
    }

    /// Connections of the session, or of the lost session during recovery.
    pub fn connections(&self) -> u16 {
        self.side.session.next_cid()
    }

    /// Returns true if the number of connections is automatic: one, unless the path needs more.
    pub fn chooses_connections(&self) -> bool {
        self.options.connections.is_none()
    }

    /// Number of times that the session was lost and re-established.
    pub fn reconnects(&self) -> u64 {
        self.reconnects
    }

    /// Number of times that the target may have lost its volatile cache: reconnects and LUN resets.
    pub fn resets(&self) -> u64 {
        self.reconnects + self.side.resets
    }

    /// Returns true if the LUN rejected SYNCHRONIZE CACHE: durability of writes is up to the LUN.
    pub fn is_without_flush(&self) -> bool {
        self.side.is_without_flush
    }

    /// Receive window and out-of-order packets, summed over all connections.
    pub fn reception(&self) -> Reception {
        let read = |line: &Line| net::tcp_info::read(line.connection.stream()).ok();
        self.lines.iter().filter_map(read).fold(Reception::default(), |sum, info| Reception {
            window_bytes: sum.window_bytes + u64::from(info.rcv_wnd_bytes),
            behind_gap_packets: sum.behind_gap_packets + u64::from(info.behind_gap_packets),
        })
    }

    /// Smallest round-trip time measured by TCP on a connection of the session.
    pub fn min_rtt(&self) -> Option<Duration> {
        let read = |line: &Line| net::tcp_info::read(line.connection.stream()).ok()?.min_rtt;
        self.lines.iter().filter_map(read).chain(self.min_rtt).min()
    }

    /// Advice for a change of this host's socket buffer limits, if they may limit the throughput.
    pub fn advice(&self) -> Option<String> {
        self.lines.iter().find_map(|line| line.connection.advice())
    }

    /// Runs a workload until it has ended and nothing is outstanding. A session that is lost is re-established, and
    /// outstanding requests are issued again.
    pub fn run<W: Workload>(&mut self, workload: &mut W) -> Result<(), W::Error> {
        run::alone(self, workload)
    }

    /// Executes one command and returns the received data.
    pub(crate) fn command(&mut self, request: Request, name: &'static str) -> Result<Vec<u8>, Error> {
        let mut once = Once::of(request);
        self.run(&mut once)?;
        let Some(completed) = once.completed else {
            unreachable!("a workload is over when its request has completed");
        };
        completed.into_data().map_err(|failure| Error::Command { command: name, failure })
    }

    /// Sends a text request and returns the response.
    pub(crate) fn text(&mut self, text: Vec<u8>) -> Result<Vec<u8>, Error> {
        self.side.question = Some(text.clone());
        self.side.questioned = clock::now();
        if !self.lines.is_empty() {
            self.side.session.send_text(text);
        }
        self.run(&mut Nothing)?;
        Ok(self.side.answer.take().unwrap_or_default())
    }

    /// Logs out. Completes the tables and returns their manifest, unless another session records in them.
    pub fn close(mut self) -> Result<Option<Trace>, Error> {
        if !self.lines.is_empty() {
            self.growth = None;
            self.side.session.logout();
            self.state = State::Closing { until: clock::now() + self.side.timeout };
            self.run(&mut Nothing)?;
        }
        let Side { tables, trail, .. } = self.side;
        if let Some(mut trail) = trail {
            trail.close();
        }
        Ok(Tables::finish(tables)?)
    }

    /// Prepares the session for a run of the event loop: silence is measured from now on, and measurements for the
    /// number of connections begin anew.
    pub(crate) fn start(&mut self, now: Instant) {
        self.side.now = now;
        self.side.watch.begin(now);
        self.lines.iter_mut().for_each(|line| line.port.pulse.hear(now));
        self.growth.iter_mut().for_each(Growth::restart);
    }

    /// Handles readiness of a socket of the session.
    pub(crate) fn ready(&mut self, ready: Ready) {
        match &mut self.state {
            State::Down(recovery) => {
                if let Some(approach) = &mut recovery.approach {
                    approach.ready(ready);
                }
            }
            _ => {
                let cid = ready.token - self.first_token;
                match self.lines.get_mut(cid as usize) {
                    Some(line) => line.ready(ready),
                    None => self.growth.iter_mut().for_each(|growth| growth.ready(ready)),
                }
            }
        }
    }

    /// One turn after all readiness events: receives, issues requests, sends, checks timeouts, and returns the next
    /// step.
    pub(crate) fn turn<W: Workload>(
        &mut self,
        workload: &mut W,
        scratch: &mut Scratch,
        now: Instant,
    ) -> Result<Turn, W::Error> {
        self.side.now = now;
        if matches!(self.state, State::Closed) {
            let address = self.side.address;
            return Err(Error::Closed { address, when: "before" }.into());
        }
        if matches!(self.state, State::Down(_)) && self.recover(scratch, now)? {
            workload.reconnected();
        }
        let mut exchanged = self.receive(scratch);
        self.side.tell();
        if std::mem::take(&mut self.side.has_refused) {
            workload.refused(self.side.now);
        }
        while let Some(finished) = self.side.finished.pop_front() {
            match finished {
                Some(completed) => {
                    self.trouble = None;
                    self.lost_flushes *= u32::from(!completed.request.is_flush());
                    let completed = self.side.told(completed);
                    workload.done(completed)?;
                }
                None => workload.reconnected(),
            }
        }
        if exchanged.is_ok() {
            if matches!(self.state, State::Up) && self.side.leave.is_none() {
                self.issue(workload, self.side.now);
            }
            let received = exchanged;
            exchanged = self.send().map(|sent| most(sent, received.unwrap_or(Progress::Waits)));
        }
        if let State::Closing { until } = self.state {
            return Ok(self.close_step(until, exchanged, now)?);
        }
        let is_idle = self.side.open.is_empty() && self.side.question.is_none();
        if is_idle && workload.is_over(now) && !matches!(self.state, State::LoggingOut { .. }) {
            return Ok(Turn::Stop);
        }
        self.grow(scratch, now);
        let checked = exchanged.and_then(|progress| self.look(now).map(|()| progress));
        let progress = match checked {
            Ok(progress) => progress,
            // The session was given up during the checks.
            Err(error) if matches!(self.state, State::Closed) => return Err(error.into()),
            Err(error) => {
                self.lose(error, None, now)?;
                Progress::More
            }
        };
        if progress == Progress::More {
            return Ok(Turn::Again);
        }
        // No requests are issued before a logout, or during re-validation of the LUN.
        let side = &self.side;
        let may_issue = matches!(self.state, State::Up) && side.leave.is_none();
        // A request above the limits waits for a completion, or for the retry of refused commands.
        let may_begin =
            may_issue && side.has_room(workload.depth(), self.outstanding_bytes(workload.lone_bytes()));
        let resume_at = workload.resume_at().filter(|at| may_begin || *at > now);
        let mut next = resume_at.unwrap_or(Instant::FAR_FUTURE);
        if let State::Down(recovery) = &self.state {
            next = next.min(recovery.next_at());
        } else {
            let samples = self.lines.iter().map(Line::next_at);
            let dial = self.growth.as_ref().and_then(Growth::deadline);
            next = samples.chain([self.next_check]).chain(dial).fold(next, Instant::min);
            if may_issue {
                next = self.side.retry_at().into_iter().fold(next, Instant::min);
            }
        }
        Ok(Turn::WaitUntil(next))
    }

    fn receive(&mut self, scratch: &mut Scratch) -> Result<Progress, Error> {
        let mut progress = Progress::Waits;
        for line in &mut self.lines {
            progress = most(line.receive(&mut self.side, scratch)?, progress);
        }
        Ok(progress)
    }

    fn send(&mut self) -> Result<Progress, Error> {
        let mut progress = Progress::Waits;
        for line in &mut self.lines {
            progress = most(line.send(&mut self.side, &self.poll)?, progress);
        }
        Ok(progress)
    }

    fn issue<W: Workload>(&mut self, workload: &mut W, now: Instant) {
        for (cid, told) in self.side.told.drain(..) {
            let Some(Line { connection, .. }) = self.lines.get_mut(usize::from(cid)) else { continue };
            match told {
                Notification::Window(notice) => {
                    self.growth.iter_mut().for_each(|growth| growth.told(Host::Far, &notice));
                    connection.told(&notice);
                }
                Notification::Part(bytes_per_s) => connection.left(bytes_per_s, now),
            }
        }
        let outstanding_bytes = self.outstanding_bytes(workload.lone_bytes());
        let decisions = || self.lines.iter().map(|line| line.connection.decision());
        // The session uses the smallest block length that the windows of its connections carry.
        if let Some(block_bytes) = decisions().filter_map(|decision| decision.block_bytes).min() {
            workload.set_block(block_bytes);
        }
        let side = &mut self.side;
        if side.retry_at().is_some_and(|at| now >= at) {
            side.again.extend(side.refused.drain(..));
        }
        if let Some(trail) = &mut side.trail {
            trail.grant(&side.session, now);
        }
        let limit = self.options.queue_limit.unwrap_or(usize::MAX).min(side.room.commands());
        while side.session.open_commands() < limit
            && let Some(token) = side.again.pop_front()
        {
            side.submit(token);
        }
        let depth = workload.depth();
        while side.has_room(depth, outstanding_bytes) {
            let Some(request) = workload.next(now) else { break };
            if side.open.is_empty() {
                // Nothing was outstanding until now.
                side.watch.begin(now);
            }
            side.outstanding_bytes += request.len_bytes();
            side.issued.0 += 1;
            side.issued.1 += request.len_bytes();
            let (issued, submitted) = (now, now);
            let open = Open { request, issued, submitted, itt: 0, attentions: 0, question: None };
            let token = side.open.insert(open);
            if side.session.open_commands() < limit {
                side.submit(token);
            } else {
                side.open[token].submitted = Instant::FAR_FUTURE;
                side.again.push_back(token);
            }
        }
        if let Some(trail) = &mut side.trail {
            trail.grant(&side.session, now);
        }
    }

    /// Maximum outstanding bytes of a workload without a queue depth; `lone_bytes` is [`Workload::lone_bytes`].
    fn outstanding_bytes(&self, lone_bytes: Option<u64>) -> u64 {
        let policy = self.lines.iter().map(|line| line.connection.decision().outstanding_bytes).sum();
        let Some(request_bytes) = lone_bytes else { return policy };
        let product: u64 = self.lines.iter().map(|line| line.connection.product_bytes()).sum();
        lone_outstanding_bytes(product, request_bytes).min(policy)
    }

    /// Samples the connections, checks timeouts, and handles a requested end of the session.
    fn look(&mut self, now: Instant) -> Result<(), Error> {
        if self.lines.iter().any(|line| now >= line.next_sample()) {
            let (count, bytes) = std::mem::take(&mut self.side.issued);
            let request_bytes = bytes.checked_div(count).unwrap_or(0);
            let has_company = self.lines.len() > 1;
            for line in self.lines.iter_mut().filter(|line| now >= line.next_sample()) {
                let sample = line.look(&mut self.side, now, request_bytes, has_company)?;
                self.side.tables.socket(&sample);
            }
            self.watch_growth(now);
        }
        if self.lines.is_empty() {
            return Ok(());
        }
        if self.side.leave.is_some() || self.side.logged_out.is_some() || !matches!(self.state, State::Up) {
            self.leave(now)?;
        }
        if now >= self.next_check && !self.lines.is_empty() {
            self.next_check = now + CHECK_EVERY.min(self.side.timeout / CHECKS_PER_TIMEOUT);
            // In a discovery session a target accepts text and logout requests only (RFC 7143 section 4.3); text
            // requests have a timeout of their own.
            if self.destination.request.session != Kind::Discovery {
                for line in &mut self.lines {
                    line.check_alive(&mut self.side, now)?;
                }
            }
            self.check_commands(now)?;
        }
        Ok(())
    }

    fn check_commands(&mut self, now: Instant) -> Result<(), Error> {
        let Side { session, watch, open, address, timeout, question, questioned, .. } = &mut self.side;
        if question.is_some() && now.since(*questioned) >= *timeout {
            let (address, after) = (*address, *timeout);
            let hole = self.lines.iter().find_map(|line| line.black_hole(&self.side));
            return Err(match hole {
                Some(_) => Error::Silent { address, after, hole },
                None => Error::Timeout { address, what: "answer a text request", after },
            });
        }
        let patience = self.lines.iter().map(|line| line.port.pulse.patience(*timeout)).max();
        let carrier = |open: &Open| session.connection_of(open.itt);
        match watch.check(now, open, carrier, (*timeout, patience.unwrap_or(*timeout))) {
            Finding::Fine => Ok(()),
            Finding::Abort(token) => {
                self.side.session.manage(Function::AbortTask { token });
                // A command that was not sent completes at once.
                self.side.handle_events()
            }
            Finding::Reset => {
                self.side.session.manage(Function::LogicalUnitReset { lun: self.side.lun });
                self.side.handle_events()
            }
            Finding::GiveUp(command, abort) => {
                let after = watch.limit().unwrap_or(*timeout);
                Err(Error::Unanswered { address: *address, command, after, abort })
            }
        }
    }
}

fn most(one: Progress, other: Progress) -> Progress {
    if one == Progress::More { one } else { other }
}

#[cfg(test)]
pub(crate) mod tests;
