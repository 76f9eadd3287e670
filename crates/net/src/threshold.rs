//! Forgetting the slow-start threshold of a connection, so that its window doubles again each round trip.
//!
//! The kernel has no call for that. It lets programs of its own set the threshold, though (TCP_BPF_SNDCWND_CLAMP in
//! net/core/filter.c, which sets it together with a bound of the window), and run when an option of a socket is set: so who
//! may attach programs gives the sockets of this process an option more. It is attached when it is needed for the first
//! time, does nothing for any other option, and is gone with the process.
//!
//! Who may not has BBR for a moment, which begins without a threshold (bbr_init in net/ipv4/tcp_bbr.c). What the
//! connection had before begins anew after that, with the window as it is, and is paced by the kernel from then on. For a
//! connection that is paced anyway this is the better way: CUBIC looks for the end of slow start (HyStart) once, and then
//! does so again.

use std::io;
use std::net::TcpStream;
use std::sync::OnceLock;

use crate::bpf::{Instruction, OnSetOption};
use crate::congestion::{BBR, check_congestion, congestion, set_congestion};
use crate::tcp;

/// The option: a level that no protocol has.
const LEVEL: i32 = i32::from_be_bytes(*b"frln");
const FORGET: i32 = 1;
/// TCP_INFINITE_SSTHRESH in net/tcp.h.
const NO_THRESHOLD: i32 = i32::MAX;
// linux/bpf.h
const TCP_BPF_SNDCWND_CLAMP: i32 = 1002;
const CALL_SETSOCKOPT: i32 = 49;

/// Forgets the threshold of a connection.
pub fn forget(stream: &TcpStream) -> io::Result<()> {
    if is_free() { tcp::set(stream, LEVEL, FORGET, 0_i32) } else { begin_again(stream) }
}

/// Forgets it, and has the congestion control begin anew: the connection is paced from now on, if it was not.
pub fn begin_again(stream: &TcpStream) -> io::Result<()> {
    let own = congestion(stream)?;
    // It has no threshold, and where it cannot be left again it is not for us.
    if own == BBR {
        return Ok(());
    }
    check_congestion(&own)?;
    set_congestion(stream, BBR)?;
    set_congestion(stream, &own)
}

/// Whether nothing else changes for a connection whose threshold is forgotten: it is not paced for it.
pub fn is_free() -> bool {
    static OPTION: OnceLock<Option<OnSetOption>> = OnceLock::new();
    OPTION.get_or_init(|| OnSetOption::attach(&program(), c"MIT").ok()).is_some()
}

/// What the option does. Other options are the kernel's as ever; of this one it hears nothing.
fn program() -> [Instruction; 25] {
    // struct bpf_sockopt: the socket, and of what is asked the level, the name and the length.
    const SOCKET: i16 = 0;
    const ASKED_LEVEL: i16 = 24;
    const ASKED_NAME: i16 = 28;
    const LENGTH: i16 = 32;
    const HANDLED: i32 = -1;
    const PAGE_BYTES: i32 = 4096;
    const STACK: u8 = 10;
    [
        copy(6, 1),
        // Before Linux 6.5 what is longer than a page has to be said to be as it was, or the call fails: 0 says so.
        load_word(2, 6, LENGTH),
        skip_if_at_most(2, PAGE_BYTES, 2),
        set(1, 0),
        store_word(6, LENGTH, 1),
        set(0, 1),
        load_word(2, 6, ASKED_LEVEL),
        skip_unless(2, LEVEL, 16),
        load_word(2, 6, ASKED_NAME),
        skip_unless(2, FORGET, 14),
        load_address(1, 6, SOCKET),
        put_word(STACK, -8, NO_THRESHOLD),
        set(2, libc::IPPROTO_TCP),
        set(3, TCP_BPF_SNDCWND_CLAMP),
        copy(4, STACK),
        add(4, -8),
        set(5, 4),
        op(0x85, 0, 0, 0, CALL_SETSOCKOPT),
        set(1, HANDLED),
        store_word(6, LENGTH, 1),
        // 1 lets it pass; what TCP refuses is not permitted.
        copy(1, 0),
        set(0, 0),
        skip_unless(1, 0, 1),
        set(0, 1),
        op(0x95, 0, 0, 0, 0),
    ]
}

const fn op(code: u8, to: u8, from: u8, offset: i16, value: i32) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset, value }
}

const fn copy(to: u8, from: u8) -> Instruction {
    op(0xbf, to, from, 0, 0)
}

const fn set(to: u8, value: i32) -> Instruction {
    op(0xb7, to, 0, 0, value)
}

const fn add(to: u8, value: i32) -> Instruction {
    op(0x07, to, 0, 0, value)
}

const fn load_word(to: u8, from: u8, offset: i16) -> Instruction {
    op(0x61, to, from, offset, 0)
}

const fn load_address(to: u8, from: u8, offset: i16) -> Instruction {
    op(0x79, to, from, offset, 0)
}

const fn put_word(to: u8, offset: i16, value: i32) -> Instruction {
    op(0x62, to, 0, offset, value)
}

const fn store_word(to: u8, offset: i16, from: u8) -> Instruction {
    op(0x63, to, from, offset, 0)
}

/// Skips so many instructions unless a register holds `value`.
const fn skip_unless(register: u8, value: i32, instructions: i16) -> Instruction {
    op(0x55, register, 0, instructions, value)
}

/// Skips so many instructions if a register holds `value` or less.
const fn skip_if_at_most(register: u8, value: i32, instructions: i16) -> Instruction {
    op(0xb5, register, 0, instructions, value)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Whether the window doubles after that is seen on a path (`wan/tests/path.rs`); here, that nothing else changes.
    #[test]
    fn a_threshold_is_forgotten_and_the_rest_stays() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for name in ["reno", "bbr"] {
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut far, _) = listener.accept().unwrap();
            // Not every kernel has BBR; then nothing is forgotten either.
            if set_congestion(&near, name).is_err() {
                continue;
            }
            let _ = forget(&near);
            let _ = begin_again(&near);
            assert_eq!(congestion(&near).unwrap(), name);
            io::Write::write_all(&mut near, b"word").unwrap();
            let mut word = [0; 4];
            io::Read::read_exact(&mut far, &mut word).unwrap();
            assert_eq!(&word, b"word");
        }
    }

    /// Where the option is there, others with that number are none, and what TCP has is as it was.
    #[test]
    fn the_option_is_one_more_and_changes_no_other() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(forget(&near).is_ok(), is_free() || check_congestion(BBR).is_ok());
        assert!(tcp::set(&near, LEVEL, FORGET + 1, 0_i32).is_err());
        tcp::set_max_pacing_rate(&near, 1_000_000).unwrap();
        tcp::set_notsent_lowat(&near, 131_072).unwrap();
        near.set_nodelay(true).unwrap();
        assert!(near.nodelay().unwrap());
        // The kernel takes the first word of it.
        let long = [1_i32; 2048];
        tcp::set(&near, libc::SOL_SOCKET, libc::SO_KEEPALIVE, long).unwrap();
        assert_eq!(tcp::get(&near, libc::SO_KEEPALIVE).unwrap(), 1);
    }
}
