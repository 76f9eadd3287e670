//! Writes of the register of nexuses and of adopted registrations.

use std::sync::Arc;

use event::Instant;
use net::clock;
use wire::scsi::Lun as Address;

use crate::backend::Backend;
use crate::lun::{Bereft, Lun};
use crate::serve::log_some;
use crate::serve::service::target::Target;
use crate::serve::stores::jobs::Job;

impl Target {
    /// Starts the writes of adopted registrations, and of the register if it has changed or could not be written.
    /// Returns the time to look again.
    pub(crate) fn keep_sessions(&mut self, now: Instant) -> Instant {
        self.tell_bereft(now);
        for (number, save) in self.shared.luns.take_adoptions() {
            let backend = self.shared.luns.lun(Address::from_number(number)).map(Lun::backend);
            // No other LUN keeps anything.
            let Some(Backend::Blocking(store)) = backend else { continue };
            let job = Job::keep(Arc::clone(store), number, save);
            self.shared.work.workers.submit(job.claim(), job.cost_bytes(), job);
        }
        let Some(registrar) = &mut self.background.registrar else { return Instant::FAR_FUTURE };
        let luns = &mut self.shared.luns;
        if (luns.has_news() || registrar.is_due(now)) && registrar.pending() == 0 {
            registrar.save(luns.take_nexuses(), now);
        }
        if registrar.is_late(now) {
            self.shared.admission.register_version = u64::MAX;
        }
        registrar.next_look(now)
    }

    /// Logs the sessions that have no part in the registrations of their initiator's former user.
    fn tell_bereft(&mut self, now: Instant) {
        for Bereft { nexus, lun, user } in self.shared.luns.take_bereft() {
            let side = self.sides.iter().map(|(_, side)| side).find(|side| side.nexus == nexus);
            let member = side.and_then(|side| side.members.first());
            let Some(client) = member.and_then(|member| self.clients.get(member.client)) else { continue };
            let name = client.name();
            let text = format_args!(
                "{name}: LUN {lun} has a registration of CHAP user {user} for this initiator name and ISID, in which \
                 another user has no part; to use it log in as {user}, to end it send PREEMPT or CLEAR from a registered \
                 session"
            );
            log_some(&mut self.lines, ("registration of another user", client.link.peer.ip()), now, text);
        }
    }

    /// Completes a write of the register. The sessions are served whether it has succeeded or not.
    pub(crate) fn finish_register(&mut self, now: Instant) {
        if let Some(version) = self.background.registrar.as_mut().and_then(|registrar| registrar.finish(now))
        {
            self.shared.admission.register_version = version;
        }
    }

    /// Starts a last write of the register at the end, even if the retry of a failed one is not due yet;
    /// [`Target::wait_for_calls`] waits for it.
    pub(crate) fn keep_sessions_at_last(&mut self) {
        let luns = &mut self.shared.luns;
        if let Some(registrar) = &mut self.background.registrar
            && (luns.has_news() || registrar.is_behind())
        {
            registrar.save(luns.take_nexuses(), clock::now());
        }
    }
}
