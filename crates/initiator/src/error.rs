//! Why an initiator could not do what it was asked to.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use proto::Fault;
use proto::discovery::DiscoveryError;
use proto::login::LoginError;
use store::tables::TableError;
use wire::iscsi::reject_reason;
use wire::scsi::{Sense, SenseKey, Status};

use crate::chap::ChapError;
use crate::url::UrlError;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// What was given for CHAP.
    #[error(transparent)]
    Chap(#[from] ChapError),
    /// The host has no address.
    #[error("cannot find the host {host}: {source}")]
    Resolve {
        /// Its name.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// No connection.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The peer took too long.
    #[error("{address} did not {what} within {}; raise --timeout if the path is that slow", event::format_delay(*.after))]
    Timeout {
        /// Where.
        address: SocketAddr,
        /// What it should have done.
        what: &'static str,
        /// The time it had.
        after: Duration,
    },
    /// No session.
    #[error("{address}: {source}")]
    Login {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: LoginError,
    },
    /// The connection ended.
    #[error("{address} closed the connection {when}")]
    Closed {
        /// Where.
        address: SocketAddr,
        /// At which point.
        when: &'static str,
    },
    /// The socket failed.
    #[error("the connection to {address} failed: {source}")]
    Socket {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The peer broke the protocol.
    #[error("{address}: {source}")]
    Fault {
        /// Where.
        address: SocketAddr,
        /// How.
        source: Fault,
    },
    /// The target rejected one of our PDUs.
    #[error("{address} rejected a PDU: {} ({reason:#04x})", reject_reason::text(*.reason).unwrap_or("unknown reason"))]
    Rejected {
        /// Where.
        address: SocketAddr,
        /// Reason code (RFC 7143 section 11.17.1).
        reason: u8,
    },
    /// The target asked us to leave.
    #[error("{address} asked for a logout (it is shutting down or moving)")]
    LogoutRequested {
        /// Where.
        address: SocketAddr,
    },
    /// A command failed.
    #[error("{command}: {failure}")]
    Command {
        /// Which.
        command: &'static str,
        /// How.
        failure: Failure,
    },
    /// An answer that cannot be read.
    #[error("the target's answer to {command} makes no sense")]
    Malformed {
        /// The command.
        command: &'static str,
    },
    /// The target has no such LUN.
    #[error("there is no LUN {lun}: the target has {}", list(.there))]
    NoLun {
        /// The one asked for.
        lun: u16,
        /// Those it has.
        there: Vec<u16>,
    },
    /// The answer of a target to SendTargets.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// A table cannot be written.
    #[error(transparent)]
    Trace(#[from] TableError),
    /// The system refused something a loop cannot do without.
    #[error("the initiator's loop failed: {0}")]
    Io(#[from] io::Error),
}

impl Error {
    /// Whether the peer refused us, as opposed to something having failed.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Error::Login { source: LoginError::Refused { .. }, .. })
    }
}

/// How a SCSI command failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Its status.
    pub status: Status,
    /// iSCSI response code; 0 unless the target could not run it at all.
    pub response: u8,
    /// Its sense data, if it could be read.
    pub sense: Option<Sense>,
    /// Bytes moved, if fewer than asked for.
    pub short_bytes: Option<u32>,
}

impl Failure {
    /// Whether the target does not know the command, or not with these fields.
    pub(crate) fn is_illegal_request(&self) -> bool {
        self.sense.as_ref().is_some_and(|sense| sense.key == SenseKey::IllegalRequest)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.response, &self.sense, self.short_bytes) {
            (0, Some(sense), _) => write!(f, "{} ({sense})", self.status),
            (0, None, Some(bytes)) => write!(f, "{}, but only {bytes} bytes were moved", self.status),
            (0, None, None) => write!(f, "{}", self.status),
            (code, ..) => write!(f, "the target could not run it (iSCSI response {code:#04x})"),
        }
    }
}

fn list(luns: &[u16]) -> String {
    match luns {
        [] => "none".to_owned(),
        [first @ .., last] => {
            let mut text: String = first.iter().map(|lun| format!("{lun}, ")).collect();
            text.push_str(&last.to_string());
            text
        }
    }
}
