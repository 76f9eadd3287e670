//! What sessions may hold of memory: buffers for data on its way to stores and from them, and data that came ahead of its
//! turn. Both are bounded in all, whatever is announced.

use engine::Buffers;
use proto::target::ConnectionId;

use super::Shared;
use super::end::End;
use super::side::Side;
use crate::scsi::TRANSFER_MAX_BYTES;

/// Buffers that all sessions may hold together before those that hold some are no longer read: their shares are of this.
const BUDGET_BYTES: usize = 160 << 20;
/// What may be held with one more that is beyond its session's share: no less than the longest request above that, so
/// that what was read in time is not refused.
const BEYOND_BYTES: usize = BUDGET_BYTES + TRANSFER_MAX_BYTES as usize;
/// The same for one within its session's share, and for one of a session that holds little: in all.
const WITHIN_BYTES: usize = 224 << 20;
const MOST_BYTES: usize = 256 << 20;
const LITTLE_BYTES: usize = 64 << 10;
/// The least share of one session.
const SHARE_MIN_BYTES: usize = 4 << 20;
/// More than so many shares no session comes to hold by several requests.
const SHARES_MAX: usize = 4;
/// Data of commands that came ahead of their turn, of all sessions.
const EARLY_MAX_BYTES: usize = 128 << 20;

impl Side {
    /// A session that holds its share of buffers, or any while there are none left, is not read until some
    /// are free; unless its initiator is filling one, which would never come free otherwise. A connection that
    /// does not listen to its answers is not read either. A session without buffers is never held up by
    /// those of others.
    ///
    /// Nor is one read that began a moment ago, until the register has its nexus: after a crash, the target closes a LUN
    /// that was replaced only to nexuses in the register.
    pub(super) fn may_read(&self, connection: ConnectionId, shared: &Shared) -> bool {
        if self.session.is_backed_up(connection) || self.register_version > shared.register_version {
            return false;
        }
        self.held_bytes == 0
            || self.filling > 0
            || self.held_bytes <= share_bytes(shared) && shared.buffers.held_bytes() < BUDGET_BYTES
    }

    /// Whether one more buffer can be had at all. The less a session has and wants, the nearer it may come to the end of
    /// what there is: those that want much do not shut out the others.
    pub(super) fn has_room(&self, len_bytes: u32, shared: &Shared) -> bool {
        let (held_bytes, len_bytes) = (self.held_bytes, len_bytes as usize);
        let share_bytes = share_bytes(shared);
        let most_bytes = match held_bytes + len_bytes {
            ..=LITTLE_BYTES => MOST_BYTES,
            all if all <= share_bytes => WITHIN_BYTES,
            // One that was read in time may be as long as requests are.
            all if held_bytes <= share_bytes || all <= SHARES_MAX * share_bytes => BEYOND_BYTES,
            _ => return false,
        };
        // What sessions that are gone have left with the stores counts too.
        shared.buffers.held_bytes() + Buffers::counts_for(len_bytes) <= most_bytes
    }

    /// Counts data that waits for commands before its own; what there is of it in all sessions is bounded.
    pub(super) fn count_early(&mut self, shared: &mut Shared) -> Result<(), End> {
        let (before, now) = (self.early_bytes, self.session.early_bytes());
        if now != before {
            self.early_bytes = now;
            shared.early_bytes = shared.early_bytes - before + now;
        }
        if now > before && shared.early_bytes > EARLY_MAX_BYTES { Err(End::TooEarly) } else { Ok(()) }
    }
}

/// What one session may hold.
pub(super) fn share_bytes(shared: &Shared) -> usize {
    (BUDGET_BYTES / shared.open_sessions.max(1)).max(SHARE_MIN_BYTES)
}
