//! Lost connections of a session that continues, and the submission of store calls.
//!
//! An initiator that has lost a connection retries unanswered writes on another one. A retry must not reach the medium
//! before a call of the lost connection: calls that change the medium wait until no such call is with a store.

use std::sync::Arc;

use block::StoreCall;
use net::clock;
use proto::target::ConnectionId;
use wire::iscsi::Lun as Address;

use crate::backend::Backend;
use crate::serve::Shared;
use crate::serve::session::lingering_calls::Held;
use crate::serve::session::state::SessionState;
use crate::serve::session::transfer::{Body, Transfer};
use crate::serve::stores::jobs::{Call, Job};

impl SessionState {
    /// Ends the tasks of a lost connection. Returns true if the session has no connection left.
    pub(crate) fn leave(&mut self, connection: ConnectionId, shared: &mut Shared) -> bool {
        let tasks = self.session.leave(connection);
        // The rest of the PDU that was being received will not come.
        if let Some(token) = self.member(connection).landing.take()
            && self.transfers.get(token as usize).is_some_and(|found| matches!(found.body, Body::Waste))
        {
            self.remove(token as usize);
        }
        self.members.retain(|member| member.connection != connection);
        self.let_go(&tasks, None, shared);
        let gone =
            |transfer: &Transfer| tasks.contains(&transfer.task) && matches!(transfer.body, Body::Doomed(_));
        let lingering = self.transfers.iter().filter(|(_, transfer)| gone(transfer));
        self.lingering.at_work.extend(lingering.map(|(token, _)| token as u64));
        // A connection that replaces the lost one may begin.
        shared.effects.stirred.extend(self.members.iter().map(|member| member.client));
        self.members.is_empty()
    }

    /// Returns true if a new connection may get its final Login Response: no connection with the same CID is open, and
    /// no store executes a call of a lost connection, which must not arrive after a write of the new one.
    pub(crate) fn may_begin(&self, connection: ConnectionId) -> bool {
        self.session.is_only_with_its_cid(connection) && self.lingering.at_work.is_empty()
    }

    /// Submits a call to a worker, except short reads from the page cache, which cost less than the handover. A call
    /// that changes the medium waits for the calls of lost connections; reservations that are in force are kept at
    /// once. Write-through is decided here again: the cache may have been switched off while data arrived.
    pub(crate) fn submit(&mut self, lun: Address, token: u64, mut call: Call, shared: &mut Shared) {
        let waits = matches!(&call, Call::Store(call) if !call.is_read());
        if !self.lingering.at_work.is_empty() && waits {
            return self.lingering.behind.push(Held { lun, token, call });
        }
        let now = clock::now();
        let found = shared.luns.lun_mut(lun).map(|lun| {
            let begins = match &mut call {
                Call::Store(call) => {
                    if lun.writes_through() {
                        call.set_fua();
                    }
                    lun.begins(call.is_read(), call.len_bytes(), now)
                }
                Call::Keep(_) => lun.begins(false, 0, now),
            };
            (begins, lun.number(), lun.backend())
        });
        let Some((begins, lun, Backend::Blocking(store))) = found else {
            unreachable!("only LUNs with a store that blocks come here");
        };
        let (side, nexus, is_timed) = (self.index, self.nexus, self.trail.is_some());
        let transfer = &mut self.transfers[token as usize];
        transfer.is_cached = matches!(&call, Call::Store(call) if call.leaves_cached());
        let task = transfer.task;
        self.note(task, |times, now| times.store_begin = now);
        if begins <= now
            && let Call::Store(StoreCall::Read { offset_bytes, buffer, fua: false, .. }) = &mut call
            && store.read_cached(*offset_bytes, buffer)
        {
            self.note_stored(task, is_timed.then(clock::now));
            let Call::Store(StoreCall::Read { buffer, .. }) = call else { unreachable!("it is one") };
            return self.send_read(token, buffer);
        }
        let job = Job { store: Arc::clone(store), lun, call, side, nexus, token, is_timed };
        match begins > now {
            false => shared.work.workers.submit(job.claim(), job.cost_bytes(), job),
            true => shared.work.waiting.push(begins, job),
        }
    }

    /// Returns true if the command of a transfer has ended, although its call is queued or with a worker.
    pub(crate) fn is_doomed(&self, token: u64) -> bool {
        self.transfers.get(token as usize).is_some_and(|transfer| matches!(transfer.body, Body::Doomed(_)))
    }

    /// Completes a call whose command has ended.
    pub(crate) fn finish_doomed(&mut self, token: usize, shared: &mut Shared) {
        self.drop_doomed(token, shared);
        if self.lingering.at_work.remove(&(token as u64)) && self.lingering.at_work.is_empty() {
            for Held { lun, token, call } in std::mem::take(&mut self.lingering.behind) {
                self.submit(lun, token, call, shared);
            }
        }
    }

    /// Calls that wait and are not to be carried out any more.
    pub(crate) fn give_up_behind(&mut self, is_over: impl Fn(&Transfer) -> bool, shared: &mut Shared) {
        let transfers = &self.transfers;
        let over = |held: &mut Held| is_over(&transfers[held.token as usize]);
        let over: Vec<Held> = self.lingering.behind.extract_if(.., over).collect();
        over.into_iter().for_each(|held| self.drop_doomed(held.token as usize, shared));
    }

    fn drop_doomed(&mut self, token: usize, shared: &mut Shared) {
        let transfer = self.remove(token);
        let waiters = match transfer.body {
            Body::Doomed(waiters) => waiters,
            Body::Keeping(id, _) => vec![id],
            _ => Vec::new(),
        };
        waiters.into_iter().for_each(|id| shared.management.release(id));
        self.session.forget(transfer.task);
    }
}
