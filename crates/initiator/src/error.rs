//! Why an initiator could not do what it was asked to.

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

use crate::chap::ChapError;
use crate::url::UrlError;
use crate::watch::{Abort, FLUSH_TIMES};

/// Name of the command that makes data durable.
pub(crate) const FLUSH: &str = "SYNCHRONIZE CACHE";

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
    /// The peer has not said anything for a time that follows the round trip.
    #[error("{address} did not say anything for {}, though it was asked to{}", event::format_delay(*.after), suspicion(*.hole))]
    Silent {
        /// Where.
        address: SocketAddr,
        /// For how long.
        after: Duration,
        /// Path MTU black hole that may be the reason.
        hole: Option<BlackHole>,
    },
    /// The path drops large packets and does not say so.
    #[error("{address}: {hole}")]
    LargePackets {
        /// Address of the target.
        address: SocketAddr,
        /// The evidence.
        hole: BlackHole,
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
    /// The target said that it is dropping us.
    #[error("{address} drops the session without waiting for a logout (it is shutting down or moving)")]
    Dropped {
        /// Where.
        address: SocketAddr,
    },
    /// A reset of the LUN has ended commands of another connection than that which told of it.
    #[error("{address}: a reset ended commands of another connection, whose data may still be on their way")]
    Unfenced {
        /// Where.
        address: SocketAddr,
    },
    /// The target is alive and does not answer a command.
    #[error(
        "{address} is alive and did not answer {command} within {}{}; {}",
        event::format_delay(*.after),
        longer(.command),
        aborted(*.abort)
    )]
    Unanswered {
        /// Where.
        address: SocketAddr,
        /// Which.
        command: &'static str,
        /// The time it had.
        after: Duration,
        /// What became of it.
        abort: Abort,
    },
    /// The target's host is there, and the target answers neither a flush nor a ping.
    #[error(
        "{address} answered neither {FLUSH} nor a ping within {}{}; what was written since the last answer may not be durable",
        event::format_delay(*.after),
        longer(FLUSH)
    )]
    Stuck {
        /// Address of the target.
        address: SocketAddr,
        /// Time that it had.
        after: Duration,
    },
    /// The LUN is not the one that was looked at when the session began.
    #[error(
        "{address}: after connecting again the LUN's {what} is another one; nothing was written to it since"
    )]
    OtherLun {
        /// Where.
        address: SocketAddr,
        /// What differs.
        what: &'static str,
    },
    /// The LUN has become another one within a session.
    #[error("{address}: the LUN has changed: its {what} is another one than when the session began")]
    ChangedLun {
        /// Where.
        address: SocketAddr,
        /// What differs.
        what: &'static str,
    },
    /// A session was lost, and the target wants to be left alone for too long.
    #[error(
        "{cause}; it wants to be left alone for {}, longer than --timeout {}",
        event::format_delay(*.time2wait),
        event::format_delay(*.after)
    )]
    Away {
        /// Why it was lost.
        cause: Box<Error>,
        /// Time2Wait.
        time2wait: Duration,
        /// The time there was.
        after: Duration,
    },
    /// A session was lost and could not be made again.
    #[error(
        "{cause}; gave up connecting again after {attempts} attempts within {}: {last}",
        event::format_delay(*.after)
    )]
    GaveUp {
        /// Why it was lost.
        cause: Box<Error>,
        /// How often it was tried.
        attempts: u32,
        /// The time there was for it.
        after: Duration,
        /// Why the last attempt failed.
        last: Box<Error>,
    },
    /// The session is lost whenever the target is to make data durable.
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
    #[error("there is no LUN {lun}; {}", instead(.target, .disks))]
    NoLun {
        /// The one asked for.
        lun: u16,
        /// URL of the target, without a LUN.
        target: String,
        /// LUNs with disks.
        disks: Vec<u16>,
    },
    /// The LUN is no disk.
    #[error(
        "LUN {lun} is {} (device type {device_type:#04x}), not a disk; {}",
        device_type_text(*.device_type),
        instead(.target, .disks)
    )]
    NoDisk {
        /// The one asked for.
        lun: u16,
        /// Peripheral device type (SPC-5 table 147).
        device_type: u8,
        /// URL of the target, without a LUN.
        target: String,
        /// LUNs with disks.
        disks: Vec<u16>,
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
        match self {
            Error::Login { source, .. } => source.refusal().is_some(),
            Error::GaveUp { last, .. } => last.is_refusal(),
            _ => false,
        }
    }

    /// Whether it says of a session only that its connection is lost, so that another may be made. A target
    /// that breaks the protocol would do so again.
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
            // The same, found at the other end.
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

    /// Whether a refusal is the target's trouble and not ours: it may take us later. One that has been there and is not
    /// may be a target that has begun to listen and does not know its targets yet.
    pub(crate) fn may_pass(&self) -> bool {
        let Error::Login { source, .. } = self else { return false };
        let not_there = LoginStatus::new(login_status::NOT_FOUND);
        source.refusal().is_some_and(|status| status.class == 3 || status == not_there)
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
    /// Bytes that the target would have moved beyond those asked for.
    pub overflow_bytes: Option<u32>,
}

impl Failure {
    /// Returns true if the target has no such LUN for this initiator.
    pub(crate) fn is_no_lun(&self) -> bool {
        self.sense.as_ref().is_some_and(|sense| (sense.asc, sense.ascq) == (0x25, 0x00))
    }

    /// Whether the target does not know the command, or not with these fields.
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

/// A reason of a silence that the socket suggests.
fn suspicion(hole: Option<BlackHole>) -> String {
    hole.map_or_else(String::new, |hole| format!("; {hole}"))
}

/// Why a command had longer than --timeout.
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

/// LUNs with disks, and the next step.
fn instead(target: &str, luns: &[u16]) -> String {
    match luns {
        [] => "the target has no LUN with a disk for this initiator: look at its access rules".to_owned(),
        [first, ..] => format!("LUNs with disks here: {}: use {target}/{first}", list(luns)),
    }
}

/// Peripheral device types that targets have beside disks.
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
