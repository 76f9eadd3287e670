//! Task management across sessions (SAM-5 section 7, RFC 7143 section 11.5): the tasks that a request ends, and the
//! time of the response, which follows when no store executes a call of an ended task.
//!
//! Tasks of the requesting session end at once, in the order of its PDUs. Tasks of other sessions end after its turn,
//! before anything else is served. Queued calls are taken back from the workers. A call that a worker has begun cannot
//! be cancelled, so the request waits for it, even if its session is gone by then.

use std::collections::HashSet;

use proto::name;
use proto::target::{ConnectionId, Function, TaskId};
use wire::iscsi::{Lun as Address, task_response};
use wire::scsi::Status;

use crate::lun::{Nexus, Save};
use crate::serve::Shared;
use crate::serve::connection::end_reason::{End, Ending};
use crate::serve::session::management::{Orphan, Others, Reply};
use crate::serve::session::state::SessionState;
use crate::serve::session::transfer::{Body, Transfer};
use crate::serve::stores::jobs::Call;

impl SessionState {
    pub(crate) fn manage(
        &mut self,
        (connection, itt): (ConnectionId, u32),
        function: Function,
        cmd_sn: u32,
        shared: &mut Shared,
    ) {
        let lun = match function {
            Function::AbortTaskSet(lun) | Function::ClearTaskSet(lun) | Function::LunReset(lun) => Some(lun),
            Function::AbortTask(_) | Function::WarmReset | Function::ColdReset => None,
        };
        if self.identity.iqn.is_none() {
            return self.session.answer_manage(connection, itt, task_response::NOT_SUPPORTED);
        }
        let is_missing = |lun| shared.luns.lun(lun).is_none_or(|lun| lun.is_closed_to(self.nexus));
        if lun.is_some_and(is_missing) {
            return self.session.answer_manage(connection, itt, task_response::NO_SUCH_LUN);
        }
        let is_cold = function == Function::ColdReset;
        if is_cold && !self.may_reset(shared) {
            return self.session.answer_manage(connection, itt, task_response::NOT_AUTHORIZED);
        }
        let reply = |_| Reply::Managed { connection, itt, is_cold };
        let id = shared.management.begin(self.index, self.nexus, reply);
        let tasks = match function {
            Function::AbortTask(task) if self.session.abort(task) => vec![task],
            Function::AbortTask(_) => Vec::new(),
            _ => self.session.abort_all(lun, Some(cmd_sn)),
        };
        self.let_go(&tasks, Some(id), shared);
        match function {
            Function::AbortTask(_) | Function::AbortTaskSet(_) => return shared.management.release(id),
            Function::ClearTaskSet(_) => {}
            Function::LunReset(_) | Function::WarmReset | Function::ColdReset => shared.luns.reset(lun),
        }
        shared.management.wait_for_orphans(id, lun);
        let is_told = matches!(function, Function::ClearTaskSet(_));
        shared.management.end_others(Others { id, lun, nexus: self.nexus, only: None, is_told });
    }

    /// Returns true if the session may close the connections of all sessions (RFC 7143 section 11.5.1): as the only
    /// session, or by the configured initiator name.
    fn may_reset(&self, shared: &Shared) -> bool {
        let is_it = |initiator: &String| name::is_same(initiator, &self.identity.name);
        shared.luns.is_alone(self.nexus) || shared.rules.cold_reset.iter().any(is_it)
    }

    /// Answers a command with GOOD as soon as the tasks of these sessions on its unit have ended, and the
    /// reservations are on stable storage if they are to be kept.
    pub(crate) fn good_without(
        &mut self,
        transfer: Transfer,
        only: Vec<Nexus>,
        save: Option<Save>,
        shared: &mut Shared,
    ) {
        let lun = transfer.lun;
        let token = self.insert(transfer, shared);
        let id = shared.management.begin(self.index, self.nexus, |id| Reply::Good { token, id });
        match save {
            None => {
                self.transfers[token as usize].body = Body::Waiting(id);
                self.preempt(id, lun, only, shared);
            }
            Some(save) => {
                self.transfers[token as usize].body = Body::Keeping(id, only);
                self.submit(lun, token, Call::Keep(save), shared);
            }
        }
    }

