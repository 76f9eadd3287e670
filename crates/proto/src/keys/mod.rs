//! The text keys of RFC 7143 section 13: what each one is, and how an offer becomes an answer.
//!
//! Pure functions over text; which key may come when, and what follows from it for a session, is
//! the business of `login`. Read RFC 7143 section 6.2 (negotiation) first, then 13 (the keys).
//! Keys of the security stage are in section 12, `iSCSIProtocolLevel` is extended by RFC 7144.

mod answer;
mod peer;
mod table;

pub use answer::{Answer, Reply, Value, Wish, answer, reply};
pub use peer::{SOFTWARE, read_software};
pub use table::{KEYS, Key, Kind, Scope, Senders, Spec, Use};

/// The three answers that stand in place of a value (RFC 7143 section 6.2). Nobody may offer them.
pub mod constant {
    /// The responder does not know the key.
    pub const NOT_UNDERSTOOD: &str = "NotUnderstood";
    /// The responder refuses the value; the key keeps what it had.
    pub const REJECT: &str = "Reject";
    /// The key means nothing in this session.
    pub const IRRELEVANT: &str = "Irrelevant";
    /// All three.
    pub const ALL: [&str; 3] = [NOT_UNDERSTOOD, REJECT, IRRELEVANT];
}
