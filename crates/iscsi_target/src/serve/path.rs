//! What a session makes of its connections' paths: how wide its command window is, and what it tells its initiator. What
//! is decided is decided by the policy.

use std::time::Duration;

use control::Word;
use event::{Granted, Instant, WindowNotice};
use proto::notification::{self, Notification};
use proto::target::ConnectionId;

use super::side::Side;

impl Side {
    /// The mean request of a connection since the last call, in bytes; 0 if there was none.
    pub(super) fn take_request_bytes(&mut self, connection: ConnectionId) -> u64 {
        let member = self.member(connection);
        let (commands, bytes) = (member.commands, member.command_bytes);
        (member.commands, member.command_bytes) = (0, 0);
        bytes / commands.max(1)
    }

    /// Tells an initiator of our own kind, so far away, what is new of the window that a connection sends with, or what the
    /// initiator is left of the line.
    pub(super) fn tell(
        &mut self,
        connection: ConnectionId,
        now: Instant,
        rtt: Duration,
        window: Option<WindowNotice>,
        part: Granted,
    ) {
        if !self.may_tell(connection) {
            return;
        }
        let told = match self.member(connection).words.say(now, rtt, window, part) {
            None => return,
            Some(Word::Window(notice)) => Notification::Window(notice),
            Some(Word::Part(part)) => Notification::Part(part),
        };
        let (code, data) = notification::emit(&told);
        self.session.notify(connection, code, &data);
    }

    /// To others than our own kind a session is plain RFC 7143. One that does not listen to its answers is not told more.
    fn may_tell(&self, connection: ConnectionId) -> bool {
        let is_of_our_kind = self.session.params().peer_software.is_some() && self.iqn.is_some();
        is_of_our_kind && !self.session.is_backed_up(connection)
    }

    /// The session's window is what all its paths need together, at most `most`.
    pub(super) fn set_window(&mut self, connection: ConnectionId, window: u32, most: u32) {
        self.member(connection).window = window;
        let all = self.members.iter().fold(0_u32, |all, member| all.saturating_add(member.window));
        self.session.set_command_window(all.min(self.window_max).min(most));
    }
}
