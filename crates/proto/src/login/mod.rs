//! The login phase of both sides, without sockets and without a clock (RFC 7143 sections 6.2, 6.3,
//! 11.12, 11.13).
//!
//! Each machine takes the peer's PDUs by `handle_*`, gives its own by `poll_transmit`, and has an
//! `outcome` once the full feature phase is reached. Neither knows time: a peer that says nothing
//! is the caller's to give up on. Numbers: a login request is immediate, so it does not advance
//! CmdSN; the CmdSN that it carries is the one of the first command after the login.

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

/// How a target answers a login: the two status bytes of RFC 7143 section 11.13.5.
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

/// Why a login came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The target said no. On the target's side: we said no, and the response that says so waits in
    /// `poll_transmit`.
    #[error("login refused: {status}{}{reason}", if .reason.is_empty() { "" } else { ": " })]
    Refused {
        /// What the response carries.
        status: Status,
        /// What was found and what to do, for people; may be empty.
        reason: String,
    },
    /// The target said no before it sent a CHAP challenge: name and secret are not the reason.
    #[error("login refused: {status}: {step} before it saw a CHAP name or secret")]
    Unchallenged {
        /// Status of the response.
        status: Status,
        /// Step that was refused.
        step: String,
        /// It was the choice of algorithms.
        is_choice: bool,
    },
    /// We insist on digests, and the target agrees to none.
    #[error(
        "the target refuses digests: {key}={value} is all that it agrees to; --digest prefer goes without them"
    )]
    Digests {
        /// Which digest.
        key: &'static str,
        /// The value that would be in force, shortened.
        value: String,
    },
    /// The target is elsewhere; the caller logs in again there.
    #[error("the target has moved to {address}")]
    Redirected {
        /// Where to go.
        address: TargetAddress,
        /// True if the new address replaces the old one for good (status 0x0102).
        permanent: bool,
    },
    /// The peer broke the protocol; the connection is to be closed.
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

/// What a peer did that the login phase does not allow. A target answers it with status 0x0200.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Text that is not a row of `key=value` pairs.
    #[error("bad text: {0}")]
    Text(#[from] wire::iscsi::text::TextError),
    /// More text than is reasonable.
    #[error("{found} bytes of text in one exchange, at most {TEXT_BYTES} are taken")]
    TextBytes {
        /// Bytes so far.
        found: usize,
    },
    /// More keys than is reasonable.
    #[error("more than {KEYS_PER_TEXT} keys in one exchange")]
    Keys,
    /// No end in sight.
    #[error("no end after {ROUNDS} login PDUs")]
    Rounds,
    /// A key was offered or stated a second time (RFC 7143 section 6.3).
    #[error("{0} came twice")]
    Twice(&'static str),
    /// A key in a stage where it may not be.
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
        /// What we offered.
        offered: String,
        /// The value found, shortened.
        value: String,
    },
    /// The target offers a value that we would change in the response that ends the stage, so that
    /// nobody can tell it.
    #[error("a key that needs an answer came in the response that ends the stage")]
    LateOffer,
    /// FirstBurstLength was agreed above MaxBurstLength (RFC 7143 section 13.14).
    #[error("FirstBurstLength {first} is above MaxBurstLength {max}")]
    Bursts {
        /// Bytes agreed for the first burst.
        first: u32,
        /// Bytes agreed for any burst.
        max: u32,
    },
    /// What came of a key is not among the values that we take.
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
        /// What it is.
        found: u32,
        /// What it should be.
        expected: u32,
    },
    /// C together with T, text where none may be, a stage that does not follow.
    #[error("{0}")]
    Flags(&'static str),
    /// A redirection that names no place that can be reached.
    #[error("redirection without a usable TargetAddress")]
    Redirection,
    /// A PDU after the end of the login.
    #[error("a login PDU after the end of the login")]
    AfterEnd,
}

/// A value as an error shows it: never more than 64 bytes of the peer's text.
fn shortened(value: &str) -> String {
    value.chars().take(64).flat_map(char::escape_default).collect()
}
