//! A session at work: its connections, the requests of the workload that lives in its loop, and what happens
//! when the session is lost. The loop itself is in `run`.
//!
//! The policy says how much may be outstanding and how each connection is paced; this file translates.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use engine::{Buffers, Connection, Progress, Scratch, Turn};
use event::{Host, Instant};
use net::{Poll, Ready, clock};
use proto::initiator::{Function, TASKS_MAX};
use proto::params::Digest;
use slab::Slab;
use wire::iscsi::Lun;

use crate::approach::{Approach, Arrived, Destination};
use crate::chap::Chap;
use crate::error::Error;
use crate::known::Known;
use crate::line::Line;
use crate::once::{Nothing, Once};
use crate::recovery::{Recovery, Trouble};
use crate::request::{Request, Workload};
use crate::run;
use crate::side::{Leave, Open, Payload, Place, Side};
use crate::tables::Tables;
use crate::watch::{Finding, Watch};

/// Free buffers that are kept for reuse.
const BUFFERS_KEEP_BYTES: usize = 256 << 20;
/// Connections of one session, for the names of their sockets.
const TOKENS_PER_SESSION: u64 = 1 << 16;
/// How often the clock is looked at for what does not come, at most and in parts of the timeout.
const CHECK_EVERY: Duration = Duration::from_millis(250);
const CHECKS_PER_TIMEOUT: u32 = 16;

/// A target may always want to be left alone for so long before another login.
const TIME2WAIT_MIN: Duration = Duration::from_secs(5);

/// What every session of a caller has in common.
#[derive(Clone, Debug)]
pub struct Options {
    /// For connecting, for the login, for a target that says nothing, for a command that is not answered, and
    /// for making a session again that was lost.
    pub timeout: Duration,
    /// What is given for CHAP beside the URL.
    pub chap: Chap,
    /// Digests that the session may have, the preferred one first.
    pub digests: &'static [Digest],
    /// Connections that a session may have, where the target offers as many; at least one.
    pub connections: u16,
    /// Congestion control; the system's if `None`.
    pub congestion: Option<String>,
    /// Where the tables `sockets` and `io` go, if anywhere.
    pub trace: Option<PathBuf>,
    /// Where people are told what they should know although it goes on.
    pub notice: fn(&str),
}

/// A session.
pub struct Client {
    pub(crate) poll: Poll,
    pub(crate) side: Side,
    /// By CID; none while there is no session.
    lines: Vec<Line>,
    state: State,
    trouble: Option<Trouble>,
    reconnects: u64,
    destination: Destination,
    first_token: u64,
    options: Options,
    min_rtt: Option<Duration>,
    next_check: Instant,
}

