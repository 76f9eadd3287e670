//! One turn of the loop: jobs and chores, the connections with work, and the time of the next turn.

use std::time::Duration;

use block::StoreCall;
use engine::{Progress, Quantum, Service, Turn};
use event::Instant;
use net::{Poll, Ready};
use slab::Slab;

use crate::serve::limits::turns::{ROUND, TurnClock};
use crate::serve::service::target::{
    LISTENER_TOKENS, REGISTER_TOKEN, RELOAD_TOKEN, SIGNALS_TOKEN, Target, WORKERS_TOKEN,
};
use crate::serve::session::state::SessionState;
use crate::serve::stores::jobs::{Call, Done, Job};
use crate::serve::{ServeError, log};

/// Time during which turns stay short after a second connection has had a turn.
const SHARED_FOR: Duration = Duration::from_millis(50);

impl Target {
    /// Submits the jobs whose delay has passed.
    pub(crate) fn begin(&mut self, now: Instant) {
        while let Some(job) = self.shared.work.waiting.pop_due(now) {
            self.shared.work.workers.submit(job.claim(), job.cost_bytes(), job);
        }
    }

    /// Withdraws jobs of ended commands that still wait for their time or for a worker.
    pub(crate) fn take_back(&mut self) {
        let ended = std::mem::take(&mut self.shared.work.ended);
        if ended.is_empty() {
            return;
        }
        let sides = &self.sides;
        let mut jobs = self.shared.work.waiting.take(|job| is_over(sides, job));
        for nexus in ended {
            jobs.append(&mut self.shared.work.workers.take_back(nexus.0, |job| is_over(sides, job)));
        }
        jobs.into_iter().for_each(|job| self.finish(job.given_up()));
    }

    /// Continues a command after its job or chore.
    pub(crate) fn finish(&mut self, done: Done) {
        if let Some((lun, save)) = &done.kept {
            self.shared.luns.settle(*lun, save, done.result.is_ok());
            if let Some(error) = done.own_error() {
                log(format_args!("LUN {lun}: the user that a registration belongs to is not kept: {error}"));
            }
        }
        match self.sides.get_mut(done.side) {
            Some(side) if side.nexus == done.nexus => {
                let index = side.index;
                side.finish_job(done, &mut self.shared);
                self.wake_members(index);
            }
            _ => {
                if self.shared.management.finish_orphan(done.nexus, done.token) {
                    self.came_to_rest(done.nexus);
                }
            }
        }
    }

    /// Executes one slice of a chore.
    fn do_chore(&mut self) {
        let (sides, shared) = (&self.sides, &mut self.shared);
        let is_wanted = |side, nexus, token| {
            sides.get(side).is_some_and(|side: &SessionState| side.nexus == nexus && !side.is_doomed(token))
        };
        if let Some(done) = shared.work.chores.step(&mut shared.luns, is_wanted) {
            self.finish(done);
        }
    }

    /// Wakes paced clients whose send time has come.
    fn resume_spaced(&mut self, now: Instant) {
        let (clients, dirty) = (&mut self.clients, &mut self.schedule.dirty);
        self.schedule.spaced.retain(|index| {
            let Some(client) = clients.get_mut(*index) else { return false };
            let Some(at) = client.resume_at() else { return false };
            if now >= at {
                client.become_dirty(dirty);
            }
            now < at
        });
    }
}

impl Service for Target {
    type Error = ServeError;

    fn poll(&self) -> &Poll {
        &self.poll
    }

    fn ready(&mut self, ready: Ready, now: Instant) -> Result<(), ServeError> {
        match ready.token {
            SIGNALS_TOKEN => self.signalled(now),
            RELOAD_TOKEN => self.finish_reload(now)?,
            REGISTER_TOKEN => self.finish_register(now),
            WORKERS_TOKEN => {
                for done in self.shared.work.workers.results() {
                    self.finish(done);
                }
            }
            token if token >= LISTENER_TOKENS => self.accept((token - LISTENER_TOKENS) as usize, now),
            token => {
                let index = token as usize;
                if let Some(client) = self.clients.get_mut(index) {
                    client.mark(ready, now);
                    client.become_dirty(&mut self.schedule.dirty);
                    let look_at = (now + client.look_again()).max(self.sampling.no_sample_before);
                    self.sampling.next_sample = self.sampling.next_sample.min(look_at);
                }
            }
        }
        Ok(())
    }

