//! Zero-copy transmission (MSG_ZEROCOPY, the kernel's Documentation/networking/msg_zerocopy.rst).
//!
//! The kernel reads the sender's memory until it reports completion in the error queue; bytes changed before that may
//! arrive changed. The report says whether the kernel has copied the bytes after all, as it does if it is also the
//! receiver (loopback, veth, TUN): zero copy then only costs time.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use crate::stamps::Said;
use crate::syscall::check;

// linux/errqueue.h
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;
/// Length of an extended error with an address and its header is 64 bytes.
const CONTROL_BYTES: usize = 128;

/// Aligned buffer for control messages.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Completed zero-copy sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// Number of [`send`] calls.
    pub sends: u64,
    /// Number of calls whose bytes were copied after all.
    pub copied: u64,
}

/// Enables zero-copy sends on the socket. Kernels before 4.14 do not support it.
pub fn enable(stream: &TcpStream) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the value is one int, as SO_ZEROCOPY wants it, and lives until the call returns.
    check(unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ZEROCOPY,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Sends as much of `bytes` as the socket accepts. Fails with ENOBUFS if the outstanding sends exceed
/// `net.core.optmem_max` or the limit of locked memory (RLIMIT_MEMLOCK).
pub fn send(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let how = libc::MSG_ZEROCOPY | libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the kernel reads no more than `bytes`. It may do so after the call too, but holds the pages for that: a
    // later change of the memory only affects the bytes that arrive.
    let sent = unsafe { libc::send(stream.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), how) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// Returns true if [`send`] failed because the kernel cannot keep track of more outstanding sends.
pub fn has_no_room(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Empties the error queue and returns the sends completed since the last call.
pub fn done(stream: &TcpStream) -> io::Result<Done> {
    let mut total = Done::default();
    loop {
        let mut control = Control([0; CONTROL_BYTES]);
        // SAFETY: an all-zero msghdr is a valid one.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = CONTROL_BYTES as _;
        let how = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: `message` points to `control`, which lives until the call returns and is as long as is said.
        let got = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, how) };
        if got < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(total) } else { Err(error) };
        }
        let said = Said::of(&message);
        if let (ORIGIN_ZEROCOPY, Some(last)) = (said.origin, said.number) {
            // A message reports a range of send numbers, which wrap.
            let sends = u64::from(last.wrapping_sub(said.kind)) + 1;
            total.sends += sends;
            total.copied += if said.code == CODE_COPIED { sends } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::*;
    use crate::{Events, Interest, Poll};

    #[test]
    fn over_loopback_it_is_told_that_everything_was_copied() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(loopback).unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            enable(&stream).unwrap();
            assert_eq!(done(&stream).unwrap(), Done::default());
            let bytes = vec![7; 16 << 10];
            let mut received = vec![0; bytes.len()];
            for _ in 0..3 {
                assert_eq!(send(&stream, &bytes).unwrap(), bytes.len());
                peer.read_exact(&mut received).unwrap();
                assert_eq!(received, bytes);
            }
            let (poll, mut events) = (Poll::new().unwrap(), Events::new());
            poll.add(stream.as_fd(), 0, Interest { readable: false, writable: false }).unwrap();
            let mut total = Done::default();
            while total.sends < 3 {
                poll.wait(&mut events, Some(Duration::from_secs(60))).unwrap();
                let ready = events.iter().next().expect("the kernel tells within a minute");
                assert!(ready.has_error && ready.is_sound());
                let more = done(&stream).unwrap();
                total = Done { sends: total.sends + more.sends, copied: total.copied + more.copied };
            }
            assert_eq!(total, Done { sends: 3, copied: 3 });
        }
    }
}
