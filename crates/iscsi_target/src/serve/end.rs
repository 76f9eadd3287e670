//! Why a connection ended.

use std::io;

use engine::BlackHole;
use proto::Fault;
use proto::login::LoginError;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    /// The initiator closed it, after logging out or without a word.
    #[error("closed by the initiator")]
    Closed,
    /// The logout is answered.
    #[error("logged out")]
    LoggedOut,
    /// The target ends.
    #[error("the target shuts down")]
    Shutdown,
    /// Its initiator has logged in again with the same ISID (RFC 7143 section 6.3.5).
    #[error("the initiator has logged in again, which ends this session")]
    Replaced,
    /// An initiator had the target reset (RFC 7143 section 11.5.1, TARGET COLD RESET).
    #[error("the target was reset")]
    Reset,
    /// It has said nothing, nor answered a ping.
    #[error("the initiator does not answer{}", .0.map_or_else(String::new, |hole| format!("; {hole}")))]
    Silent(Option<BlackHole>),
    /// No login in time.
    #[error("no login within 15 s")]
    LoginTimeout,
    /// The socket failed.
    #[error("{0}")]
    Io(io::Error),
    /// The login failed; the initiator has been told.
    #[error("{0}")]
    Login(LoginError),
    /// The peer broke the protocol.
    #[error("{0}; the connection is closed")]
    Fault(#[from] Fault),
    /// It has brought data ahead of its turn, and so have others.
    #[error("more data of commands sent out of order than all sessions may have; the connection is closed")]
    TooEarly,
    /// The peer sent something else than a login before logging in.
    #[error("no iSCSI login in what it sends; the connection is closed")]
    NotLogin,
}

impl End {
    /// Returns whether the initiator's host has reset the connection.
    pub(super) fn is_reset(&self) -> bool {
        matches!(self, End::Io(error) if error.kind() == io::ErrorKind::ConnectionReset)
    }

    /// Whether a person wants to read of it.
    pub(super) fn is_worth_telling(&self) -> bool {
        !matches!(self, End::Closed | End::LoggedOut | End::Shutdown)
    }
}