    fn turn(&mut self, now: Instant) -> Result<Turn, ServeError> {
        self.begin(now);
        // Before requests are looked at that wait for it.
        self.do_chore();
        self.manage(now);
        self.resume_spaced(now);
        let mut served = std::mem::take(&mut self.schedule.dirty);
        served.splice(0..0, self.schedule.left.drain(..));
        served.append(&mut self.schedule.again);
        if served.first() == Some(&self.schedule.last_served) {
            served.rotate_left(1);
        }
        let mut at = now;
        for (place, &index) in served.iter().enumerate() {
            if at.since(now) >= ROUND {
                self.schedule.left.extend_from_slice(&served[place..]);
                break;
            }
            let Some(client) = self.clients.get_mut(index) else { continue };
            if at < self.schedule.shared_until && client.rests(at, &self.sides, &self.schedule.debts) {
                self.schedule.again.push(index);
                continue;
            }
            client.is_dirty = false;
            if std::mem::replace(&mut self.schedule.last_served, index) != index {
                self.schedule.shared_until = now + SHARED_FOR;
            }
            let quantum = if now < self.schedule.shared_until { Quantum::SHARED } else { Quantum::ALONE };
            client.set_quantum(quantum);
            let (begin, payer) = (at, (client.link.peer.ip().into(), client.awaits_login()));
            self.shared.turn = TurnClock::start(at);
            let turn = client.turn(&self.poll, &mut self.sides, &mut self.shared);
            match turn {
                Ok(Progress::Waits) => {
                    if client.resume_at().is_some() && !self.schedule.spaced.contains(&index) {
                        self.schedule.spaced.push(index);
                    }
                    if client.is_paused() && !self.schedule.paused.contains(&index) {
                        self.schedule.paused.push(index);
                    }
                }
                Ok(Progress::More) => {
                    client.is_dirty = true;
                    self.schedule.again.push(index);
                    if client.take_wants_look() {
                        self.sampling.next_sample =
                            self.sampling.next_sample.min(now.max(self.sampling.no_sample_before));
                    }
                }
                Err(end) => self.close(index, &end, now),
            }
            self.bound_unread(now);
            self.bound_commands(now);
            self.end_replaced(now);
            self.manage(now);
            at = net::clock::now();
            self.charge(index, payer, begin, at);
        }
        if now >= self.next_release() {
            self.release_luns(now);
        }
        if self.listening.listen_again.is_some_and(|at| now >= at) {
            self.listen()?;
        }
        if now >= self.sampling.next_sample {
            self.sample(now);
            self.sampling.next_sample =
                self.sampling.next_sample.min(self.listening.listen_again.unwrap_or(Instant::FAR_FUTURE));
        }
        if now >= self.sampling.next_roll_call {
            self.call_roll(now);
        }
        served.clear();
        // The vector's memory is reused for clients that were found meanwhile.
        served.append(&mut self.schedule.dirty);
        self.schedule.dirty = served;
        if !self.shared.work.ended.is_empty() {
            self.manage(now);
        }
        let register_at = self.keep_sessions(now);
        self.resume_paused();
        let mut next = self.sampling.next_sample.min(self.sampling.next_roll_call).min(self.next_release());
        next = next.min(register_at);
        next = next.min(self.shared.work.waiting.next_due());
        let resumes = self.schedule.spaced.iter().filter_map(|index| self.clients.get(*index)?.resume_at());
        next = resumes.fold(next, Instant::min);
        if let Some(drain) = self.shutdown.drain {
            match self.drain(drain, now) {
                Some(at) => next = next.min(at),
                None => return Ok(Turn::Stop),
            }
        }
        let is_idle = self.schedule.dirty.is_empty()
            && self.schedule.left.is_empty()
            && self.schedule.again.is_empty()
            && self.shared.work.chores.is_empty()
            && self.shared.work.ended.is_empty();
        Ok(match (is_idle, next) {
            (false, _) => Turn::Again,
            (true, Instant::FAR_FUTURE) => Turn::Wait,
            (true, at) => Turn::WaitUntil(at),
        })
    }
}

/// Returns true if the command or the session of a job has ended. Reservations that are in force already are kept all
/// the same, and a write that has begun is completed.
fn is_over(sides: &Slab<SessionState>, job: &Job) -> bool {
    let is_kept = matches!(job.call, Call::Keep(_) | Call::Store(StoreCall::Write { done_bytes: 1.., .. }));
    let side = sides.get(job.side).filter(|side| side.nexus == job.nexus);
    !is_kept && side.is_none_or(|side| side.is_doomed(job.token))
}