enum State {
    Up,
    /// The target wants us to log out: what is outstanding may end, until then.
    Draining {
        until: Instant,
    },
    /// The logout is sent; its answer may take so long.
    LoggingOut {
        until: Instant,
    },
    /// There is no session.
    Down(Box<Recovery>),
    /// The user has had enough: the logout is sent, and there will be no other session.
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
        let Arrived { session, address, connections, destination: understood } = arrived;
        let side = Side {
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
            question: None,
            answer: None,
            questioned: now,
            known: Vec::new(),
            asking: None,
            resets: 0,
            tables,
            issued: (0, 0),
            watch: Watch::new(now),
            leave: None,
            logged_out: None,
            now,
            timeout: options.timeout,
        };
        Client {
            poll,
            side,
            lines: lines(connections, now),
            state: State::Up,
            trouble: None,
            reconnects: 0,
            // Another attempt begins where the first did, and as what was understood there.
            destination: Destination { request: understood.request, ..destination.clone() },
            first_token,
            options: options.clone(),
            min_rtt: None,
            next_check: now,
        }
    }

    /// The LUN that requests go to from now on.
    pub(crate) fn set_lun(&mut self, number: u16) {
        self.side.lun = Lun::from_number(number);
    }

    /// What the LUN says of itself, from now on. With what can meet a unit attention in front.
    pub(crate) fn set_known(&mut self, known: Vec<Known>) {
        self.side.known = known;
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

    /// Connections that the session has, or had when it was lost.
    pub fn connections(&self) -> u16 {
        self.side.session.next_cid()
    }

    /// How many times the session was lost and made again.
    pub fn reconnects(&self) -> u64 {
        self.reconnects
    }

    /// How many times the target may have lost what was only in its cache: its session was made again, or the
    /// LUN was reset.
    pub fn resets(&self) -> u64 {
        self.reconnects + self.side.resets
    }

    /// Smallest round-trip time that TCP has seen on a connection.
    pub fn min_rtt(&self) -> Option<Duration> {
        let read = |line: &Line| net::tcp_info::read(line.connection.stream()).ok()?.min_rtt;
        self.lines.iter().filter_map(read).chain(self.min_rtt).min()
    }

    /// What to change about this host if its limits for socket buffers may be what holds the path back.
    pub fn advice(&self) -> Option<String> {
        self.lines.iter().find_map(|line| line.connection.advice())
    }

    /// Runs a workload until it is over and nothing is outstanding. A session that is lost on the way is made
    /// again, and what was outstanding is issued again.
    pub fn run<W: Workload>(&mut self, workload: &mut W) -> Result<(), W::Error> {
        run::alone(self, workload)
    }

    /// Runs one command; its data, cut to what was moved.
    pub(crate) fn command(&mut self, request: Request, name: &'static str) -> Result<Vec<u8>, Error> {
        let mut once = Once::of(request);
        self.run(&mut once)?;
        let Some(completed) = once.completed else {
            unreachable!("a workload is over when its request has completed");
        };
        completed.into_data().map_err(|failure| Error::Command { command: name, failure })
    }

    /// Sends text and waits for the answer.
    pub(crate) fn text(&mut self, text: Vec<u8>) -> Result<Vec<u8>, Error> {
        self.side.question = Some(text.clone());
        self.side.questioned = clock::now();
        if !self.lines.is_empty() {
            self.side.session.send_text(text);
        }
        self.run(&mut Nothing)?;
        Ok(self.side.answer.take().unwrap_or_default())
    }

    /// Logs out and closes the tables.
    pub fn close(mut self) -> Result<(), Error> {
        if !self.lines.is_empty() {
            self.side.session.logout();
            self.state = State::Closing { until: clock::now() + self.side.timeout };
            self.run(&mut Nothing)?;
        }
        Ok(Tables::finish(self.side.tables)?)
    }

    /// The loop begins: silence is counted from here.
    pub(crate) fn start(&mut self, now: Instant) {
        self.side.now = now;
        self.side.watch.progress(now);
        self.lines.iter_mut().for_each(|line| line.port.pulse.hear(now));
    }

    /// A socket of the session is ready.
    pub(crate) fn ready(&mut self, ready: Ready) {
        match &mut self.state {
            State::Down(recovery) => {
                if let Some(approach) = &mut recovery.approach {
                    approach.ready(ready);
                }
            }
            _ => {
                let cid = ready.token - self.first_token;
                if let Some(line) = self.lines.get_mut(cid as usize) {
                    line.ready(ready);
                }
            }
        }
    }

    /// Everything ready has been handled: exchange what there is, look at the clock, say what is next.
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
        while let Some(finished) = self.side.finished.pop_front() {
            match finished {
                Some(completed) => {
                    self.trouble = None;
                    workload.done(completed)?;
                }
                None => workload.reconnected(),
            }
        }
        if exchanged.is_ok() {
            if matches!(self.state, State::Up) && self.side.leave.is_none() {
                self.issue(workload, now);
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
        let checked = exchanged.and_then(|progress| self.look(now).map(|()| progress));
        let progress = match checked {
            Ok(progress) => progress,
            // The session was given up while it was looked at.
            Err(error) if matches!(self.state, State::Closed) => return Err(error.into()),
            Err(error) => {
                self.lose(error, None, now)?;
                Progress::More
            }
        };
        if progress == Progress::More {
            return Ok(Turn::Again);
        }
        // Nothing is issued before a logout, or while the LUN is asked who it is.
        let side = &self.side;
        let may_issue = matches!(self.state, State::Up) && side.leave.is_none();
        let may_begin = may_issue && side.asking.is_none();
        let resume_at = workload.resume_at().filter(|at| may_begin || *at > now);
        let mut next = resume_at.unwrap_or(Instant::FAR_FUTURE);
        if let State::Down(recovery) = &self.state {
            next = next.min(recovery.next_at());
        } else {
            let samples = self.lines.iter().map(Line::next_sample);
            next = samples.chain([self.next_check]).fold(next, Instant::min);
            if may_issue {
                next = self.side.retry_at().into_iter().fold(next, Instant::min);
            }
        }
        Ok(Turn::WaitUntil(next))
    }

    /// A target may close as soon as it has seen the logout, and whatever it does about that, everything that
    /// matters was answered before.
    fn close_step(
        &mut self,
        until: Instant,
        exchanged: Result<Progress, Error>,
        now: Instant,
    ) -> Result<Turn, Error> {
        let is_over = match exchanged {
            Ok(Progress::More) if now < until => return Ok(Turn::Again),
            Ok(_) => self.side.logged_out.is_some() || now >= until,
            Err(error) if error.is_passing() => true,
            Err(error) => return Err(error),
        };
        if !is_over {
            return Ok(Turn::WaitUntil(until));
        }
        self.hang_up(now);
        self.state = State::Closed;
        Ok(Turn::Stop)
    }

    /// Closes the connections; how they fared is recorded.
    fn hang_up(&mut self, now: Instant) {
        self.min_rtt = self.min_rtt();
        for line in self.lines.drain(..) {
            if self.side.logged_out.is_some() {
                // Nothing is owed to either side. A socket that is past caring is closed in any case.
                let _ = net::tcp::abandon_on_close(line.connection.stream(), false);
            }
            if let Ok(sample) = line.connection.sample(now, Host::Near) {
                self.side.tables.socket(&sample);
            }
        }
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
        let decisions = self.lines.iter().map(|line| line.connection.decision());
        let outstanding_bytes: u64 = decisions.map(|decision| decision.outstanding_bytes).sum();
        let side = &mut self.side;
        if side.retry_at().is_some_and(|at| now >= at) {
            side.again.extend(side.refused.drain(..));
        }
        while let Some(token) = side.again.pop_front() {
            side.submit(token);
        }
        let depth = workload.depth();
        let most = TASKS_MAX - side.known.len();
        while side.open.len() < most && side.refused.is_empty() && side.asking.is_none() {
            let room = match depth {
                Some(depth) => side.open.len() < depth,
                None => side.outstanding_bytes < outstanding_bytes,
            };
            if !room {
                break;
            }
            let Some(request) = workload.next(now) else { break };
            if side.open.is_empty() {
                // Nothing was owed until now.
                side.watch.progress(now);
            }
            side.outstanding_bytes += request.len_bytes();
            side.issued.0 += 1;
            side.issued.1 += request.len_bytes();
            let (issued, submitted) = (now, now);
            let token = side.open.insert(Open { request, issued, submitted, attentions: 0, question: None });
            side.submit(token);
        }
    }

    /// Looks at the clock, and at what the target wants.
    fn look(&mut self, now: Instant) -> Result<(), Error> {
        if self.lines.iter().any(|line| now >= line.next_sample()) {
            let (count, bytes) = std::mem::take(&mut self.side.issued);
            let request_bytes = bytes.checked_div(count).unwrap_or(0);
            for line in self.lines.iter_mut().filter(|line| now >= line.next_sample()) {
                let sample = line.look(&mut self.side, now, request_bytes)?;
                self.side.tables.socket(&sample);
            }
        }
        if self.lines.is_empty() {
            return Ok(());
        }
        if self.side.leave.is_some() || self.side.logged_out.is_some() || !matches!(self.state, State::Up) {
            self.leave(now)?;
        }
        if now >= self.next_check && !self.lines.is_empty() {
            self.next_check = now + CHECK_EVERY.min(self.side.timeout / CHECKS_PER_TIMEOUT);
            for line in &mut self.lines {
                line.check_alive(&mut self.side, now)?;
            }
            self.check_commands(now)?;
        }
        Ok(())
    }

    fn check_commands(&mut self, now: Instant) -> Result<(), Error> {
        let Side { watch, open, address, timeout, question, questioned, .. } = &mut self.side;
        if question.is_some() && now.since(*questioned) >= *timeout {
            let (address, after) = (*address, *timeout);
            return Err(Error::Timeout { address, what: "answer a text request", after });
        }
        let patience = self.lines.iter().map(|line| line.port.pulse.patience(*timeout)).max();
        match watch.check(now, open, *timeout, patience.unwrap_or(*timeout)) {
            Finding::Fine => Ok(()),
            Finding::Abort(token) => {
                self.side.session.manage(Function::AbortTask { token });
                Ok(())
            }
            Finding::GiveUp(command, abort) => {
                Err(Error::Unanswered { address: *address, command, after: *timeout, abort })
            }
        }
    }

    /// Does what the target wants: ends what is outstanding as far as there is time, logs out, stays away.
    fn leave(&mut self, now: Instant) -> Result<(), Error> {
        let address = self.side.address;
        if let Some(time2wait) = self.side.logged_out {
            if matches!(self.state, State::LoggingOut { .. }) {
                return self.lose(Error::LogoutRequested { address }, Some(time2wait), now);
            }
        } else if let Some(Leave::Now { time2wait }) = self.side.leave {
            return self.lose(Error::Dropped { address }, Some(time2wait), now);
        }
        match self.state {
            State::Up => {
                if let Some(Leave::LogOut { within }) = self.side.leave {
                    (self.options.notice)(&format!(
                        "{address} asked for a logout; the session is made again"
                    ));
                    // The request for it has to arrive in time.
                    let until = now + within.saturating_sub(self.min_rtt().unwrap_or_default());
                    self.state = State::Draining { until };
                    self.next_check = now;
                    return self.leave(now);
                }
            }
            State::Draining { until } => {
                // What has not been sent, because the window is shut, is for the next session.
                if !self.side.session.awaits_answers() || now >= until {
                    let patience = self.lines.iter().map(|line| line.port.pulse.patience(self.side.timeout));
                    self.log_out(now + patience.max().unwrap_or_default());
                    self.send()?;
                } else {
                    self.next_check = self.next_check.min(until);
                }
            }
            State::LoggingOut { until } if now >= until => {
                return self.lose(Error::LogoutRequested { address }, None, now);
            }
            _ => {}
        }
        Ok(())
    }

    fn log_out(&mut self, until: Instant) {
        self.side.session.logout();
        self.state = State::LoggingOut { until };
    }

    /// The session is lost. Unless it can be made again, that is the end. `time2wait` is how long the target
    /// wants to be left alone, if it said so.
    fn lose(&mut self, error: Error, time2wait: Option<Duration>, now: Instant) -> Result<(), Error> {
        let was = std::mem::replace(&mut self.state, State::Closed);
        self.hang_up(now);
        if !error.is_passing() {
            return Err(error);
        }
        let agreed = self.side.session.params().default_time2wait_s;
        let time2wait = time2wait.unwrap_or(Duration::from_secs(agreed.into()));
        let timeout = self.side.timeout;
        if time2wait > timeout.max(TIME2WAIT_MIN) {
            return Err(Error::Away { cause: Box::new(error), time2wait, after: timeout });
        }
        let trouble = self.trouble.get_or_insert_with(|| Trouble::new(now, time2wait, timeout));
        if !matches!(was, State::LoggingOut { .. } | State::Draining { .. }) {
            (self.options.notice)(&format!("{error}; connecting again"));
        }
        let recovery = Recovery::new(error, trouble, now, time2wait);
        if recovery.is_over(trouble, now) {
            return Err(recovery.give_up(trouble));
        }
        self.state = State::Down(Box::new(recovery));
        Ok(())
    }

    /// Makes a lost session again; `true` when it is there.
    fn recover(&mut self, scratch: &mut Scratch, now: Instant) -> Result<bool, Error> {
        let (State::Down(recovery), Some(trouble)) = (&mut self.state, &mut self.trouble) else {
            return Ok(false);
        };
        if recovery.is_due(trouble, now) {
            match Approach::new(self.destination.clone(), self.first_token, trouble.until()) {
                Ok(approach) => recovery.approach = Some(approach),
                Err(error) => recovery.failed(error, trouble, now),
            }
        }
        if let Some(approach) = &mut recovery.approach {
            match approach.turn(&self.poll, scratch, &self.options, now) {
                Ok(None) => {}
                Ok(Some(Arrived { session, address, connections, .. })) => {
                    self.state = State::Up;
                    self.reconnects += 1;
                    self.lines = lines(connections, now);
                    self.side.begin_again(session, address);
                    return Ok(true);
                }
                Err(error) => recovery.failed(error, trouble, now),
            }
        }
        if !recovery.is_over(trouble, now) {
            return Ok(false);
        }
        let trouble = *trouble;
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Down(recovery) => Err(recovery.give_up(&trouble)),
            _ => unreachable!("there was no session"),
        }
    }
}

fn lines(connections: Vec<Connection<Place, Payload>>, now: Instant) -> Vec<Line> {
    let numbered = connections.into_iter().enumerate();
    numbered.map(|(cid, connection)| Line::new(connection, cid as u16, now)).collect()
}

fn most(one: Progress, other: Progress) -> Progress {
    if one == Progress::More { one } else { other }
}
