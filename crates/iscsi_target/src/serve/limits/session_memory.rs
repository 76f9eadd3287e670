//! A session's part of the memory: buffers for data on its way to stores and from them, and data ahead of its turn. The
//! totals of both are bounded, whatever initiators announce.

use std::time::Duration;

use engine::BlackHole;
use event::Instant;
use proto::target::ConnectionId;
use wire::iscsi::Lun as Address;

use crate::serve::connection::client::Client;
use crate::serve::connection::end_reason::End;
use crate::serve::limits::budget::{BUDGET_BYTES, DATA_PATIENCE, DATA_ROUND_TRIPS, Wish, share_bytes};
use crate::serve::limits::unread::Unread;
use crate::serve::session::state::SessionState;
use crate::serve::session::transfer::Body;
use crate::serve::{Shared, Target};

/// See [`Target::bound_unread`].
const FEW_BYTES: usize = 4 << 20;

impl SessionState {
    /// Returns true if a connection may be read. A session that holds its share of buffers, or any while none are left,
    /// is not read until some are free. While a buffer is being filled, the session is read as long as there is memory
    /// for the data: see `budget`. A connection whose peer does not take responses is not read. A session without
    /// buffers is never held up by the buffers of others.
    ///
    /// A session that began a moment ago is not read until the register has its nexus: after a crash, the target closes
    /// a replaced LUN only to nexuses in the register.
    pub(crate) fn may_read(&self, connection: ConnectionId, shared: &Shared) -> bool {
        if self.session.is_backed_up(connection) || self.register_version > shared.admission.register_version
        {
            return false;
        }
        if self.memory.holds.filling > 0 {
            return shared.memory.budget.may_fill(&self.memory.holds);
        }
        let held_bytes = self.memory.holds.held_bytes;
        held_bytes == 0
            || held_bytes <= share_bytes(shared.admission.open_sessions)
                && shared.memory.budget.held_bytes() < BUDGET_BYTES
    }

    /// Returns true if one more buffer can be had at once.
    pub(crate) fn has_room(&self, lun: Address, len_bytes: u32, shared: &Shared) -> bool {
        shared.memory.budget.has_room(&self.memory.holds, wish(lun, len_bytes, shared))
    }

    /// Returns true if data may be sent for, which have memory as they arrive.
    pub(crate) fn may_announce(&self, lun: Address, len_bytes: u32, shared: &Shared) -> bool {
        shared.memory.budget.may_announce(&self.memory.holds, wish(lun, len_bytes, shared))
    }

    /// Data of the initiator have arrived for a transfer.
    pub(crate) fn laid(&mut self, token: u64, len_bytes: usize, shared: &mut Shared) {
        let Some(transfer) = self.transfers.get_mut(token as usize) else { return };
        if let Body::Filling(buffer) | Body::Parameters(buffer, _) = &mut transfer.body {
            shared.memory.budget.arrive(
                &mut self.memory.holds,
                &mut transfer.filled,
                transfer.len_bytes,
                len_bytes,
            );
            buffer.count(transfer.filled.arrived_bytes as usize);
        }
    }

    /// A transfer waits for data no more.
    pub(crate) fn settle(&mut self, token: u64, shared: &mut Shared) {
        let transfer = &self.transfers[token as usize];
        if transfer.body.lacks_data() {
            shared.memory.budget.settle(&mut self.memory.holds, transfer.filled, transfer.len_bytes);
        }
    }

    /// The longest time for which data of a write have failed to come. `is_read` is false while a connection of the
    /// session is not read.
    fn data_late(&mut self, now: Instant, is_read: bool) -> Duration {
        self.memory.holds.look(now, is_read);
        let holds = &self.memory.holds;
        if holds.filling == 0 {
            return Duration::ZERO;
        }
        let lacking = self.transfers.iter_mut().filter(|(_, transfer)| transfer.body.lacks_data());
        lacking.map(|(_, transfer)| holds.late(&mut transfer.filled, now, is_read)).max().unwrap_or_default()
    }

    /// Counts data that arrived ahead of its turn in CmdSN order; the total of all sessions is bounded.
    pub(crate) fn count_early(&mut self, shared: &mut Shared) -> Result<(), End> {
        let before = std::mem::replace(&mut self.memory.early_bytes, self.session.early_bytes());
        shared.memory.early.change(before, self.memory.early_bytes)
    }
}

fn wish(lun: Address, len_bytes: u32, shared: &Shared) -> Wish {
    Wish { len_bytes, lun: lun.number(), share_bytes: share_bytes(shared.admission.open_sessions) }
}

