//! One connection of a session.

use std::net::SocketAddr;

use control::Words;
use proto::target::ConnectionId;

/// The command window before anything is known of the path.
pub(crate) const COMMANDS_AT_FIRST: u32 = 4096;

/// State of one connection in its session.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) connection: ConnectionId,
    pub(crate) client: usize,
    /// Local address of the connection.
    pub(crate) local: SocketAddr,
    /// Transfer that receives the data segment of the current PDU.
    pub(crate) landing: Option<u64>,
    /// Commands that the path needs.
    pub(crate) window: u32,
    pub(crate) commands: u64,
    pub(crate) command_bytes: u64,
    /// Last announcements to the initiator.
    pub(crate) words: Words,
}

impl Member {
    pub(crate) fn new(connection: ConnectionId, client: usize, local: SocketAddr) -> Member {
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
