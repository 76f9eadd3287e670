//! Compiles a filter into a program of the classic BPF machine. All jumps go forward; a load behind the end of a packet
//! refuses the packet, so nothing is loaded that a sound packet may not have.

use std::net::IpAddr;

use net::tap::{Instruction, Link};
use wire::inet::{TCP, UDP};

use super::expression::{Ends, Expression, Term};
use super::keep::Keep;

/// Codes of instructions (linux/bpf_common.h): A and X are the machine's registers, k the operand.
pub(super) mod code {
    pub(in crate::filter) const LOAD_BYTE: u16 = 0x30;
    pub(in crate::filter) const LOAD_HALF: u16 = 0x28;
    pub(in crate::filter) const LOAD_WORD: u16 = 0x20;
    pub(in crate::filter) const LOAD_BYTE_AT_X: u16 = 0x50;
    pub(in crate::filter) const LOAD_HALF_AT_X: u16 = 0x48;
    pub(in crate::filter) const LOAD_LEN: u16 = 0x80;
    /// X = 4 × the low half of the byte at k: the length of an IPv4 header.
    pub(in crate::filter) const LOAD_X_HEADER: u16 = 0xb1;
    pub(in crate::filter) const AND: u16 = 0x54;
    pub(in crate::filter) const ADD: u16 = 0x04;
    pub(in crate::filter) const ADD_X: u16 = 0x0c;
    pub(in crate::filter) const SHIFT_RIGHT: u16 = 0x74;
    pub(in crate::filter) const A_TO_X: u16 = 0x07;
    pub(in crate::filter) const X_TO_A: u16 = 0x87;
    pub(in crate::filter) const GO: u16 = 0x05;
    pub(in crate::filter) const IF_EQUAL: u16 = 0x15;
    pub(in crate::filter) const IF_ABOVE: u16 = 0x25;
    pub(in crate::filter) const IF_ABOVE_X: u16 = 0x2d;
    pub(in crate::filter) const IF_LEAST: u16 = 0x35;
    pub(in crate::filter) const IF_ANY_BIT: u16 = 0x45;
    pub(in crate::filter) const KEEP: u16 = 0x06;
    pub(in crate::filter) const KEEP_A: u16 = 0x16;
}

const ETHERNET_BYTES: u32 = 14;
const ETHERNET_TYPE: u32 = 12;
const TYPE_V4: u32 = 0x0800;
const TYPE_V6: u32 = 0x86dd;

/// Offsets of fields of an IP header, and of a TCP header behind one of IPv6.
mod field {
    pub(super) const V4_FRAGMENT: u32 = 6;
    pub(super) const V4_PROTOCOL: u32 = 9;
    pub(super) const V4_SOURCE: u32 = 12;
    pub(super) const V4_DESTINATION: u32 = 16;
    pub(super) const V6_PROTOCOL: u32 = 6;
    pub(super) const V6_SOURCE: u32 = 8;
    pub(super) const V6_DESTINATION: u32 = 24;
    pub(super) const V6_LEN: u32 = 40;
    pub(super) const SOURCE_PORT: u32 = 0;
    pub(super) const DESTINATION_PORT: u32 = 2;
    /// In its high half the length of a TCP header, in words.
    pub(super) const TCP_LEN: u32 = 12;
}
/// Not the first fragment.
const LATER_FRAGMENT: u32 = 0x1fff;

/// A place in the program that is jumped to.
#[derive(Clone, Copy)]
struct Label(usize);

enum Step {
    Plain(Instruction),
    Go(Label),
}

struct Assembler {
    link: Link,
    steps: Vec<Step>,
    /// Position of each label, once it is known.
    places: Vec<usize>,
}

/// The program that accepts packets of `expression`, `keep` of each.
pub(super) fn compile(expression: Option<&Expression>, link: Link, keep: Keep) -> Vec<Instruction> {
    let mut program = Assembler { link, steps: Vec::new(), places: Vec::new() };
    let [yes, no] = [program.label(), program.label()];
    if let Some(expression) = expression {
        program.expression(expression, yes, no);
    }
    program.here(yes);
    program.keep(keep);
    program.here(no);
    program.plain(code::KEEP, 0);
    program.finish()
}

impl Assembler {
    fn label(&mut self) -> Label {
        self.places.push(usize::MAX);
        Label(self.places.len() - 1)
    }

