//! Effects of one session on others: session reinstatement, task management across sessions, PDUs that another
//! connection has to send, and the time that all of it takes.

use event::{Instant, PeerAddress};

use crate::lun::Nexus;
use crate::serve::Target;
use crate::serve::connection::client::Client;
use crate::serve::connection::end_reason::{End, Ending};
use crate::serve::connection::open_sessions::Replaced;
use crate::serve::session::management::Reply;

impl Target {
    /// Wakes logins that wait for a closed session, whose last call has returned.
    pub(crate) fn came_to_rest(&mut self, nexus: Nexus) {
        for index in self.shared.admission.sessions.came_to_rest(nexus) {
            if let Some(client) = self.clients.get_mut(index) {
                client.become_dirty(&mut self.schedule.dirty);
            }
        }
    }

    /// Wakes logins that wait for an old session to end.
    fn wake_logins(&mut self) {
        for (_, client) in self.clients.iter_mut().filter(|(_, client)| client.next_tsih().is_some()) {
            client.become_dirty(&mut self.schedule.dirty);
        }
    }

    /// Wakes all connections of a session.
    pub(crate) fn wake_members(&mut self, side: usize) {
        for member in &self.sides[side].members {
            self.clients[member.client].become_dirty(&mut self.schedule.dirty);
        }
    }

    /// Ends the sessions whose initiator has just logged in again, before anything else of it is served.
    pub(crate) fn end_replaced(&mut self, now: Instant) {
        let replaced = self.shared.admission.sessions.take_replaced();
        if replaced.is_empty() {
            return;
        }
        for Replaced { old, new } in replaced {
            let mut waits_for = self.shared.admission.sessions.held_by(old);
            let login = self.clients.iter().filter(|(_, client)| client.next_tsih() == Some(old));
            let mut clients: Vec<_> = login.map(|(index, _)| index).collect();
            for (_, side) in self.sides.iter().filter(|(_, side)| side.identity.tsih == old) {
                waits_for.push(side.nexus);
                clients.extend(side.members.iter().map(|member| member.client));
            }
            for index in clients {
                self.close(index, &End::Replaced, now);
            }
            waits_for.into_iter().for_each(|nexus| self.shared.admission.sessions.hold(new, nexus));
        }
        self.wake_logins();
    }

    /// Ends tasks in other sessions than the requesting one, and answers completed requests.
    pub(crate) fn manage(&mut self, now: Instant) {
        for others in self.shared.management.take_others() {
            for (_, side) in &mut self.sides {
                if side.identity.iqn.is_some()
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
    pub(crate) fn settle(&mut self, now: Instant) {
        while let Some(Ending { client: index, end, is_abrupt }) = self.shared.effects.endings.pop() {
            if is_abrupt {
                self.close(index, &end, now);
            } else if let Some(client) = self.clients.get_mut(index) {
                client.end_with(end);
                client.become_dirty(&mut self.schedule.dirty);
            }
        }
        for index in std::mem::take(&mut self.shared.effects.stirred) {
            if let Some(client) = self.clients.get_mut(index) {
                client.become_dirty(&mut self.schedule.dirty);
            }
        }
    }

    /// Charges a turn, with its effects on others, to its session; before the login, and if it has ended the session, to
    /// the address of its peer.
    pub(crate) fn charge(
        &mut self,
        client: usize,
        (peer, was_login): (PeerAddress, bool),
        begin: Instant,
        end: Instant,
    ) {
        let side = self.clients.get(client).and_then(|client| Some(client.place()?.0));
        match side.filter(|_| !was_login) {
            None => self.schedule.debts.charge(peer, begin, end),
            Some(side) if self.shared.turn.was_costly() => self.sides[side].debt.charge(begin, end),
            Some(_) => {}
        }
    }
}
