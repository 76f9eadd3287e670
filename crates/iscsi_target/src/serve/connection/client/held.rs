//! Memory that a connection takes without the payload of its commands: requests and responses in part, and commands.

use slab::Slab;

use super::{Client, Phase};
use crate::serve::Shared;
use crate::serve::limits::unread::Unread;
use crate::serve::session::state::SessionState;

impl Client {
    /// Memory for requests that the peer has not finished and responses that it has not read.
    pub(in crate::serve) fn unread(&self) -> Unread {
        self.unread
    }

    /// Counts the memory of the connection, and the commands of its session, after a turn.
    pub(super) fn count_held(&mut self, sides: &mut Slab<SessionState>, shared: &mut Shared) {
        let own_bytes = self.connection.held_bytes();
        let unread = match &self.link.phase {
            Phase::Login { login, .. } => Unread::Login(own_bytes + login.held_bytes()),
            Phase::Full { side, connection } => {
                let side = &mut sides[*side];
                let commands = side.session.held_commands();
                let before = std::mem::replace(&mut side.memory.commands, commands);
                shared.memory.commands.change(before, commands);
                Unread::Answers(own_bytes + side.session.made_bytes(*connection))
            }
        };
        if unread != self.unread {
            shared.memory.unread.change(self.link.peer.ip().into(), self.unread, unread);
            self.unread = unread;
        }
    }
}