    /// Places `label` at the next instruction.
    fn here(&mut self, label: Label) {
        self.places[label.0] = self.steps.len();
    }

    fn plain(&mut self, code: u16, operand: u32) {
        self.steps.push(Step::Plain(Instruction { code, jump_true: 0, jump_false: 0, operand }));
    }

    fn go(&mut self, to: Label) {
        self.steps.push(Step::Go(to));
    }

    /// Continues if the comparison holds, else goes to `no`: comparisons jump 255 instructions at most, `go` any
    /// distance.
    fn unless(&mut self, code: u16, operand: u32, no: Label) {
        self.steps.push(Step::Plain(Instruction { code, jump_true: 1, jump_false: 0, operand }));
        self.go(no);
    }

    /// Continues if the comparison does not hold, else goes to `yes`.
    fn or_else(&mut self, code: u16, operand: u32, yes: Label) {
        self.steps.push(Step::Plain(Instruction { code, jump_true: 0, jump_false: 1, operand }));
        self.go(yes);
    }

    /// Offset of the IP header.
    const fn ip(&self) -> u32 {
        match self.link {
            Link::Ethernet => ETHERNET_BYTES,
            Link::Ip => 0,
        }
    }

    fn expression(&mut self, expression: &Expression, yes: Label, no: Label) {
        match expression {
            Expression::Term(term) => self.term(*term, yes, no),
            Expression::Not(inner) => self.expression(inner, no, yes),
            Expression::All(members) => {
                for member in members {
                    let on = self.label();
                    self.expression(member, on, no);
                    self.here(on);
                }
                self.go(yes);
            }
            Expression::Any(members) => {
                for member in members {
                    let on = self.label();
                    self.expression(member, yes, on);
                    self.here(on);
                }
                self.go(no);
            }
        }
    }

    fn version(&mut self, version: u8, no: Label) {
        match self.link {
            Link::Ethernet => {
                self.plain(code::LOAD_HALF, ETHERNET_TYPE);
                self.unless(code::IF_EQUAL, if version == 4 { TYPE_V4 } else { TYPE_V6 }, no);
            }
            Link::Ip => {
                self.plain(code::LOAD_BYTE, 0);
                self.plain(code::AND, 0xf0);
                self.unless(code::IF_EQUAL, u32::from(version) << 4, no);
            }
        }
    }

    fn term(&mut self, term: Term, yes: Label, no: Label) {
        match term {
            Term::Version(version) => {
                self.version(version, no);
                self.go(yes);
            }
            Term::Protocol(number) => {
                let not_v4 = self.label();
                self.version(4, not_v4);
                self.protocol(field::V4_PROTOCOL, &[number], no);
                self.go(yes);
                self.here(not_v4);
                self.version(6, no);
                self.protocol(field::V6_PROTOCOL, &[number], no);
                self.go(yes);
            }
            Term::Port(protocol, ends, port) => self.port(protocol, ends, port, yes, no),
            Term::Net(ends, IpAddr::V4(address), bits) => {
                self.version(4, no);
                let words = [u32::from(address)];
                self.net(ends, [field::V4_SOURCE, field::V4_DESTINATION], &words, bits, yes, no);
            }
            Term::Net(ends, IpAddr::V6(address), bits) => {
                self.version(6, no);
                let octets = address.octets();
                let words: Vec<u32> =
                    octets.as_chunks().0.iter().map(|word| u32::from_be_bytes(*word)).collect();
                self.net(ends, [field::V6_SOURCE, field::V6_DESTINATION], &words, bits, yes, no);
            }
        }
    }

    /// Continues if the byte at `at` of the IP header is one of `numbers`.
    fn protocol(&mut self, at: u32, numbers: &[u8], no: Label) {
        self.plain(code::LOAD_BYTE, self.ip() + at);
        let on = self.label();
        for number in numbers {
            self.or_else(code::IF_EQUAL, u32::from(*number), on);
        }
        self.go(no);
        self.here(on);
    }

