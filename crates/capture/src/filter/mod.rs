//! Filter of a capture: words of the user, compiled to a program for the kernel that selects packets and the kept part
//! of each.
//!
//! The words are a small part of tcpdump's (pcap-filter(7)): `tcp`, `udp`, `icmp`, `icmp6`, `ip`, `ip6`, `host`, `net`,
//! `port` with `src`, `dst`, `tcp` and `udp` before them, `and`, `or`, `not`, parentheses; `and` and `or` have equal
//! precedence and associate from the left. Extension headers of IPv6 and VLAN tags that the kernel leaves in a packet
//! are not followed. `words` parses, `program` compiles.

mod expression;
mod keep;
mod program;
mod words;

use std::str::FromStr;

use net::tap::{Instruction, Link};

pub use expression::FilterError;
pub use keep::Keep;

use expression::Expression;

/// Filter of packets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Text of the user.
    text: String,
    /// `None` for all.
    expression: Option<Expression>,
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

#[cfg(test)]
mod tests;
