//! Errors of the initiator.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use engine::BlackHole;
use proto::Fault;
use proto::discovery::DiscoveryError;
use proto::login::{LoginError, Status as LoginStatus};
use tables::TableError;
use wire::iscsi::{login_status, reject_reason, task_response};
use wire::scsi::{Sense, SenseKey, Status};

use crate::login::chap::ChapError;
use crate::options::FLUSH_TIMES;
use crate::url::UrlError;

/// Name of the command that makes data durable.
pub(crate) const FLUSH: &str = "SYNCHRONIZE CACHE";

/// Outcome of an abort.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Abort {
    /// The target has ended the command.
    Done,
    /// The target refused the abort, and the LUN was not reset.
    Refused {
        /// Response code, one of [`wire::iscsi::task_response`].
        response: u8,
    },
    /// The abort failed, and the target reset the LUN.
    Reset,
    /// The target did not answer the abort, and the LUN was not reset.
    Unanswered,
}

/// Error of a session, of one of its commands, or of discovery.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Invalid URL.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// Invalid or incomplete CHAP settings.
    #[error(transparent)]
    Chap(#[from] ChapError),
    /// The host name cannot be resolved.
    #[error("cannot find the host {host}: {source}")]
    Resolve {
        /// The host name.
        host: String,
        /// Error of the resolver.
        source: io::Error,
    },
    /// The TCP connection cannot be opened.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Address of the target.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The peer exceeded a timeout.
    #[error("{address} did not {what} within {}; raise --timeout if the path is that slow", event::format_delay(*.after))]
    Timeout {
        /// Address of the peer.
        address: SocketAddr,
        /// The missing action, as a verb phrase.
        what: &'static str,
        /// The timeout.
        after: Duration,
    },
    /// The peer has sent nothing for a time derived from the round trip, in spite of a ping.
    #[error("{address} did not say anything for {}, though it was asked to{}", event::format_delay(*.after), suspicion(*.hole))]
    Silent {
        /// Address of the peer.
        address: SocketAddr,
        /// Duration of the silence.
        after: Duration,
        /// Path MTU black hole that may be the reason.
        hole: Option<BlackHole>,
    },
    /// The path drops large packets without an ICMP message.
    #[error("{address}: {hole}")]
    LargePackets {
        /// Address of the target.
        address: SocketAddr,
        /// The evidence.
        hole: BlackHole,
    },
    /// The login failed.
    #[error("{address}: {source}")]
    Login {
        /// Address of the target.
        address: SocketAddr,
        /// Reason of the failure.
        source: LoginError,
    },
    /// The peer closed the connection.
    #[error("{address} closed the connection {when}")]
    Closed {
        /// Address of the peer.
        address: SocketAddr,
        /// Phase of the session at that time.
        when: &'static str,
    },
    /// A socket operation failed.
    #[error("the connection to {address} failed: {source}")]
    Socket {
        /// Address of the peer.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The peer violated the protocol.
    #[error("{address}: {source}")]
    Fault {
        /// Address of the peer.
        address: SocketAddr,
        /// The violation.
        source: Fault,
    },
    /// The target rejected a PDU of the initiator.
    #[error("{address} rejected a PDU: {} ({reason:#04x})", reject_reason::text(*.reason).unwrap_or("unknown reason"))]
    Rejected {
        /// Address of the target.
        address: SocketAddr,
        /// Reason code (RFC 7143 section 11.17.1).
        reason: u8,
    },
    /// The target requested a logout (asynchronous event 1, RFC 7143 section 11.9.1).
    #[error("{address} asked for a logout (it is shutting down or moving)")]
    LogoutRequested {
        /// Address of the target.
        address: SocketAddr,
    },
    /// The target announced that it drops the connection or the session (asynchronous events 2 and 3).
    #[error("{address} drops the session without waiting for a logout (it is shutting down or moving)")]
    Dropped {
        /// Address of the target.
        address: SocketAddr,
    },
    /// A LUN reset ended commands of other connections than the one on which it was reported.
    #[error("{address}: a reset ended commands of another connection, whose data may still be on their way")]
    Unfenced {
        /// Address of the target.
        address: SocketAddr,
    },
    /// The target is alive but has not answered a command.
    #[error(
        "{address} is alive and did not answer {command} within {}{}; {}",
        event::format_delay(*.after),
        longer(.command),
        aborted(*.abort)
    )]
    Unanswered {
        /// Address of the target.
        address: SocketAddr,
        /// Name of the command.
        command: &'static str,
        /// Time limit of the command.
        after: Duration,
        /// Outcome of its abort.
        abort: Abort,
    },
    /// The target's host acknowledges data, but the target answers neither a flush nor a ping.
    #[error(
        "{address} answered neither {FLUSH} nor a ping within {}{}; what was written since the last answer may not be durable",
        event::format_delay(*.after),
        longer(FLUSH)
    )]
    Stuck {
        /// Address of the target.
        address: SocketAddr,
        /// Time limit.
        after: Duration,
    },
    /// After a reconnect the LUN is not the one with which the session began.
    #[error(
        "{address}: after connecting again the LUN's {what} is another one; nothing was written to it since"
    )]
    OtherLun {
        /// Address of the target.
        address: SocketAddr,
        /// The property that differs.
        what: &'static str,
    },
    /// The LUN has changed its identity within a session.
    #[error("{address}: the LUN has changed: its {what} is another one than when the session began")]
    ChangedLun {
        /// Address of the target.
        address: SocketAddr,
        /// The property that differs.
        what: &'static str,
    },
    /// The session was lost, and Time2Wait of the target exceeds the timeout.
    #[error(
        "{cause}; it wants to be left alone for {}, longer than --timeout {}",
        event::format_delay(*.time2wait),
        event::format_delay(*.after)
    )]
    Away {
        /// Reason of the loss.
        cause: Box<Error>,
        /// Time2Wait.
        time2wait: Duration,
        /// The timeout.
        after: Duration,
    },
    /// The session was lost and could not be re-established.
    #[error(
        "{cause}; gave up connecting again after {attempts} attempts within {}: {last}",
        event::format_delay(*.after)
    )]
    GaveUp {
        /// Reason of the loss.
        cause: Box<Error>,
        /// Number of attempts.
        attempts: u32,
        /// Time limit of the attempts.
        after: Duration,
        /// Error of the last attempt.
        last: Box<Error>,
    },
    /// The session is lost with every flush.
    #[error(
        "{cause}; the session was lost during {flushes} {FLUSH} commands in a row, so what was written since the last one \
         that was answered may not be durable: look at the target's log and its storage"
    )]
    FlushesLost {
        /// The reason of the last loss.
        cause: Box<Error>,
        /// Number of losses.
        flushes: u32,
    },
    /// A command failed.
    #[error("{command}: {failure}")]
    Command {
        /// Name of the command.
        command: &'static str,
        /// Reason of the failure.
        failure: Failure,
    },
    /// Response data that cannot be parsed.
    #[error("the target's answer to {command} makes no sense")]
    Malformed {
        /// Name of the command.
        command: &'static str,
    },
    /// The target does not have the LUN.
    #[error("there is no LUN {lun}; {}", instead(.target, .disks))]
    NoLun {
        /// The requested LUN.
        lun: u16,
        /// URL of the target, without a LUN.
        target: String,
        /// LUNs with disks.
        disks: Vec<u16>,
    },
    /// The LUN is not a disk.
    #[error(
        "LUN {lun} is {} (device type {device_type:#04x}), not a disk; {}",
        device_type_text(*.device_type),
        instead(.target, .disks)
    )]
    NoDisk {
        /// The requested LUN.
        lun: u16,
        /// Peripheral device type (SPC-5 table 147).
        device_type: u8,
        /// URL of the target, without a LUN.
        target: String,
        /// LUNs with disks.
        disks: Vec<u16>,
    },
    /// Error of a response to SendTargets.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// A table cannot be written.
    #[error(transparent)]
    Trace(#[from] TableError),
    /// The system refused an operation that the event loop needs.
    #[error("the initiator's loop failed: {0}")]
    Io(#[from] io::Error),
}

impl Error {
    /// Returns true if the target refused the login, as opposed to a failure.
    pub fn is_refusal(&self) -> bool {
        match self {
            Error::Login { source, .. } => source.refusal().is_some(),
            Error::GaveUp { last, .. } => last.is_refusal(),
            _ => false,
        }
    }

    /// Returns true if the error only ends a connection, so that another session may be established. A target that
    /// violates the protocol would do so again.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Error::Closed { .. }
            | Error::Socket { .. }
            | Error::Timeout { .. }
            | Error::Silent { .. }
            | Error::LargePackets { .. }
            | Error::LogoutRequested { .. }
            | Error::Unfenced { .. }
            | Error::Dropped { .. } => true,
            Error::Fault { source, .. } => matches!(source, Fault::HeaderDigest | Fault::DataDigest),
            // The digest error was detected by the target.
            Error::Rejected { reason, .. } => *reason == reject_reason::DATA_DIGEST_ERROR,
            _ => false,
        }
    }

    /// Returns the maximum segment size for the next connection, in bytes, if the path seems to drop larger ones.
    pub(crate) fn smaller_segment(&self) -> Option<u16> {
        match self {
            Error::LargePackets { hole, .. } | Error::Silent { hole: Some(hole), .. } => {
                hole.smaller_segment()
            }
            _ => None,
        }
    }

    /// Returns true if a refused login may succeed later: the target reports an error of its own. A target that is not
    /// found may belong to a portal that listens already but has not loaded its targets.
    pub(crate) fn may_pass(&self) -> bool {
        let Error::Login { source, .. } = self else { return false };
        let not_there = LoginStatus::new(login_status::NOT_FOUND);
        source.refusal().is_some_and(|status| status.class == 3 || status == not_there)
    }
}

