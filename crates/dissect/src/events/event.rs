//! Kinds of events and their names.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use wire::inet::UnreachableReason;
use wire::iscsi::{
    Opcode, async_event, login_status, logout_reason, logout_response_code, reject_reason, task_function,
    task_response,
};
use wire::scsi::{Sense, SenseKey, Status};

use crate::events::pings::TIMEOUT_NS;

/// An event. Serialized as an object with its `kind` and its codes; its `Display` is its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ConnectionEvent {
    /// CHECK CONDITION: SAM-5 section 5.3.1, sense data in RFC 7143 section 11.4.7.
    CheckCondition {
        /// Sense data; `None` if it is not captured, missing or damaged.
        sense: Option<SenseCodes>,
        /// False if the capture ends within the sense data.
        is_captured: bool,
    },
    /// BUSY: the target cannot take the command at present.
    Busy,
    /// TASK SET FULL: the LUN has no room for another command.
    TaskSetFull,
    /// RESERVATION CONFLICT: another initiator has reserved the LUN.
    ReservationConflict,
    /// Another status than GOOD and CONDITION MET.
    Status {
        /// Status code of SAM-5.
        status: u8,
    },
    /// A response code other than 0: the command has no status (RFC 7143 section 11.4.3).
    ResponseCode {
        /// Response code.
        response: u8,
    },
    /// RST on a connection: RFC 9293 section 3.5.2.
    Reset,
    /// RST in answer to a SYN.
    ConnectionRefused,
    /// A login refused: RFC 7143 section 11.13.5.
    LoginRefused {
        /// Status class.
        class: u8,
        /// Status detail.
        detail: u8,
    },
    /// A login redirected, with the address in `EventSummary::address`.
    Redirect {
        /// Status detail: 1 temporarily, 2 permanently.
        detail: u8,
    },
    /// A logout: RFC 7143 sections 11.14 and 11.15.
    Logout {
        /// Reason; `None` if the request is not in the capture.
        reason: Option<u8>,
        /// Response; `None` if it is not in the capture.
        response: Option<u8>,
    },
    /// A PDU refused: RFC 7143 section 11.17.
    Reject {
        /// Reason.
        reason: u8,
        /// Opcode of the refused PDU, if captured.
        opcode: Option<u8>,
    },
    /// A ping without an answer within `TIMEOUT_NS`: RFC 7143 sections 11.18 and 11.19.
    NopTimeout,
    /// A task management function: RFC 7143 sections 11.5 and 11.6.
    TaskManagement {
        /// Function; `None` if the request is not in the capture.
        function: Option<u8>,
        /// Response; `None` if it is not in the capture.
        response: Option<u8>,
    },
    /// An asynchronous message: RFC 7143 section 11.9.
    AsyncMessage {
        /// Event code.
        event: u8,
    },
    /// ICMP: a packet larger than the MTU of a link (RFC 1191, RFC 8201).
    PacketTooBig {
        /// MTU of that link in bytes; `None` from a router older than RFC 1191.
        mtu_bytes: Option<u32>,
    },
    /// ICMP: a packet that did not arrive for another reason (RFC 792, RFC 4443).
    Unreachable {
        /// Version of IP.
        ip_version: u8,
        /// Code of the ICMP message.
        code: u8,
    },
    /// Kinds beyond the limit.
    Further,
}

/// Codes of sense data: SPC-5 section 4.4.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
pub struct SenseCodes {
    /// Sense key.
    pub key: u8,
    /// Additional sense code.
    pub asc: u8,
    /// Additional sense code qualifier.
    pub ascq: u8,
}

impl ConnectionEvent {
    /// Event of a SCSI status; `None` for GOOD and CONDITION MET.
    pub(crate) fn from_status(status: u8) -> Option<Self> {
        match Status(status) {
            Status::GOOD | Status::CONDITION_MET => None,
            Status::CHECK_CONDITION => Some(Self::CheckCondition { sense: None, is_captured: false }),
            Status::BUSY => Some(Self::Busy),
            Status::TASK_SET_FULL => Some(Self::TaskSetFull),
            Status::RESERVATION_CONFLICT => Some(Self::ReservationConflict),
            Status(status) => Some(Self::Status { status }),
        }
    }

    /// True for an event of a PDU.
    pub(crate) fn is_of_iscsi(self) -> bool {
        !matches!(
            self,
            Self::Reset | Self::ConnectionRefused | Self::PacketTooBig { .. } | Self::Unreachable { .. }
        )
    }

    /// True for a command that the target had no room for.
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::Busy | Self::TaskSetFull)
    }
}

impl From<UnreachableReason> for ConnectionEvent {
    fn from(reason: UnreachableReason) -> Self {
        match reason {
            UnreachableReason::TooBig(mtu_bytes) => Self::PacketTooBig { mtu_bytes },
            UnreachableReason::V4(code) => Self::Unreachable { ip_version: 4, code },
            UnreachableReason::V6(code) => Self::Unreachable { ip_version: 6, code },
        }
    }
}

impl From<Sense> for SenseCodes {
    fn from(sense: Sense) -> Self {
        Self { key: sense.key as u8, asc: sense.asc, ascq: sense.ascq }
    }
}

impl fmt::Display for SenseCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, asc, ascq } = *self;
        let sense = Sense::new(SenseKey::from_low_bits(key), asc, ascq);
        write!(f, "{sense} ({key:X}h/{asc:02X}h/{ascq:02X}h)")
    }
}

