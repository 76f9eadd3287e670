//! One connection as its session sees it.

use std::net::SocketAddr;

use control::Words;
use proto::target::ConnectionId;

use super::side::COMMANDS_AT_FIRST;

/// What a session knows of one of its connections.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) connection: ConnectionId,
    pub(super) client: usize,
    /// Our address on this connection.
    pub(super) local: SocketAddr,
    /// The transfer that the data segment of the PDU at hand is received into.
    pub(super) landing: Option<u64>,
    /// Commands that its path needs.
    pub(super) window: u32,
    pub(super) commands: u64,
    pub(super) command_bytes: u64,
    /// What its initiator was told.
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