/// Failure of a SCSI command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// SCSI status.
    pub status: Status,
    /// iSCSI response code; nonzero if the target could not execute the command.
    pub response: u8,
    /// Sense data, if any could be parsed.
    pub sense: Option<Sense>,
    /// Bytes transferred, if fewer than expected.
    pub short_bytes: Option<u32>,
    /// Residual overflow: bytes beyond the expected length that the target had to transfer.
    pub overflow_bytes: Option<u32>,
}

impl Failure {
    /// Returns true if the target has no such LUN for this initiator.
    pub(crate) fn is_no_lun(&self) -> bool {
        self.sense.as_ref().is_some_and(|sense| (sense.asc, sense.ascq) == (0x25, 0x00))
    }

    /// Returns true if the target does not support the command, or one of its fields.
    pub(crate) fn is_illegal_request(&self) -> bool {
        self.sense.as_ref().is_some_and(|sense| sense.key == SenseKey::IllegalRequest)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.response, &self.sense, self.short_bytes, self.overflow_bytes) {
            (0, Some(sense), ..) => write!(f, "{} ({sense})", self.status),
            (0, None, Some(bytes), _) => write!(f, "{}, but only {bytes} bytes were moved", self.status),
            (0, None, None, Some(bytes)) => {
                let status = self.status;
                write!(
                    f,
                    "{status}, but it was about {bytes} bytes more: its blocks are longer than the LUN said"
                )
            }
            (0, None, None, None) => write!(f, "{}", self.status),
            (code, ..) => write!(f, "the target could not run it (iSCSI response {code:#04x})"),
        }
    }
}

