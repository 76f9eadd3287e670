//! A session's command window, and its notifications to the initiator, from the paths of its connections. The policy of
//! each connection decides; this applies the decisions.

use std::time::Duration;

use control::Word;
use event::{Granted, Instant, WindowNotice};
use proto::notification::{self, Notification};
use proto::target::ConnectionId;

use crate::serve::session::state::SessionState;

impl SessionState {
    /// The mean request of a connection since the last call, in bytes; 0 if there was none.
    pub(crate) fn take_request_bytes(&mut self, connection: ConnectionId) -> u64 {
        let member = self.member(connection);
        let (commands, bytes) = (member.commands, member.command_bytes);
        (member.commands, member.command_bytes) = (0, 0);
        bytes / commands.max(1)
    }

    /// Notifies an initiator of our own kind, `rtt` away, of the congestion window of a connection, or of the
    /// initiator's share of the line, if either is new.
    pub(crate) fn tell(
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

    /// Returns true for an initiator of our own kind that reads its answers. For others a session is plain RFC 7143.
    fn may_tell(&self, connection: ConnectionId) -> bool {
        let is_of_our_kind = self.session.params().peer_software.is_some() && self.identity.iqn.is_some();
        is_of_our_kind && !self.session.is_backed_up(connection)
    }

    /// Sets the session's command window to the sum of the windows of its connections, at most `most`.
    pub(crate) fn set_window(&mut self, connection: ConnectionId, window: u32, most: u32) {
        self.member(connection).window = window;
        let all = self.members.iter().fold(0_u32, |all, member| all.saturating_add(member.window));
        self.session.set_command_window(all.min(self.memory.window_max).min(most));
    }
}
