//! One connection of a session.

use std::net::SocketAddr;

use control::Words;
use proto::target::ConnectionId;

use super::side::COMMANDS_AT_FIRST;

/// State of one connection in its session.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) connection: ConnectionId,
    pub(super) client: usize,
    /// Local address of the connection.
    pub(super) local: SocketAddr,
    /// Transfer that receives the data segment of the current PDU.
    pub(super) landing: Option<u64>,
    /// Commands that the path needs.
    pub(super) window: u32,
    pub(super) commands: u64,
    pub(super) command_bytes: u64,
    /// Last announcements to the initiator.
    pub(super) words: Words,
}

impl Member {
    pub(super) fn new(connection: ConnectionId, client: usize, local: SocketAddr) -> Member {
        let window = COMMANDS_AT_FIRST;
        Member {
            connection,
            client,
            local,
            landing: None,
            window,
            commands: 0,
            command_bytes: 0,
            words: Words::default(),
        }
    }
}