/// A cause of the silence that socket statistics suggest.
fn suspicion(hole: Option<BlackHole>) -> String {
    hole.map_or_else(String::new, |hole| format!("; {hole}"))
}

/// Reason for a time limit above --timeout.
fn longer(command: &str) -> String {
    match command == FLUSH {
        true => format!(", {FLUSH_TIMES} times --timeout because a cache may have much to write"),
        false => String::new(),
    }
}

fn aborted(abort: Abort) -> String {
    match abort {
        Abort::Done => "it was aborted".to_owned(),
        Abort::Refused { response } => {
            let words = task_response::text(response).unwrap_or("unknown response");
            format!("it could not be aborted either: {words} ({response:#04x}), nor was the LUN reset")
        }
        Abort::Reset => "it could not be aborted either; the LUN was reset".to_owned(),
        Abort::Unanswered => "nor that it be aborted, nor was the LUN reset".to_owned(),
    }
}

/// List of LUNs with disks, and the next step.
fn instead(target: &str, luns: &[u16]) -> String {
    match luns {
        [] => "the target has no LUN with a disk for this initiator: look at its access rules".to_owned(),
        [first, ..] => format!("LUNs with disks here: {}: use {target}/{first}", list(luns)),
    }
}

/// Device types other than disks that are common at targets.
pub(crate) fn device_type_text(device_type: u8) -> &'static str {
    match device_type {
        0x01 => "a tape",
        0x03 => "a processor",
        0x05 => "a CD or DVD drive",
        0x08 => "a media changer",
        0x0c => "a controller",
        0x0d => "an enclosure",
        0x1e => "a well-known logical unit",
        _ => "another device",
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