    fn port(&mut self, protocol: Option<u8>, ends: Ends, port: u16, yes: Label, no: Label) {
        let both = [TCP, UDP];
        let one = protocol.map(|number| [number]);
        let protocols = one.as_ref().map_or(&both[..], |one| &one[..]);
        let offsets: &[u32] = match ends {
            Ends::Source => &[field::SOURCE_PORT],
            Ends::Destination => &[field::DESTINATION_PORT],
            Ends::Either => &[field::SOURCE_PORT, field::DESTINATION_PORT],
        };
        let not_v4 = self.label();
        self.version(4, not_v4);
        self.protocol(field::V4_PROTOCOL, protocols, no);
        self.first_fragment(no);
        self.plain(code::LOAD_X_HEADER, self.ip());
        for offset in offsets {
            self.plain(code::LOAD_HALF_AT_X, self.ip() + offset);
            self.or_else(code::IF_EQUAL, port.into(), yes);
        }
        self.go(no);
        self.here(not_v4);
        self.version(6, no);
        self.protocol(field::V6_PROTOCOL, protocols, no);
        for offset in offsets {
            self.plain(code::LOAD_HALF, self.ip() + field::V6_LEN + offset);
            self.or_else(code::IF_EQUAL, port.into(), yes);
        }
        self.go(no);
    }

    /// Continues unless the IPv4 packet is a later fragment, which has no header of TCP or UDP.
    fn first_fragment(&mut self, no: Label) {
        self.plain(code::LOAD_HALF, self.ip() + field::V4_FRAGMENT);
        self.or_else(code::IF_ANY_BIT, LATER_FRAGMENT, no);
    }

    fn net(&mut self, ends: Ends, offsets: [u32; 2], words: &[u32], bits: u8, yes: Label, no: Label) {
        let offsets = match ends {
            Ends::Source => &offsets[..1],
            Ends::Destination => &offsets[1..],
            Ends::Either => &offsets[..],
        };
        for offset in offsets {
            let other = self.label();
            for (index, word) in (0..).zip(words) {
                let bits = u32::from(bits).saturating_sub(index * 32).min(32);
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                self.plain(code::LOAD_WORD, self.ip() + offset + index * 4);
                self.plain(code::AND, mask);
                self.unless(code::IF_EQUAL, word & mask, other);
            }
            self.go(yes);
            self.here(other);
        }
        self.go(no);
    }

    /// Ends with how many bytes are kept.
    fn keep(&mut self, keep: Keep) {
        let Keep { snap_bytes, payload_bytes } = keep;
        let plain = self.label();
        if let Some(payload_bytes) = payload_bytes {
            let [not_v4, computed] = [self.label(), self.label()];
            self.version(4, not_v4);
            self.protocol(field::V4_PROTOCOL, &[TCP], plain);
            self.first_fragment(plain);
            // X is where the length of the TCP header stands, if the packet is that long.
            self.plain(code::LOAD_X_HEADER, self.ip());
            self.plain(code::X_TO_A, 0);
            self.plain(code::ADD, self.ip() + field::TCP_LEN);
            self.plain(code::A_TO_X, 0);
            self.plain(code::LOAD_LEN, 0);
            self.unless(code::IF_ABOVE_X, 0, plain);
            self.plain(code::LOAD_BYTE_AT_X, 0);
            self.tcp_len();
            self.plain(code::ADD_X, 0);
            // Two's complement: the sum never falls below zero here.
            self.plain(code::ADD, payload_bytes.wrapping_sub(field::TCP_LEN));
            self.go(computed);
            self.here(not_v4);
            self.version(6, plain);
            self.protocol(field::V6_PROTOCOL, &[TCP], plain);
            let at = self.ip() + field::V6_LEN;
            self.plain(code::LOAD_LEN, 0);
            self.unless(code::IF_ABOVE, at + field::TCP_LEN, plain);
            self.plain(code::LOAD_BYTE, at + field::TCP_LEN);
            self.tcp_len();
            self.plain(code::ADD, at + payload_bytes);
            self.here(computed);
            self.unless(code::IF_LEAST, snap_bytes, plain);
            self.plain(code::KEEP_A, 0);
        }
        self.here(plain);
        self.plain(code::KEEP, snap_bytes);
    }

    /// A is the byte with the length of the TCP header, and becomes that in bytes.
    fn tcp_len(&mut self) {
        self.plain(code::SHIFT_RIGHT, 2);
        self.plain(code::AND, 0x3c);
    }

    fn finish(self) -> Vec<Instruction> {
        let steps = self.steps.iter().enumerate();
        steps
            .map(|(at, step)| match *step {
                Step::Plain(instruction) => instruction,
                Step::Go(to) => {
                    let operand = (self.places[to.0] - (at + 1)) as u32;
                    Instruction { code: code::GO, jump_true: 0, jump_false: 0, operand }
                }
            })
            .collect()
    }
}