    /// Ends the tasks of these sessions on a unit; request `id` waits until they have ended.
    pub(crate) fn preempt(&mut self, id: usize, lun: Address, only: Vec<Nexus>, shared: &mut Shared) {
        shared.management.wait_for_orphans(id, Some(lun));
        shared.management.end_others(Others {
            id,
            lun: Some(lun),
            nexus: self.nexus,
            only: Some(only),
            is_told: true,
        });
    }

    /// Ends tasks for a request of another session. Returns true if this session has lost any.
    pub(crate) fn end_tasks(&mut self, others: &Others, shared: &mut Shared) -> bool {
        let before = self.session.open_commands();
        if before == 0 {
            return false;
        }
        let tasks = self.session.abort_all(others.lun, None);
        let has_lost = !tasks.is_empty() || self.session.open_commands() < before;
        self.let_go(&tasks, Some(others.id), shared);
        has_lost
    }

    /// Answers a request whose tasks have ended.
    pub(crate) fn finish_managing(&mut self, reply: Reply, shared: &mut Shared) {
        match reply {
            Reply::Managed { connection, itt, is_cold } => {
                self.session.answer_manage(connection, itt, task_response::COMPLETE);
                for member in self.members.iter().filter(|_| is_cold) {
                    let is_abrupt = member.connection != connection;
                    shared.effects.endings.push(Ending { client: member.client, end: End::Reset, is_abrupt });
                }
            }
            Reply::Good { token, id } => {
                let found = self.transfers.get(token as usize);
                if found.is_some_and(|found| matches!(found.body, Body::Waiting(waits) if waits == id)) {
                    let transfer = self.remove(token as usize);
                    self.answer(transfer.task, Status::GOOD, None, transfer.actual_bytes);
                }
            }
        }
    }

    /// Hands the calls under way over to `Management` when the session closes.
    pub(crate) fn leave_orphans(&mut self, shared: &mut Shared) {
        self.give_up_behind(|_| true, shared);
        for (token, transfer) in std::mem::take(&mut self.transfers) {
            transfer.halt();
            let waiters = match transfer.body {
                Body::Away => Vec::new(),
                Body::Keeping(id, _) => vec![id],
                Body::Doomed(waiters) => waiters,
                _ => continue,
            };
            let orphan = Orphan { lun: transfer.lun, waiters };
            shared.management.add_orphan(self.nexus, token as u64, orphan);
        }
        shared.work.ended.push(self.nexus);
    }

    /// Releases the payload of ended tasks. Request `id`, if there is one, waits for the calls that workers execute for
    /// these tasks.
    pub(crate) fn let_go(&mut self, tasks: &[TaskId], id: Option<usize>, shared: &mut Shared) {
        self.note_ended(tasks);
        let mut resting: HashSet<TaskId> = tasks.iter().copied().collect();
        let concerns =
            |transfer: &Transfer| resting.contains(&transfer.task) && !matches!(transfer.body, Body::Waste);
        let ended = self.transfers.iter().filter(|(_, transfer)| concerns(transfer));
        let ended: Vec<_> = ended.map(|(token, _)| token).collect();
        for &token in &ended {
            let transfer = &mut self.transfers[token];
            transfer.halt();
            match &mut transfer.body {
                Body::Away => transfer.body = Body::Doomed(id.into_iter().collect()),
                Body::Keeping(keeping, _) => {
                    let waiters = [*keeping].into_iter().chain(id).collect();
                    transfer.body = Body::Doomed(waiters);
                }
                Body::Doomed(waiters) => waiters.extend(id),
                _ => {
                    self.discard(token as u64, shared);
                    continue;
                }
            }
            resting.remove(&transfer.task);
            if let Some(id) = id {
                shared.management.wait(id);
            }
        }
        if !ended.is_empty() && shared.work.ended.last() != Some(&self.nexus) {
            shared.work.ended.push(self.nexus);
        }
        self.session.forget_all(&resting);
        // Calls that no worker has begun are dropped.
        let gone =
            |transfer: &Transfer| tasks.contains(&transfer.task) && matches!(transfer.body, Body::Doomed(_));
        self.give_up_behind(gone, shared);
    }

    /// Drops a transfer whose payload is not needed any more.
    pub(crate) fn discard(&mut self, token: u64, shared: &mut Shared) {
        self.settle(token, shared);
        if self.members.iter().any(|member| member.landing == Some(token)) {
            self.transfers[token as usize].body = Body::Waste;
        } else {
            self.remove(token as usize);
        }
    }
}
