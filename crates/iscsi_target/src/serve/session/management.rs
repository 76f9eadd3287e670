//! Unanswered task management requests of all sessions, and the store calls that each waits for.

use std::collections::HashMap;

use proto::target::ConnectionId;
use slab::Slab;
use wire::iscsi::Lun as Address;

use crate::lun::Nexus;

/// Unanswered requests, and the calls that each waits for.
#[derive(Debug, Default)]
pub(crate) struct Management {
    open: Slab<Open>,
    others: Vec<Others>,
    finished: Vec<Request>,
    /// Calls of closed sessions by nexus and transfer; `busy` has the number of calls of each session.
    orphans: HashMap<(Nexus, u64), Orphan>,
    busy: HashMap<Nexus, usize>,
}

#[derive(Debug)]
struct Open {
    request: Request,
    /// Calls that have to return, plus one for the request itself until it has ended all of its tasks.
    waits_for: usize,
}

/// Requester, and response to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) side: usize,
    pub(crate) nexus: Nexus,
    pub(crate) reply: Reply,
}

/// Response to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    /// Response to the task management request with this tag; the target restarts if it is a cold reset.
    Managed { connection: ConnectionId, itt: u32, is_cold: bool },
    /// GOOD to the command of this transfer.
    Good { token: u64, id: usize },
}

/// Tasks of other sessions that are to end.
#[derive(Debug)]
pub(crate) struct Others {
    pub(crate) id: usize,
    /// Logical unit; all units if `None`.
    pub(crate) lun: Option<Address>,
    /// Nexus of the requester.
    pub(crate) nexus: Nexus,
    /// Sessions concerned; all others if `None`.
    pub(crate) only: Option<Vec<Nexus>>,
    /// Sessions that lose tasks get a unit attention (cleared by another initiator); a reset raises its own for all
    /// sessions.
    pub(crate) is_told: bool,
}

/// A call of a closed session, and the requests that wait for it.
#[derive(Debug)]
pub(crate) struct Orphan {
    pub(crate) lun: Address,
    pub(crate) waiters: Vec<usize>,
}

impl Others {
    pub(crate) fn concerns(&self, nexus: Nexus) -> bool {
        nexus != self.nexus && self.only.as_ref().is_none_or(|only| only.contains(&nexus))
    }
}

impl Management {
    pub(crate) fn begin(&mut self, side: usize, nexus: Nexus, reply: impl FnOnce(usize) -> Reply) -> usize {
        let entry = self.open.vacant_entry();
        let id = entry.key();
        entry.insert(Open { request: Request { side, nexus, reply: reply(id) }, waits_for: 1 });
        id
    }

    pub(crate) fn wait(&mut self, id: usize) {
        self.open[id].waits_for += 1;
    }

    /// Notes that a request waits for one call fewer.
    pub(crate) fn release(&mut self, id: usize) {
        let open = &mut self.open[id];
        open.waits_for -= 1;
        if open.waits_for == 0 {
            self.finished.push(self.open.remove(id).request);
        }
    }

    /// Returns true if a closed session has calls under way.
    pub(crate) fn is_busy(&self, nexus: Nexus) -> bool {
        self.busy.contains_key(&nexus)
    }

    pub(crate) fn add_orphan(&mut self, nexus: Nexus, token: u64, orphan: Orphan) {
        self.orphans.insert((nexus, token), orphan);
        *self.busy.entry(nexus).or_default() += 1;
    }

    /// Completes a call of a closed session. Returns true if the call was the session's last.
    pub(crate) fn finish_orphan(&mut self, nexus: Nexus, token: u64) -> bool {
        let Some(orphan) = self.orphans.remove(&(nexus, token)) else { return false };
        orphan.waiters.into_iter().for_each(|id| self.release(id));
        let Some(left) = self.busy.get_mut(&nexus) else { unreachable!("{nexus:?} had an orphan") };
        *left -= 1;
        let is_last = *left == 0;
        if is_last {
            self.busy.remove(&nexus);
        }
        is_last
    }

    /// Adds tasks to end in other sessions.
    pub(crate) fn end_others(&mut self, others: Others) {
        self.others.push(others);
    }

    /// Takes the tasks to end in other sessions, collected since the last call.
    pub(crate) fn take_others(&mut self) -> Vec<Others> {
        std::mem::take(&mut self.others)
    }

    /// Takes the requests to answer, collected since the last call.
    pub(crate) fn take_finished(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.finished)
    }

    pub(crate) fn wait_for_orphans(&mut self, id: usize, lun: Option<Address>) {
        // A LUN field has several forms for one number.
        let is_of = |orphan: &Orphan| lun.is_none_or(|lun| orphan.lun.number() == lun.number());
        let concerned = self.orphans.values_mut().filter(|orphan| is_of(orphan));
        for orphan in concerned {
            orphan.waiters.push(id);
            self.open[id].waits_for += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_busy_until_the_last_of_its_calls_is_back() {
        let mut management = Management::default();
        let orphan = || Orphan { lun: Address::from_number(0), waiters: Vec::new() };
        for (nexus, token) in [(1, 7), (1, 8), (2, 7)] {
            management.add_orphan(Nexus(nexus), token, orphan());
        }
        assert!(!management.finish_orphan(Nexus(1), 7) && management.is_busy(Nexus(1)));
        assert!(!management.finish_orphan(Nexus(1), 7), "it has come back already");
        assert!(management.finish_orphan(Nexus(1), 8) && !management.is_busy(Nexus(1)));
        assert!(management.is_busy(Nexus(2)) && management.finish_orphan(Nexus(2), 7));
        assert!(management.orphans.is_empty() && management.busy.is_empty());
    }
}