impl Target {
    /// While memory is short, reserves some for sessions whose writes lack data, the session that lacks least first.
    pub(crate) fn reserve(&mut self) {
        let (clients, sides, budget) = (&self.clients, &mut self.sides, &mut self.shared.memory.budget);
        let side_of = |index: &usize| clients.get(*index)?.place().map(|(side, _)| side);
        let waits = |side: &usize| {
            sides[*side].memory.holds.filling > 0 && !budget.may_fill(&sides[*side].memory.holds)
        };
        let mut waiting: Vec<usize> = self.schedule.paused.iter().filter_map(side_of).filter(waits).collect();
        waiting.sort_by_key(|side| sides[*side].memory.holds.lacking_bytes());
        for side in waiting {
            budget.reserve(&mut sides[side].memory.holds);
        }
    }

    /// While commands of all sessions exceed their bound, ends the sessions that have most of them.
    pub(crate) fn bound_commands(&mut self, now: Instant) {
        let Some(mut left) = self.shared.memory.commands.excess() else { return };
        let mut holders: Vec<(usize, usize)> =
            self.sides.iter().map(|(index, side)| (side.memory.commands, index)).collect();
        holders.sort_unstable_by(|one, other| other.cmp(one));
        for (commands, index) in holders {
            if left == 0 || commands == 0 {
                return;
            }
            left = left.saturating_sub(commands);
            let members: Vec<usize> = self.sides[index].members.iter().map(|member| member.client).collect();
            members.into_iter().for_each(|client| self.close(client, &End::Commands, now));
        }
    }

    /// While unread responses, or logins, exceed their bound of memory, closes the connections that hold most, and a
    /// few more, so that the bound is not reached again at once.
    pub(crate) fn bound_unread(&mut self, now: Instant) {
        let Some(excess) = self.shared.memory.unread.excess() else { return };
        let is_concerned =
            |client: &Client| excess.peer.is_none_or(|peer| peer == client.link.peer.ip().into());
        let clients = self.clients.iter().filter(|(_, client)| is_concerned(client));
        let mut holders: Vec<(usize, usize)> =
            clients.map(|(index, client)| (client.unread().bytes_like(excess.bytes), index)).collect();
        holders.sort_unstable_by(|one, other| other.cmp(one));
        let (mut left_bytes, end) = match excess.bytes {
            Unread::Login(bytes) => (bytes + FEW_BYTES, End::LongLogin),
            Unread::Answers(bytes) => (bytes + FEW_BYTES, End::Deaf),
        };
        for (bytes, index) in holders {
            if left_bytes == 0 || bytes == 0 {
                return;
            }
            left_bytes = left_bytes.saturating_sub(bytes);
            self.close(index, &end, now);
        }
    }

    /// Wakes clients that wait for buffers and may read now.
    pub(crate) fn resume_paused(&mut self) {
        self.reserve();
        let (clients, dirty) = (&mut self.clients, &mut self.schedule.dirty);
        let (sides, shared) = (&self.sides, &self.shared);
        self.schedule.paused.retain(|index| {
            let Some(client) = clients.get_mut(*index) else { return false };
            let may_read = client.may_read(sides, shared);
            if may_read {
                client.become_dirty(dirty);
            }
            !may_read
        });
    }

    /// Ends the sessions whose writes lack data for too long.
    pub(crate) fn end_late(&mut self, now: Instant) {
        let clients = &self.clients;
        let mut late = Vec::new();
        for (_, side) in &mut self.sides {
            let members = || side.members.iter().map(|member| member.client);
            let is_read = members().filter_map(|index| clients.get(index)).all(|client| !client.is_paused());
            let waited = side.data_late(now, is_read);
            if waited < DATA_PATIENCE {
                continue;
            }
            let members = side.members.iter().map(|member| member.client);
            let infos =
                members.clone().filter_map(|index| clients.get(index)).filter_map(|client| client.tcp_info());
            let infos: Vec<_> = infos.collect();
            let rtt = infos.iter().map(|info| info.rtt).max().unwrap_or_default();
            if waited >= rtt * DATA_ROUND_TRIPS {
                // The data arrive in large packets, which the path may lose.
                let hole = infos.iter().find_map(BlackHole::of_received);
                late.extend(members.map(|member| (member, hole)));
            }
        }
        for (client, hole) in late {
            self.close(client, &End::NoData(hole), now);
        }
    }
}
