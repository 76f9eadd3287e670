//! Reads a filter's words. Nothing is compiled here.

use std::net::IpAddr;

use super::expression::{DEPTH_MAX, Ends, Expression, FilterError, TERMS_MAX, Term};

const ICMP: u8 = 1;
const ICMP6: u8 = 58;

/// Words that are left to parse.
struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
    terms: usize,
}

/// The expression that `text` is; `None` if it is empty.
pub(super) fn read(text: &str) -> Result<Option<Expression>, FilterError> {
    let mut words = Words { words: split(text), at: 0, terms: 0 };
    if words.words.is_empty() {
        return Ok(None);
    }
    let expression = words.joined(DEPTH_MAX)?;
    match words.next() {
        None => Ok(Some(expression)),
        Some(word) => Err(wrong(Some(word), "and, or, or the end")),
    }
}

/// Words are parted by spaces; parentheses and `!` need none.
fn split(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        let mut rest = word;
        while let Some(at) = rest.find(['(', ')', '!']) {
            words.extend([&rest[..at], &rest[at..=at]]);
            rest = &rest[at + 1..];
        }
        words.push(rest);
    }
    words.retain(|word| !word.is_empty());
    words
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.at).copied();
        self.at += 1;
        word
    }

    /// Takes the next word if it is one of these.
    fn takes(&mut self, any: &[&str]) -> bool {
        let is_one = self.words.get(self.at).is_some_and(|word| any.contains(word));
        self.at += usize::from(is_one);
        is_one
    }

    /// Terms joined by `and` and `or`, which bind alike and from the left, as in pcap-filter(7).
    fn joined(&mut self, depth: usize) -> Result<Expression, FilterError> {
        let mut left = self.one(depth)?;
        loop {
            left = if self.takes(&["and", "&&"]) {
                let right = self.one(depth)?;
                match left {
                    Expression::All(members) => Expression::All(with(members, right)),
                    left => Expression::All(vec![left, right]),
                }
            } else if self.takes(&["or", "||"]) {
                let right = self.one(depth)?;
                match left {
                    Expression::Any(members) => Expression::Any(with(members, right)),
                    left => Expression::Any(vec![left, right]),
                }
            } else {
                return Ok(left);
            };
        }
    }

    fn one(&mut self, depth: usize) -> Result<Expression, FilterError> {
        let deeper = depth.checked_sub(1).ok_or(FilterError::Long)?;
        if self.takes(&["not", "!"]) {
            return Ok(Expression::Not(Box::new(self.one(deeper)?)));
        }
        if self.takes(&["("]) {
            let inner = self.joined(deeper)?;
            return match self.next() {
                Some(")") => Ok(inner),
                other => Err(wrong(other, "')'")),
            };
        }
        self.terms += 1;
        if self.terms > TERMS_MAX {
            return Err(FilterError::Long);
        }
        self.term().map(Expression::Term)
    }

    fn term(&mut self) -> Result<Term, FilterError> {
        for (word, term) in [
            ("ip", Term::Version(4)),
            ("ip6", Term::Version(6)),
            ("icmp", Term::Protocol(ICMP)),
            ("icmp6", Term::Protocol(ICMP6)),
        ] {
            if self.takes(&[word]) {
                return Ok(term);
            }
        }
        let protocol = if self.takes(&["tcp"]) {
            Some(wire::inet::TCP)
        } else if self.takes(&["udp"]) {
            Some(wire::inet::UDP)
        } else {
            None
        };
        let before = self.at;
        let ends = if self.takes(&["src"]) {
            Ends::Source
        } else if self.takes(&["dst"]) {
            Ends::Destination
        } else {
            Ends::Either
        };
        match (protocol, self.next()) {
            (_, Some("port")) => self.port().map(|port| Term::Port(protocol, ends, port)),
            (None, Some("host")) => self.host().map(|host| Term::Net(ends, host, bits(host))),
            (None, Some("net")) => self.net().map(|(net, bits)| Term::Net(ends, net, bits)),
            (Some(number), _) if ends == Ends::Either => {
                self.at = before;
                Ok(Term::Protocol(number))
            }
            (Some(_), other) => Err(wrong(other, "port")),
            (None, other) => Err(wrong(
                other,
                "host, net, port (src or dst before them), tcp, udp, icmp, icmp6, ip or ip6",
            )),
        }
    }

    fn port(&mut self) -> Result<u16, FilterError> {
        let word = self.next();
        word.and_then(|word| word.parse().ok()).ok_or_else(|| wrong(word, "a number from 0 to 65535"))
    }

    fn host(&mut self) -> Result<IpAddr, FilterError> {
        let word = self.next();
        word.and_then(|word| word.parse().ok())
            .ok_or_else(|| wrong(word, "an address such as 10.0.0.7 or 2001:db8::7"))
    }

    fn net(&mut self) -> Result<(IpAddr, u8), FilterError> {
        let word = self.next();
        let parsed = word.and_then(|word| {
            let (address, length) = word.split_once('/')?;
            let (address, length) = (address.parse::<IpAddr>().ok()?, length.parse::<u8>().ok()?);
            (length <= bits(address)).then_some((address, length))
        });
        parsed.ok_or_else(|| wrong(word, "a network such as 10.0.0.0/8 or 2001:db8::/32"))
    }
}

fn with(mut members: Vec<Expression>, last: Expression) -> Vec<Expression> {
    members.push(last);
    members
}

const fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn wrong(found: Option<&str>, expected: &'static str) -> FilterError {
    let found = found.map_or_else(|| "the end".to_owned(), |word| format!("'{word}'"));
    FilterError::Word { found, expected }
}
