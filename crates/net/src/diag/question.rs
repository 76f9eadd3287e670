//! Requests of sock_diag(7): `struct inet_diag_req_v2` of linux/inet_diag.h, with a filter in searches.

use crate::device::rtnetlink::{NLM_F_DUMP, NLM_F_REQUEST, attribute, message};

use super::connection::{ID_BYTES, SocketId};

/// Message type of a request and of its response.
pub(super) const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// Mask of the TCP states ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT.
pub(super) const STANDING: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8;
/// LISTEN.
pub(super) const LISTENING: u32 = 1 << 10;

const INET_DIAG_REQ_BYTECODE: u16 = 1;
const BC_JMP: u8 = 1;
const BC_S_EQ: u8 = 11;
const BC_D_EQ: u8 = 12;
/// `struct inet_diag_bc_op`.
const OP_BYTES: u16 = 4;

/// Address families.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) const fn number(self) -> u8 {
        match self {
            Family::V4 => libc::AF_INET as u8,
            Family::V6 => libc::AF_INET6 as u8,
        }
    }
}

/// Attributes of a response besides addresses: one bit for each, its number less one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extras(u8);

impl Extras {
    /// TCP_INFO.
    pub(super) const INFO: Extras = Extras(1 << 1);
    /// TCP_INFO, statistics of the congestion control (requested by the number of Vegas), its name, and the buffers.
    pub(super) const ALL: Extras = Extras(1 << 1 | 1 << 2 | 1 << 3 | 1 << 6);
}

/// Requests all sockets in one of `states` with one of `ports` at either end.
pub(super) fn search(question: &mut Vec<u8>, family: Family, ports: &[u16], states: u32, sequence: u32) {
    message(question, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, sequence, |body| {
        request(body, family.number(), Extras::ALL, states, &[0; ID_BYTES]);
        attribute(body, INET_DIAG_REQ_BYTECODE, &filter(ports));
    });
}

/// Requests one socket.
pub(super) fn one(question: &mut Vec<u8>, id: &SocketId, extras: Extras, sequence: u32) {
    message(question, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, sequence, |body| {
        request(body, id.family, extras, u32::MAX, &id.id);
    });
}

fn request(body: &mut Vec<u8>, family: u8, extras: Extras, states: u32, id: &[u8; ID_BYTES]) {
    body.extend([family, libc::IPPROTO_TCP as u8, extras.0, 0]);
    body.extend(states.to_ne_bytes());
    body.extend(id);
}

/// Bytecode that accepts any of `ports` at either end. A comparison that holds continues with a jump to the end, which
/// accepts; otherwise it skips that jump. The last skip goes beyond the end, which rejects.
fn filter(ports: &[u16]) -> Vec<u8> {
    let comparisons = ports.iter().flat_map(|port| [(BC_S_EQ, *port), (BC_D_EQ, *port)]);
    let mut left = 2 * ports.len() as u16;
    let mut program = Vec::new();
    for (code, port) in comparisons {
        left -= 1;
        op(&mut program, code, 2 * OP_BYTES as u8, 3 * OP_BYTES);
        op(&mut program, 0, 0, port);
        if left > 0 {
            op(&mut program, BC_JMP, OP_BYTES as u8, OP_BYTES + left * 3 * OP_BYTES - OP_BYTES);
        }
    }
    program
}

fn op(program: &mut Vec<u8>, code: u8, yes: u8, no: u16) {
    program.extend([code, yes]);
    program.extend(no.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executes bytecode as the kernel does (net/ipv4/inet_diag.c): it accepts exactly at the end.
    fn run(program: &[u8], sport: u16, dport: u16) -> bool {
        let (mut at, end) = (0usize, program.len());
        let word = |at: usize| u16::from_ne_bytes([program[at + 2], program[at + 3]]);
        while at < end {
            let holds = match program[at] {
                BC_JMP => false,
                BC_S_EQ => sport == word(at + 4),
                BC_D_EQ => dport == word(at + 4),
                other => panic!("what is {other}?"),
            };
            at += if holds { usize::from(program[at + 1]) } else { usize::from(word(at)) };
        }
        at == end
    }

    #[test]
    fn a_port_counts_at_either_end() {
        for ports in [&[3260][..], &[3260, 3261], &[860, 3260, 5000]] {
            let program = filter(ports);
            for port in ports {
                assert!(run(&program, *port, 40_000) && run(&program, 40_000, *port), "{ports:?} {port}");
            }
            assert!(!run(&program, 22, 40_000) && !run(&program, 40_000, 22), "{ports:?}");
        }
    }

    #[test]
    fn the_layout_is_that_of_the_kernel() {
        let id = SocketId { family: 2, id: [0xa5; ID_BYTES] };
        let mut question = Vec::new();
        one(&mut question, &id, Extras::INFO, 7);
        one(&mut question, &id, Extras::INFO, 8);
        assert_eq!(question.len(), 2 * (16 + 56));
        assert_eq!(question[..4], 72u32.to_ne_bytes());
        assert_eq!(question[16..20], [2, 6, 2, 0]);
        assert_eq!(question[72 + 8..72 + 12], 8u32.to_ne_bytes());
    }
}
