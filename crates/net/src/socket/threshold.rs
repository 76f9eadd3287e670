//! Reset of a connection's slow-start threshold, so that its congestion window doubles again each round trip.
//!
//! The kernel has no call for a reset. A BPF program may set the threshold, together with a clamp of the window
//! (TCP_BPF_SNDCWND_CLAMP in net/core/filter.c), when a socket option is set. A process that may attach programs
//! therefore adds a socket option for its own sockets. The program is attached at the first use, does nothing for any
//! other option, and is removed with the process.
//!
//! Without that privilege the connection switches to BBR for a moment, which starts without a threshold (bbr_init in
//! net/ipv4/tcp_bbr.c). The previous congestion control then starts anew with the current window, and the kernel paces
//! the connection from then on. For a connection that is paced anyway this is better: CUBIC detects the end of slow
//! start (HyStart) only once, and does so again after the switch.

use std::io;
use std::net::TcpStream;
use std::sync::OnceLock;

use crate::socket::bpf::{Instruction, OnSetOption};
use crate::socket::congestion::{BBR, check_congestion, congestion, set_congestion};
use crate::socket::tcp;

/// The added option: a level that no protocol uses.
const LEVEL: i32 = i32::from_be_bytes(*b"frln");
const FORGET: i32 = 1;
/// TCP_INFINITE_SSTHRESH in net/tcp.h.
const NO_THRESHOLD: i32 = i32::MAX;
// linux/bpf.h
const TCP_BPF_SNDCWND_CLAMP: i32 = 1002;
const CALL_SETSOCKOPT: i32 = 49;

/// Resets the threshold of a connection.
pub fn forget(stream: &TcpStream) -> io::Result<()> {
    if is_free() { tcp::set(stream, LEVEL, FORGET, 0_i32) } else { begin_again(stream) }
}

/// Resets the threshold and restarts the congestion control; the connection is paced from now on.
pub fn begin_again(stream: &TcpStream) -> io::Result<()> {
    let own = congestion(stream)?;
    // BBR has no threshold, and a connection that cannot leave BBR is left alone.
    if own == BBR {
        return Ok(());
    }
    check_congestion(&own)?;
    set_congestion(stream, BBR)?;
    set_congestion(stream, &own)
}

/// Returns true if a reset has no side effect, such as pacing of the connection.
pub fn is_free() -> bool {
    static OPTION: OnceLock<Option<OnSetOption>> = OnceLock::new();
    OPTION.get_or_init(|| OnSetOption::attach(&program(), c"MIT").ok()).is_some()
}

/// Program of the option. Other options pass to the kernel unchanged; the kernel never sees this one.
fn program() -> [Instruction; 25] {
    // struct bpf_sockopt: the socket, and the level, name and length of the option.
    const SOCKET: i16 = 0;
    const ASKED_LEVEL: i16 = 24;
    const ASKED_NAME: i16 = 28;
    const LENGTH: i16 = 32;
    const HANDLED: i32 = -1;
    const PAGE_BYTES: i32 = 4096;
    const STACK: u8 = 10;
    [
        copy(6, 1),
        // Before Linux 6.5 an option longer than a page must be declared unchanged, by 0, or the call fails.
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
        // 1 passes the option to the kernel; a failure of TCP is reported as EPERM.
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

/// Skips `instructions` instructions unless the register holds `value`.
const fn skip_unless(register: u8, value: i32, instructions: i16) -> Instruction {
    op(0x55, register, 0, instructions, value)
}

/// Skips `instructions` instructions if the register holds at most `value`.
const fn skip_if_at_most(register: u8, value: i32, instructions: i16) -> Instruction {
    op(0xb5, register, 0, instructions, value)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// The unchanged rest of the connection's state; a doubling window needs a path (`wan/tests/path.rs`).
    #[test]
    fn a_threshold_is_forgotten_and_the_rest_stays() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for name in ["reno", "bbr"] {
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut far, _) = listener.accept().unwrap();
            // Without BBR in the kernel there is no reset by a switch either.
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

    /// The added option leaves other options of the same number, and options of TCP, unchanged.
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
        // The kernel reads the first word only.
        let long = [1_i32; 2048];
        tcp::set(&near, libc::SOL_SOCKET, libc::SO_KEEPALIVE, long).unwrap();
        assert_eq!(tcp::get(&near, libc::SO_KEEPALIVE).unwrap(), 1);
    }
}
