//! Effects of one session on others: session reinstatement, task management across sessions, withdrawal of the jobs of
//! ended commands, PDUs that another connection has to send, and the time that all of it takes.

use block::StoreCall;
use event::{Instant, PeerAddress};
use slab::Slab;

use super::Target;
use super::client::Client;
use super::directory::Replaced;
use super::end::End;
use super::jobs::{Call, Job};
use super::manage::Reply;
use super::side::{Ending, Side};
use crate::lun::Nexus;

impl Target {
    /// Wakes logins that wait for a closed session, whose last call has returned.
    pub(super) fn came_to_rest(&mut self, nexus: Nexus) {
        for index in self.shared.sessions.came_to_rest(nexus) {
            if let Some(client) = self.clients.get_mut(index) {
                client.become_dirty(&mut self.dirty);
            }
        }
    }

    /// Wakes logins that wait for an old session to end.
    fn wake_logins(&mut self) {
        for (_, client) in self.clients.iter_mut().filter(|(_, client)| client.next_tsih().is_some()) {
            client.become_dirty(&mut self.dirty);
        }
    }

    /// Wakes all connections of a session.
    pub(super) fn wake_members(&mut self, side: usize) {
        for member in &self.sides[side].members {
            self.clients[member.client].become_dirty(&mut self.dirty);
        }
    }

    /// Ends the sessions whose initiator has just logged in again, before anything else of it is served.
    pub(super) fn end_replaced(&mut self, now: Instant) {
        let replaced = self.shared.sessions.take_replaced();
        if replaced.is_empty() {
            return;
        }
        for Replaced { old, new } in replaced {
            let mut waits_for = self.shared.sessions.held_by(old);
            let login = self.clients.iter().filter(|(_, client)| client.next_tsih() == Some(old));
            let mut clients: Vec<_> = login.map(|(index, _)| index).collect();
            for (_, side) in self.sides.iter().filter(|(_, side)| side.tsih == old) {
                waits_for.push(side.nexus);
                clients.extend(side.members.iter().map(|member| member.client));
            }
            for index in clients {
                self.close(index, &End::Replaced, now);
            }
            waits_for.into_iter().for_each(|nexus| self.shared.sessions.hold(new, nexus));
        }
        self.wake_logins();
    }

    /// Ends tasks in other sessions than the requesting one, and answers completed requests.
    pub(super) fn manage(&mut self, now: Instant) {
        for others in self.shared.management.take_others() {
            for (_, side) in &mut self.sides {
                if side.iqn.is_some()
                    && others.concerns(side.nexus)
                    && side.end_tasks(&others, &mut self.shared)
                    && others.is_told
                {
                    self.shared.luns.tell_cleared(others.lun, side.nexus);
                }
            }
            self.shared.management.release(others.id);
        }
        self.take_back();
        for request in self.shared.management.take_finished() {
            if let Reply::Managed { is_cold: true, .. } = request.reply {
                let own = |client: &Client| client.place().is_some_and(|(side, _)| side == request.side);
                let others = self.clients.iter().filter(|(_, client)| !own(client));
                for index in others.map(|(index, _)| index).collect::<Vec<_>>() {
                    self.dismiss(index, &End::Reset, now);
                }
            }
            if let Some(side) = self.sides.get_mut(request.side)
                && side.nexus == request.nexus
            {
                side.finish_managing(request.reply, &mut self.shared);
                self.wake_members(request.side);
            }
        }
        self.settle(now);
    }

    /// Ends the connections that have to end, and wakes clients that have something to send because of others.
    pub(super) fn settle(&mut self, now: Instant) {
        while let Some(Ending { client: index, end, is_abrupt }) = self.shared.endings.pop() {
            if is_abrupt {
                self.close(index, &end, now);
            } else if let Some(client) = self.clients.get_mut(index) {
                client.end_with(end);
                client.become_dirty(&mut self.dirty);
            }
        }
        for index in std::mem::take(&mut self.shared.stirred) {
            if let Some(client) = self.clients.get_mut(index) {
                client.become_dirty(&mut self.dirty);
            }
        }
    }

    /// Withdraws jobs of ended commands that still wait for their time or for a worker.
    pub(super) fn take_back(&mut self) {
        let ended = std::mem::take(&mut self.shared.ended);
        if ended.is_empty() {
            return;
        }
        let sides = &self.sides;
        let mut jobs = self.shared.waiting.take(|job| is_over(sides, job));
        for nexus in ended {
            jobs.append(&mut self.shared.workers.take_back(nexus.0, |job| is_over(sides, job)));
        }
        jobs.into_iter().for_each(|job| self.finish(job.given_up()));
    }

    /// Charges a turn, with its effects on others, to its session; before the login, and if it has ended the session, to
    /// the address of its peer.
    pub(super) fn charge(
        &mut self,
        client: usize,
        (peer, was_login): (PeerAddress, bool),
        begin: Instant,
        end: Instant,
    ) {
        let side = self.clients.get(client).and_then(|client| Some(client.place()?.0));
        match side.filter(|_| !was_login) {
            None => self.shared.debts.charge(peer, begin, end),
            Some(side) if self.shared.turn.was_costly() => self.sides[side].debt.charge(begin, end),
            Some(_) => {}
        }
    }
}

/// Returns true if the command or the session of a job has ended. Reservations that are in force already are kept all
/// the same, and a write that has begun is completed.
fn is_over(sides: &Slab<Side>, job: &Job) -> bool {
    let is_kept = matches!(job.call, Call::Keep(_) | Call::Store(StoreCall::Write { done_bytes: 1.., .. }));
    let side = sides.get(job.side).filter(|side| side.nexus == job.nexus);
    !is_kept && side.is_none_or(|side| side.is_doomed(job.token))
}
