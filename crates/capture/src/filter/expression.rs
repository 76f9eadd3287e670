//! Terms of a filter, their combination, and the limits on both.

use std::net::IpAddr;

/// Limit on the terms of one filter: its program stays within the kernel's limit.
pub(super) const TERMS_MAX: usize = 32;
/// Parentheses and negations inside each other.
pub(super) const DEPTH_MAX: usize = 16;

/// Reasons why words are not a filter.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FilterError {
    /// A word that cannot stand where it does.
    #[error("{found} in the filter, expected {expected}")]
    Word {
        /// The word, in quotes, or where the filter ends.
        found: String,
        /// Expected words.
        expected: &'static str,
    },
    /// More than the kernel would take.
    #[error(
        "the filter is too long: at most {TERMS_MAX} terms and {DEPTH_MAX} levels; leave out what is rare"
    )]
    Long,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Expression {
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Not(Box<Expression>),
    Term(Term),
}

/// One test of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Term {
    Version(u8),
    Protocol(u8),
    /// A port of one protocol, or of TCP or UDP.
    Port(Option<u8>, Ends, u16),
    /// An address whose first bits are these.
    Net(Ends, IpAddr, u8),
}

/// Side of an address or port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ends {
    Source,
    Destination,
    Either,
}
