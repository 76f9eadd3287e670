//! The text keys of RFC 7143 section 13: their definitions, and the result functions of the negotiation.
//!
//! Pure functions over text; `login` knows the stage of each key and its effect on a session. Read RFC 7143 section 6.2
//! (negotiation) first, then 13 (the keys). Keys of the security stage are in section 12, `iSCSIProtocolLevel` is
//! extended by RFC 7144.

mod answer;
mod peer;
mod table;

pub use answer::{Answer, Reply, Value, Wish, answer, reply};
pub use peer::{SOFTWARE, read_software};
pub use table::{KEYS, Key, Kind, Scope, Senders, Spec, Use};

/// The three answers that replace a value (RFC 7143 section 6.2). They must not be offered.
pub mod constant {
    /// The responder does not know the key.
    pub const NOT_UNDERSTOOD: &str = "NotUnderstood";
    /// The responder refuses the value; the key keeps its former value.
    pub const REJECT: &str = "Reject";
    /// The key means nothing in this session.
    pub const IRRELEVANT: &str = "Irrelevant";
    /// All three.
    pub const ALL: [&str; 3] = [NOT_UNDERSTOOD, REJECT, IRRELEVANT];
}
