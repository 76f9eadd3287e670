//! What a session makes of its connections' paths: how wide its command window is, what it claims of a line that it
//! shares, and what it tells its initiator. What is decided is decided by the policy.

use std::time::Duration;

use control::Claim;
use event::{Granted, Instant, WindowNotice};
use proto::notification::{self, Notification};
use proto::target::ConnectionId;

use super::side::Side;

/// A session of weight 1 has so many parts, which its connections share.
const WEIGHT_UNIT: u32 = 840;

impl Side {
    /// The mean request of a connection since the last call, in bytes; 0 if there was none.
    pub(super) fn take_request_bytes(&mut self, connection: ConnectionId) -> u64 {
        let member = self.member(connection);
        let (commands, bytes) = (member.commands, member.command_bytes);
        (member.commands, member.command_bytes) = (0, 0);
        bytes / commands.max(1)
    }

    /// Tells an initiator of our own kind of the window that a connection sends with.
    pub(super) fn tell_window(&mut self, connection: ConnectionId, notice: Option<WindowNotice>) {
        if let Some(notice) = notice.filter(|_| self.may_tell(connection)) {
            self.tell(connection, &Notification::Window(notice));
        }
    }

    /// Tells an initiator of our own kind, so far away, what it is left of the line that its connection sends over.
    pub(super) fn tell_part(
        &mut self,
        connection: ConnectionId,
        now: Instant,
        rtt: Duration,
        part: Option<u64>,
    ) {
        if !self.may_tell(connection) {
            return;
        }
        match self.member(connection).part.say(now, rtt, part) {
            Granted::Unsaid => {}
            Granted::All => self.tell(connection, &Notification::Part(None)),
            Granted::Part(rate) => self.tell(connection, &Notification::Part(Some(rate))),
        }
    }

    /// To others than our own kind a session is plain RFC 7143. One that does not listen to its answers is not told more.
    fn may_tell(&self, connection: ConnectionId) -> bool {
        let is_of_our_kind = self.session.params().peer_software.is_some() && self.iqn.is_some();
        is_of_our_kind && !self.session.is_backed_up(connection)
    }

    fn tell(&mut self, connection: ConnectionId, told: &Notification) {
        let (code, data) = notification::emit(told);
        self.session.notify(connection, code, &data);
    }

    /// What one of its connections claims of a line: they share the session's part.
    pub(super) fn claim(&self, claim: Claim) -> Claim {
        let connections = self.members.len().max(1) as u32;
        Claim { weight: (self.weight * WEIGHT_UNIT / connections).max(1), ..claim }
    }

    /// The session's window is what all its paths need together, at most `most`.
    pub(super) fn set_window(&mut self, connection: ConnectionId, window: u32, most: u32) {
        self.member(connection).window = window;
        let all = self.members.iter().fold(0_u32, |all, member| all.saturating_add(member.window));
        self.session.set_command_window(all.min(self.window_max).min(most));
    }
}
