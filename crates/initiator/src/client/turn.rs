//! One turn of a session: receives, issues the requests of the workload, sends, and checks timeouts. The policy limits
//! outstanding data and paces each connection; this file applies its decisions.

use std::time::Duration;

use engine::{Progress, Scratch, Turn};
use event::{Host, Instant};
use net::Ready;
use proto::initiator::Function;
use proto::login::Session as Kind;
use proto::notification::Notification;

use super::growth::Growth;
use super::state::{Client, State};
use crate::error::Error;
use crate::request::Workload;
use crate::session::command_timeout::Finding;
use crate::session::connection::Line;
use crate::session::lun::command_limit::lone_outstanding_bytes;
use crate::session::requests::Open;
use crate::session::state::SessionState;

/// Interval between checks of timeouts: the maximum, and its divisor of the timeout.
pub(super) const CHECK_EVERY: Duration = Duration::from_millis(250);
const CHECKS_PER_TIMEOUT: u32 = 16;

impl Client {
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
        if std::mem::take(&mut self.side.requests.has_refused) {
            workload.refused(self.side.now);
        }
        while let Some(finished) = self.side.requests.finished.pop_front() {
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
            if matches!(self.state, State::Up) && self.side.end.leave.is_none() {
                self.issue(workload, self.side.now);
            }
            let received = exchanged;
            exchanged = self.send().map(|sent| most(sent, received.unwrap_or(Progress::Waits)));
        }
        if let State::Closing { until } = self.state {
            return Ok(self.close_step(until, exchanged, now)?);
        }
        let is_idle = self.side.requests.open.is_empty() && self.side.text.request.is_none();
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
        let may_issue = matches!(self.state, State::Up) && side.end.leave.is_none();
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

    pub(super) fn send(&mut self) -> Result<Progress, Error> {
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
            side.requests.again.extend(side.requests.refused.drain(..));
        }
        if let Some(trail) = &mut side.records.trail {
            trail.grant(&side.session, now);
        }
        let limit = self.options.queue_limit.unwrap_or(usize::MAX).min(side.lun.command_limit.commands());
        while side.session.open_commands() < limit
            && let Some(token) = side.requests.again.pop_front()
        {
            side.submit(token);
        }
        let depth = workload.depth();
        while side.has_room(depth, outstanding_bytes) {
            let Some(request) = workload.next(now) else { break };
            if side.requests.open.is_empty() {
                // Nothing was outstanding until now.
                side.watch.begin(now);
            }
            side.requests.outstanding_bytes += request.len_bytes();
            side.requests.issued.0 += 1;
            side.requests.issued.1 += request.len_bytes();
            let (issued, submitted) = (now, now);
            let open = Open { request, issued, submitted, itt: 0, attentions: 0, question: None };
            let token = side.requests.open.insert(open);
            if side.session.open_commands() < limit {
                side.submit(token);
            } else {
                side.requests.open[token].submitted = Instant::FAR_FUTURE;
                side.requests.again.push_back(token);
            }
        }
        if let Some(trail) = &mut side.records.trail {
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
            let (count, bytes) = std::mem::take(&mut self.side.requests.issued);
            let request_bytes = bytes.checked_div(count).unwrap_or(0);
            let has_company = self.lines.len() > 1;
            for line in self.lines.iter_mut().filter(|line| now >= line.next_sample()) {
                let sample = line.look(&mut self.side, now, request_bytes, has_company)?;
                self.side.records.tables.socket(&sample);
                if let Some(change) = line.connection.take_congestion_change() {
                    (self.options.notice)(&change.to_string());
                }
            }
            self.watch_growth(now);
        }
        if self.lines.is_empty() {
            return Ok(());
        }
        if self.side.end.leave.is_some()
            || self.side.end.logged_out.is_some()
            || !matches!(self.state, State::Up)
        {
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
        let SessionState { session, watch, requests, address, timeout, text, .. } = &mut self.side;
        if text.request.is_some() && now.since(text.sent) >= *timeout {
            let (address, after) = (*address, *timeout);
            let hole = self.lines.iter().find_map(|line| line.black_hole(&self.side));
            return Err(match hole {
                Some(_) => Error::Silent { address, after, hole },
                None => Error::Timeout { address, what: "answer a text request", after },
            });
        }
        let patience = self.lines.iter().map(|line| line.port.pulse.patience(*timeout)).max();
        let carrier = |open: &Open| session.connection_of(open.itt);
        match watch.check(now, &requests.open, carrier, (*timeout, patience.unwrap_or(*timeout))) {
            Finding::Fine => Ok(()),
            Finding::Abort(token) => {
                self.side.session.manage(Function::AbortTask { token });
                // A command that was not sent completes at once.
                self.side.handle_events()
            }
            Finding::Reset => {
                self.side.session.manage(Function::LogicalUnitReset { lun: self.side.lun.address });
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
