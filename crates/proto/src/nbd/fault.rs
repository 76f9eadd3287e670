//! Errors that end an NBD connection.

use wire::nbd::{NbdFormatError, option_code, reply_type};

/// Why an NBD connection must be closed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NbdFault {
    /// A message that cannot be read.
    #[error("peer sent a malformed message: {0}")]
    Malformed(#[from] NbdFormatError),
    /// A message that contradicts the protocol or the state of the connection.
    #[error("peer broke the protocol: {0}")]
    Contradiction(&'static str),
    /// A message longer than is allowed.
    #[error("peer announced {what} of {found_bytes} bytes; the limit is {limit_bytes}")]
    TooLong {
        /// The message.
        what: &'static str,
        /// Length found.
        found_bytes: u32,
        /// The limit.
        limit_bytes: u32,
    },
    /// More messages of a kind than are allowed.
    #[error("peer sent more than {limit} {what}")]
    TooMany {
        /// The messages.
        what: &'static str,
        /// The limit.
        limit: u32,
    },
    /// NBD_OPT_EXPORT_NAME with a name that is not served: there is no other answer.
    #[error("peer wants the export {0:?}, which is not served")]
    UnknownExport(String),
    /// The server does not give the export.
    #[error("server refuses {}: {}{}", option_words(*option), reply_words(*reply), detail(text))]
    Refused {
        /// One of [`wire::nbd::option_code`].
        option: u32,
        /// One of [`wire::nbd::reply_type`].
        reply: u32,
        /// The server's text, escaped.
        text: String,
    },
    /// A reply to no request.
    #[error("peer answered cookie {cookie:#x}, which names no request that was sent")]
    UnknownCookie {
        /// The cookie.
        cookie: u64,
    },
    /// Bytes where none are expected, such as a request after NBD_CMD_DISC.
    #[error("peer sent bytes on a connection that is over")]
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
