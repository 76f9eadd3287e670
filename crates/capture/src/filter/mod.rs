//! Which packets are kept, and how much of each: words in, a program for the kernel out.
//!
//! The words are a small part of tcpdump's (pcap-filter(7)): `tcp`, `udp`, `icmp`, `icmp6`, `ip`, `ip6`, `host`, `net`,
//! `port` with `src`, `dst`, `tcp` and `udp` before them, `and`, `or`, `not`, parentheses; `and` and `or` bind
//! alike and from the left. Extension headers of IPv6 and VLAN tags that the kernel leaves in a packet are not followed.
//! `words` reads, `program` compiles.

mod program;
mod words;

use std::net::IpAddr;
use std::str::FromStr;

use net::tap::{Instruction, Link};

/// Terms of one filter at most: its program stays within what the kernel takes.
const TERMS_MAX: usize = 32;
/// Parentheses and negations inside each other.
const DEPTH_MAX: usize = 16;

/// Which packets are kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// As the user wrote it.
    text: String,
    /// `None` for all.
    expression: Option<Expression>,
}

/// How much of a packet is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keep {
    /// Its first bytes.
    pub snap_bytes: u32,
    /// With TCP also its headers, however long, and so many bytes of payload.
    pub payload_bytes: Option<u32>,
}

/// Why words are no filter.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FilterError {
    /// A word that cannot stand where it does.
    #[error("{found} in the filter, expected {expected}")]
    Word {
        /// The word, in quotes, or where the filter ends.
        found: String,
        /// What may stand there.
        expected: &'static str,
    },
    /// More than the kernel would take.
    #[error(
        "the filter is too long: at most {TERMS_MAX} terms and {DEPTH_MAX} levels; leave out what is rare"
    )]
    Long,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Expression {
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Not(Box<Expression>),
    Term(Term),
}

/// One test of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Term {
    Version(u8),
    Protocol(u8),
    /// A port of one protocol, or of TCP or UDP.
    Port(Option<u8>, Ends, u16),
    /// An address whose first bits are these.
    Net(Ends, IpAddr, u8),
}

/// Whose address or port is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ends {
    Source,
    Destination,
    Either,
}

impl Filter {
    /// The words it was made of.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The program that lets these packets through, `keep` of each.
    pub fn program(&self, link: Link, keep: Keep) -> Vec<Instruction> {
        program::compile(self.expression.as_ref(), link, keep)
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Filter, FilterError> {
        Ok(Filter { text: text.trim().to_owned(), expression: words::read(text)? })
    }
}

impl Keep {
    /// Of a packet of which so many bytes are headers of TCP and below, if it is TCP.
    pub fn of(self, headers_len: Option<usize>) -> usize {
        let snap = self.snap_bytes as usize;
        match (self.payload_bytes, headers_len) {
            (Some(payload), Some(headers)) => snap.max(headers + payload as usize),
            _ => snap,
        }
    }
}

#[cfg(test)]
mod tests;
