//! Waiting for a few descriptors with a timeout in nanoseconds (epoll's is in milliseconds), or not at all.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::syscall::check;

/// Waits until one of `fds` is readable or closed, `timeout` has passed, or a signal arrives; returns the readable
/// ones.
pub fn readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut set = fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let limit = timeout.map(|time| libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: libc::c_long::from(time.subsec_nanos() as i32),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `set` has N entries, `limit` is null or a timespec that outlives the call, no mask is given.
    match check(unsafe { libc::ppoll(set.as_mut_ptr(), N as libc::nfds_t, limit, std::ptr::null()) }) {
        Ok(_) => Ok(set.map(|member| member.revents != 0)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok([false; N]),
        Err(error) => Err(error),
    }
}

/// Returns true if a write of up to 4096 bytes does not block: on a pipe or socket with room, always on a file, and
/// also after the reader is gone, with an error.
pub fn takes(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut member = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry, which outlives the call.
    check(unsafe { libc::poll(&raw mut member, 1, 0) })?;
    Ok(member.revents != 0)
}
