//! Reasons for the end of a connection.

use std::io;

use engine::BlackHole;
use proto::Fault;
use proto::login::LoginError;

/// Reason for the end of a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    /// The initiator closed it, after logging out or without a word.
    #[error("closed by the initiator")]
    Closed,
    /// The logout is answered.
    #[error("logged out")]
    LoggedOut,
    /// The target ends.
    #[error("the target shuts down")]
    Shutdown,
    /// The initiator has logged in again with the same ISID (RFC 7143 section 6.3.5).
    #[error("the initiator has logged in again, which ends this session")]
    Replaced,
    /// An initiator had the target reset (RFC 7143 section 11.5.1, TARGET COLD RESET).
    #[error("the target was reset")]
    Reset,
    /// The initiator is silent, and has not answered a ping.
    #[error("the initiator does not answer{}", hole_text(.0.as_ref()))]
    Silent(Option<BlackHole>),
    /// A discovery session that goes on without a request.
    #[error("nothing was asked in a discovery session for 30 s; it is closed")]
    IdleDiscovery,
    /// The connection has not logged in, and its slot is needed for another.
    #[error("not logged in when the connection was needed for another; it is closed")]
    MadeRoom,
    /// The announced data of a write do not arrive.
    #[error("the data of a write do not come; the session is closed{}", hole_text(.0.as_ref()))]
    NoData(Option<BlackHole>),
    /// Queued responses of all sessions exceed their bound, and this connection has most of them.
    #[error(
        "answers that initiators do not take fill the memory for them, most of it for this one; the connection is closed"
    )]
    Deaf,
    /// Commands of all sessions exceed their bound, and this session has most of them.
    #[error("open commands fill the memory for them, most of them of this session; the session is closed")]
    Commands,
    /// Unfinished login text of all connections exceeds its bound, and this connection has most of it.
    #[error("unfinished logins fill the memory for them, most of it for this one; the connection is closed")]
    LongLogin,
    /// No login in time.
    #[error("no login within 15 s")]
    LoginTimeout,
    /// The socket failed.
    #[error("{0}")]
    Io(io::Error),
    /// The login failed; the initiator has the Login Response.
    #[error("{0}")]
    Login(LoginError),
    /// The peer broke the protocol.
    #[error("{0}; the connection is closed")]
    Fault(#[from] Fault),
    /// Data ahead of its turn exceeds the bound of all sessions, and this session has added to it.
    #[error("more data of commands sent out of order than all sessions may have; the connection is closed")]
    TooEarly,
    /// The peer sent something else than a login before logging in.
    #[error("no iSCSI login in what it sends; the connection is closed")]
    NotLogin,
}

/// A connection that is to end.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) client: usize,
    pub(crate) end: End,
    /// Closes at once; otherwise after the queued PDUs are sent.
    pub(crate) is_abrupt: bool,
}

/// Text about a path MTU black hole, to append to a message; empty without one.
fn hole_text(hole: Option<&BlackHole>) -> String {
    hole.map_or_else(String::new, |hole| format!("; {hole}"))
}

impl End {
    /// Returns whether the initiator's host has reset the connection.
    pub(crate) fn is_reset(&self) -> bool {
        matches!(self, End::Io(error) if error.kind() == io::ErrorKind::ConnectionReset)
    }

    /// Kind of line in the log: the number of lines of one kind is limited.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            End::Closed | End::LoggedOut | End::Shutdown => "usual",
            End::Replaced => "replaced",
            End::Reset => "reset",
            End::Silent(_) => "silent",
            End::IdleDiscovery => "idle discovery",
            End::MadeRoom => "made room",
            End::NoData(_) => "no data",
            End::Deaf => "deaf",
            End::Commands => "commands",
            End::LongLogin => "long login",
            End::LoginTimeout => "login timeout",
            End::Io(_) => "socket",
            End::Login(_) => "login",
            End::Fault(_) => "fault",
            End::TooEarly => "too early",
            End::NotLogin => "not login",
        }
    }

    /// Returns true if the end deserves a line in the log.
    pub(crate) fn is_worth_telling(&self) -> bool {
        !matches!(self, End::Closed | End::LoggedOut | End::Shutdown)
    }
}
