//! Kernel timestamps of a socket's sent and received data: software timestamps of SO_TIMESTAMPING (the kernel's
//! Documentation/networking/timestamping.rst).
//!
//! `datagram` is UDP, `stream` is TCP; this file has the common part. Timestamps are on CLOCK_REALTIME: differences
//! between sockets of one machine are exact, and [`crate::clock::Realtime`] converts them to the clock of all other
//! times.
#![allow(unsafe_code)]

mod datagram;
mod stream;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::syscall::check;

pub use datagram::StampedSocket;
pub use stream::{Mile, Milestone, collect, request, send};

// linux/net_tstamp.h
const TX_SOFTWARE: u32 = 1 << 1;
const RX_SOFTWARE: u32 = 1 << 3;
const SOFTWARE: u32 = 1 << 4;
const OPT_ID: u32 = 1 << 7;
const TX_SCHED: u32 = 1 << 8;
const TX_ACK: u32 = 1 << 9;
const OPT_TSONLY: u32 = 1 << 11;
const OPT_ID_TCP: u32 = 1 << 16;
/// struct sock_extended_err (linux/errqueue.h): errno, origin, type, code, pad, info, data.
const ERROR_ORIGIN_AT: usize = 4;
const ERROR_CODE_AT: usize = 6;
const ERROR_INFO_AT: usize = 8;
const ERROR_DATA_AT: usize = 12;

/// Nanoseconds on CLOCK_REALTIME.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stamp(pub u64);

/// Decoded control messages.
#[derive(Default)]
pub(crate) struct Said {
    stamp: Option<Stamp>,
    /// Origin and code of an error queue message: `ee_origin` and `ee_code`.
    pub(crate) origin: u8,
    pub(crate) code: u8,
    /// Kind of the timestamp and number of its subject: `ee_info` and `ee_data`.
    pub(crate) kind: u32,
    pub(crate) number: Option<u32>,
}

impl Said {
    /// Decodes the control messages of `message`.
    pub(crate) fn of(message: &libc::msghdr) -> Said {
        let mut said = Said::default();
        // SAFETY: the kernel has filled in the control messages and said in `message` how many bytes they are.
        let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
        while !at.is_null() {
            // SAFETY: `at` is a header among them, and its data follow it there.
            let (header, data) = unsafe { (at.read_unaligned(), libc::CMSG_DATA(at)) };
            // The type of the field differs between C libraries.
            let whole: usize = header.cmsg_len as _;
            let len = whole.saturating_sub(size_of::<libc::cmsghdr>());
            // SAFETY: the kernel wrote `len` bytes of data behind this header.
            said.take(header.cmsg_level, header.cmsg_type, unsafe { std::slice::from_raw_parts(data, len) });
            // SAFETY: both point into control messages that the kernel has filled in.
            at = unsafe { libc::CMSG_NXTHDR(message, at) };
        }
        said
    }

    fn take(&mut self, level: libc::c_int, kind: libc::c_int, data: &[u8]) {
        let word = |at: usize| data.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => self.stamp = stamp(data),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                self.origin = data.get(ERROR_ORIGIN_AT).copied().unwrap_or_default();
                self.code = data.get(ERROR_CODE_AT).copied().unwrap_or_default();
                self.kind = word(ERROR_INFO_AT).unwrap_or_default();
                self.number = word(ERROR_DATA_AT);
            }
            _ => {}
        }
    }
}

/// struct scm_timestamping begins with the software timestamp as a timespec; zero means that there is none.
fn stamp(data: &[u8]) -> Option<Stamp> {
    let word = |at: usize| data.get(at..at + 8)?.try_into().ok().map(i64::from_ne_bytes);
    let ns = u64::try_from(word(0)?).ok()? * 1_000_000_000 + u64::try_from(word(8)?).ok()?;
    (ns > 0).then_some(Stamp(ns))
}

/// Sets the flags of SO_TIMESTAMPING.
fn set(socket: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
    // SAFETY: the value is one int, as SO_TIMESTAMPING wants it, and lives until the call returns.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of_val(&flags) as libc::socklen_t,
        )
    })
    .map(drop)
}
