//! The login phase of both sides, without sockets and without a clock (RFC 7143 sections 6.2, 6.3,
//! 11.12, 11.13).
//!
//! `handle_*` takes the PDUs of the peer, `poll_transmit` yields the PDUs to send, and `outcome` is set once the full
//! feature phase is reached. Neither side has a clock: the caller ends the login with a silent peer. Sequence numbers:
//! a login request is immediate and does not advance CmdSN; its CmdSN is that of the first command after the login.

mod chap;
mod directory;
mod initiator;
mod negotiation;
mod security;
mod target;
mod text;

#[cfg(test)]
mod tests;

use core::fmt;

use wire::iscsi::login_status;

use crate::discovery::TargetAddress;

pub use chap::{
    Algorithm, ChapInitiator, ChapTarget, Credentials, CredentialsError, RANDOM_BYTES, SECRET_MIN_BYTES,
    Secret,
};
pub use directory::{Admitted, Candidate, Directory, Existing, LoginPolicy, Proof};
pub use initiator::{Initiator, Joined, LoggedIn, Request, Session};
pub use security::Security;
pub use target::Target;

/// The longest data segment of a login PDU: the default of MaxRecvDataSegmentLength holds until the
/// full feature phase (RFC 7143 section 13.12). Bytes.
pub const SEGMENT_BYTES: usize = 8192;

/// The most text that one side may send in one go, over all PDUs joined by the C bit. Bytes.
pub const TEXT_BYTES: usize = 64 * 1024;

/// The most keys that one side may send in one go.
pub const KEYS_PER_TEXT: usize = 256;

/// The most PDUs that one side may send in one login.
pub const ROUNDS: u32 = 64;

/// Status of a Login Response: the two status bytes of RFC 7143 section 11.13.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// 0 success, 1 redirection, 2 initiator error, 3 target error.
    pub class: u8,
    /// The reason within the class.
    pub detail: u8,
}

impl Status {
    /// From a value of [`wire::iscsi::login_status`].
    pub const fn new((class, detail): (u8, u8)) -> Status {
        Status { class, detail }
    }
}

impl From<(u8, u8)> for Status {
    fn from(code: (u8, u8)) -> Status {
        Status::new(code)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = login_status::text(self.class, self.detail).unwrap_or("unknown status");
        write!(f, "{words} (0x{:02x}{:02x})", self.class, self.detail)
    }
}

/// Failure of a login.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The target refused the login. On the target's side: the response with the refusal waits in `poll_transmit`.
    #[error("login refused: {status}{}{reason}", if .reason.is_empty() { "" } else { ": " })]
    Refused {
        /// Status of the response.
        status: Status,
        /// Value found and remedy, for people; may be empty.
        reason: String,
    },
    /// The target refused the login before it sent a CHAP challenge: name and secret are not the cause.
    #[error("login refused: {status}: {step} before it saw a CHAP name or secret")]
    Unchallenged {
        /// Status of the response.
        status: Status,
        /// Step that was refused.
        step: String,
        /// The refused step was the choice of algorithms.
        is_choice: bool,
    },
    /// The initiator insists on digests, and the target agrees to none.
    #[error(
        "the target refuses digests: {key}={value} is all that it agrees to; --digest prefer goes without them"
    )]
    Digests {
        /// Key of the digest.
        key: &'static str,
        /// The value that would be in force, shortened.
        value: String,
    },
    /// Redirection; the caller logs in again at the new address.
    #[error("the target has moved to {address}")]
    Redirected {
        /// The new address.
        address: TargetAddress,
        /// True if the new address replaces the old one for good (status 0x0102).
        permanent: bool,
    },
    /// Protocol violation of the peer; the connection is to be closed.
    #[error("the peer broke the login protocol: {0}")]
    Protocol(Violation),
}

impl LoginError {
    /// Status of a refusal.
    pub const fn refusal(&self) -> Option<Status> {
        match self {
            LoginError::Refused { status, .. } | LoginError::Unchallenged { status, .. } => Some(*status),
            LoginError::Digests { .. } | LoginError::Redirected { .. } | LoginError::Protocol(_) => None,
        }
    }
}

impl From<Violation> for LoginError {
    fn from(violation: Violation) -> LoginError {
        LoginError::Protocol(violation)
    }
}

/// Violation of the login protocol by a peer. A target answers with status 0x0200.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Text that is not a row of `key=value` pairs.
    #[error("bad text: {0}")]
    Text(#[from] wire::iscsi::text::TextError),
    /// More text than the limit.
    #[error("{found} bytes of text in one exchange, at most {TEXT_BYTES} are taken")]
    TextBytes {
        /// Bytes so far.
        found: usize,
    },
    /// More keys than the limit.
    #[error("more than {KEYS_PER_TEXT} keys in one exchange")]
    Keys,
    /// More login PDUs than the limit.
    #[error("no end after {ROUNDS} login PDUs")]
    Rounds,
    /// A key was offered or stated a second time (RFC 7143 section 6.3).
    #[error("{0} came twice")]
    Twice(&'static str),
    /// A key in a stage that excludes the key.
    #[error("{0} may not be negotiated in the security stage")]
    Stage(&'static str),
    /// A value that cannot be offered or stated.
    #[error("{key}={value} is not allowed")]
    Offer {
        /// The key.
        key: &'static str,
        /// The value found, shortened.
        value: String,
    },
    /// An answer outside the result function of its key.
    #[error("{key}={value} in answer to {key}={offered} is not allowed")]
    Answer {
        /// The key.
        key: &'static str,
        /// The offered value.
        offered: String,
        /// The value found, shortened.
        value: String,
    },
    /// The target offers a value that needs an answer in the response that ends the stage, where no answer can be
    /// sent.
    #[error("a key that needs an answer came in the response that ends the stage")]
    LateOffer,
    /// FirstBurstLength was negotiated above MaxBurstLength (RFC 7143 section 13.14).
    #[error("FirstBurstLength {first} is above MaxBurstLength {max}")]
    Bursts {
        /// FirstBurstLength, in bytes.
        first: u32,
        /// MaxBurstLength, in bytes.
        max: u32,
    },
    /// The negotiated value of a key is not acceptable to this side.
    #[error("{key}={value} is all that the peer agrees to, and we insist on another value")]
    Unagreed {
        /// The key.
        key: &'static str,
        /// The value that would be in force.
        value: &'static str,
    },
    /// A header field that does not fit the state of the login.
    #[error("{field} is {found}, expected {expected}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Value found.
        found: u32,
        /// Value expected.
        expected: u32,
    },
    /// Inconsistent flags: C together with T, text in a PDU that must be empty, a stage out of order.
    #[error("{0}")]
    Flags(&'static str),
    /// A redirection without a usable address.
    #[error("redirection without a usable TargetAddress")]
    Redirection,
    /// A PDU after the end of the login.
    #[error("a login PDU after the end of the login")]
    AfterEnd,
}

/// A value for an error message: never more than 64 characters of the peer's text.
fn shortened(value: &str) -> String {
    value.chars().take(64).flat_map(char::escape_default).collect()
}
