//! The end of a connection: its part of the shared state, and its session with the last one.

use slab::Slab;

use super::Client;
use crate::serve::Shared;
use crate::serve::session::state::SessionState;

impl Client {
    /// Sends an Async Message that announces the drop of the session.
    pub(in crate::serve) fn announce_drop(&mut self, sides: &mut Slab<SessionState>) {
        if let Some((side, connection)) = self.place()
            && sides[side].identity.iqn.is_some()
        {
            sides[side].session.announce_drop(connection);
        }
    }

    /// Advice on the limits of this host that were too small for the path of the connection.
    pub(in crate::serve) fn advice(&self) -> Option<String> {
        self.connection.advice()
    }

    /// Takes the connection's traces out of the shared state, and its session with the last one; `is_logout` is a
    /// logout of the initiator's own accord.
    pub(in crate::serve) fn leave(
        &mut self,
        sides: &mut Slab<SessionState>,
        shared: &mut Shared,
        is_logout: bool,
    ) {
        shared.crowd.leave(self.link.index);
        shared.memory.unread.leave(self.link.peer.ip().into(), self.unread);
        if let Some(ticket) = self.ticket {
            shared.admission.slots.leave(self.link.peer.ip(), ticket);
        }
        shared.report.stats.received_bytes += self.connection.received_payload_bytes();
        shared.report.stats.sent_bytes += self.connection.sent_payload_bytes();
        match self.place().or(self.link.joining) {
            Some((side, connection)) => {
                let place = &mut sides[side];
                if place.leave(connection, shared) {
                    if let Some(trail) = &mut place.trail {
                        trail.close();
                    }
                    place.leave_orphans(shared);
                    let is_busy = |nexus| shared.management.is_busy(nexus);
                    shared.admission.sessions.close(place.identity.tsih, Some(place.nexus), is_busy);
                    shared.luns.end(place.nexus, is_logout);
                    shared.admission.open_sessions -= 1;
                    shared.memory.early.leave(place.memory.early_bytes);
                    shared.memory.commands.change(place.memory.commands, 0);
                    shared.memory.budget.leave(&place.memory.holds);
                    sides.remove(side);
                } else {
                    if let Some(trail) = &mut place.trail {
                        trail.leave(self.link.cid);
                    }
                    // Less than before, so there is nothing to refuse.
                    let _ = place.count_early(shared);
                    place.stir_others(self.link.index, shared);
                }
            }
            // Admitted, and closed before the final Login Response.
            None => {
                if let Some(tsih) = self.next_tsih() {
                    let is_busy = |nexus| shared.management.is_busy(nexus);
                    shared.admission.sessions.close(tsih, None, is_busy);
                }
            }
        }
    }
}
