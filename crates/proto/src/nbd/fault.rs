//! Errors that end an NBD connection.

use wire::nbd::{NbdFormatError, option_code, reply_type};

use super::violation::NbdViolation;

/// Reason to close an NBD connection.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NbdFault {
    /// A message that cannot be read.
    #[error("peer sent a malformed message: {0}; check that it speaks NBD with newstyle negotiation")]
    Malformed(#[from] NbdFormatError),
    /// A message that contradicts the protocol or the state of the connection.
    #[error("peer sent {0}; the connection is closed, report it to the maker of the peer")]
    Violation(#[from] NbdViolation),
    /// A message longer than is allowed.
    #[error(
        "peer announced {what} of {found_bytes} bytes, expected at most {limit_bytes}; use shorter requests"
    )]
    TooLong {
        /// The message.
        what: &'static str,
        /// Length found.
        found_bytes: u32,
        /// The limit.
        limit_bytes: u32,
    },
    /// More messages of a kind than are allowed.
    #[error("peer sent more than {limit} {what}, expected fewer; report it to the maker of the peer")]
    TooMany {
        /// The messages.
        what: &'static str,
        /// The limit.
        limit: u32,
    },
    /// NBD_OPT_EXPORT_NAME with a name that is not served: there is no other answer.
    #[error(
        "peer chose the export {0:?}, expected one that is served; serve it or correct the name at the client"
    )]
    UnknownExport(String),
    /// The server does not give the export. The client sends NBD_OPT_ABORT before it closes the connection.
    #[error(
        "server refuses {}: {}{}; {}",
        option_words(*option), reply_words(*reply), detail(text), next_step(*reply)
    )]
    Refused {
        /// One of [`wire::nbd::option_code`].
        option: u32,
        /// One of [`wire::nbd::reply_type`].
        reply: u32,
        /// The server's text, escaped.
        text: String,
    },
    /// A reply to no request.
    #[error(
        "peer answered cookie {cookie:#x}, expected one of a request; report it to the maker of the peer"
    )]
    UnknownCookie {
        /// The cookie.
        cookie: u64,
    },
    /// Bytes where none are expected, such as a request after NBD_CMD_DISC.
    #[error("peer sent bytes on a connection that is over, expected none; connect again")]
    Over,
}

impl NbdFault {
    /// Refuses a length above a limit.
    pub(super) fn limit(what: &'static str, found_bytes: u32, limit_bytes: u32) -> Result<(), NbdFault> {
        if found_bytes > limit_bytes {
            return Err(NbdFault::TooLong { what, found_bytes, limit_bytes });
        }
        Ok(())
    }
}

fn option_words(option: u32) -> &'static str {
    option_code::text(option).unwrap_or("an option")
}

fn reply_words(reply: u32) -> String {
    reply_type::text(reply).map_or_else(|| format!("reply {reply:#010x}"), str::to_owned)
}

fn detail(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" ({text})") }
}

fn next_step(reply: u32) -> &'static str {
    match reply {
        reply_type::ERR_UNKNOWN => "expected a name that it serves, correct the name of the export",
        reply_type::ERR_TLS_REQD => "expected TLS, connect with nbds://",
        reply_type::ERR_POLICY => "expected access, ask the operator of the server for it",
        reply_type::ERR_SHUTDOWN => "connect again later",
        _ => "look for the reason in the log of the server",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_next_step() {
        let refused = |reply, text: &str| {
            NbdFault::Refused { option: option_code::GO, reply, text: text.to_owned() }.to_string()
        };
        assert_eq!(
            refused(reply_type::ERR_UNKNOWN, "no"),
            "server refuses NBD_OPT_GO: no such export (no); expected a name that it serves, correct the name of the \
             export"
        );
        assert_eq!(
            refused(0x8000_0077, ""),
            "server refuses NBD_OPT_GO: reply 0x80000077; look for the reason in the log of the server"
        );
        assert_eq!(
            NbdFault::from(NbdViolation::Plaintext { bytes: 16 }).to_string(),
            "peer sent 16 plaintext bytes behind NBD_OPT_STARTTLS, expected none: they may have been injected; the \
             connection is closed, report it to the maker of the peer"
        );
    }
}