impl fmt::Display for ConnectionEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNSEEN: Cow<'_, str> = Cow::Borrowed("not seen");
        match *self {
            Self::CheckCondition { sense: Some(sense), .. } => write!(f, "CHECK CONDITION: {sense}"),
            Self::CheckCondition { is_captured: false, .. } => {
                f.write_str("CHECK CONDITION: sense not captured")
            }
            Self::CheckCondition { .. } => f.write_str("CHECK CONDITION without sense data"),
            Self::Busy => Status::BUSY.fmt(f),
            Self::TaskSetFull => Status::TASK_SET_FULL.fmt(f),
            Self::ReservationConflict => Status::RESERVATION_CONFLICT.fmt(f),
            Self::Status { status } => Status(status).fmt(f),
            Self::ResponseCode { response: 1 } => f.write_str("target failure (response 01h)"),
            Self::ResponseCode { response } => write!(f, "iSCSI response {response:02X}h"),
            Self::Reset => f.write_str("TCP reset"),
            Self::ConnectionRefused => f.write_str("TCP connection refused"),
            Self::LoginRefused { class, detail } => {
                let text = login_status::text(class, detail).unwrap_or("unknown class");
                write!(f, "login refused: {text} ({class:02X}{detail:02X}h)")
            }
            Self::Redirect { detail } => {
                let text = login_status::text(1, detail).unwrap_or("redirection");
                write!(f, "login redirected: {text}")
            }
            Self::Logout { reason, response } => {
                let reason = reason.map_or(UNSEEN, |code| named(logout_reason::text(code), code));
                let response = response.map_or(UNSEEN, |code| named(logout_response_code::text(code), code));
                write!(f, "logout: {reason}; response: {response}")
            }
            Self::Reject { reason, opcode } => {
                write!(f, "Reject: {}", named(reject_reason::text(reason), reason))?;
                match opcode.and_then(|code| Opcode::from_code(code).ok()) {
                    Some(opcode) => write!(f, ", of a {opcode:?}"),
                    None => Ok(()),
                }
            }
            Self::NopTimeout => write!(f, "NOP without an answer within {} s", TIMEOUT_NS / 1_000_000_000),
            Self::TaskManagement { function, response } => {
                let function = function.map_or(UNSEEN, |code| named(task_function::text(code), code));
                let response = response.map_or(UNSEEN, |code| named(task_response::text(code), code));
                write!(f, "task management: {function}; response: {response}")
            }
            Self::AsyncMessage { event } => {
                write!(f, "asynchronous message: {}", named(async_event::text(event), event))
            }
            Self::PacketTooBig { mtu_bytes: Some(mtu) } => {
                write!(f, "ICMP: packet too big, MTU of the next hop {mtu} bytes")
            }
            Self::PacketTooBig { mtu_bytes: None } => {
                f.write_str("ICMP: packet too big, MTU of the next hop not given")
            }
            Self::Unreachable { ip_version, code } => {
                let reason = match ip_version {
                    4 => UnreachableReason::V4(code),
                    _ => UnreachableReason::V6(code),
                };
                write!(f, "ICMP: {}", named(reason.text(), code))
            }
            Self::Further => f.write_str("events of further kinds"),
        }
    }
}

/// A code in words, or as a number.
fn named(text: Option<&'static str>, code: u8) -> Cow<'static, str> {
    text.map_or_else(|| format!("code {code:02X}h").into(), Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_words_of_the_standards() {
        let check = |event: ConnectionEvent, name: &str| assert_eq!(event.to_string(), name);
        let sense = |key, asc, ascq| ConnectionEvent::CheckCondition {
            sense: Some(SenseCodes { key, asc, ascq }),
            is_captured: true,
        };
        check(sense(5, 0x24, 0), "CHECK CONDITION: ILLEGAL REQUEST, invalid field in CDB (5h/24h/00h)");
        check(sense(6, 0x99, 7), "CHECK CONDITION: UNIT ATTENTION, additional sense 99h/07h (6h/99h/07h)");
        check(
            ConnectionEvent::CheckCondition { sense: None, is_captured: false },
            "CHECK CONDITION: sense not captured",
        );
        check(
            ConnectionEvent::LoginRefused { class: 2, detail: 2 },
            "login refused: authorization failure: the initiator may not use this target (0202h)",
        );
        check(ConnectionEvent::LoginRefused { class: 9, detail: 2 }, "login refused: unknown class (0902h)");
        check(
            ConnectionEvent::Logout { reason: Some(1), response: None },
            "logout: close the connection; response: not seen",
        );
        check(
            ConnectionEvent::Reject { reason: 4, opcode: Some(1) },
            "Reject: protocol error, of a ScsiCommand",
        );
        check(
            ConnectionEvent::TaskManagement { function: Some(1), response: Some(0x33) },
            "task management: abort task; response: code 33h",
        );
        check(ConnectionEvent::Unreachable { ip_version: 6, code: 4 }, "ICMP: port unreachable");
    }

    #[test]
    fn only_some_statuses_are_events() {
        let kinds: Vec<_> = [0, 2, 4, 8, 0x18, 0x28, 0x40].map(ConnectionEvent::from_status).into();
        assert_eq!(kinds.iter().flatten().count(), 5);
        assert_eq!(kinds.iter().flatten().filter(|event| event.is_refusal()).count(), 2);
    }
}
