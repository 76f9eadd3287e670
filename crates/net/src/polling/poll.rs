//! Waiting for many sockets at once: a level-triggered epoll set with a `u64` token per member.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::syscall::check;

/// Events of interest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interest {
    /// Data, a connection or a hang-up has arrived.
    pub readable: bool,
    /// The send buffer has room.
    pub writable: bool,
}

impl Interest {
    /// Only reading.
    pub const READ: Interest = Interest { readable: true, writable: false };
    /// Only writing.
    pub const WRITE: Interest = Interest { readable: false, writable: true };

    fn bits(self) -> u32 {
        let read = if self.readable { libc::EPOLLIN | libc::EPOLLRDHUP } else { 0 };
        let write = if self.writable { libc::EPOLLOUT } else { 0 };
        (read | write) as u32
    }
}

/// One member that is ready.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Token of the member.
    pub token: u64,
    /// Reading does not block: data, end of stream or an error are pending.
    pub readable: bool,
    /// Writing will not block.
    pub writable: bool,
    /// An error is pending, or an error queue message: see [`Ready::is_sound`].
    pub has_error: bool,
    bits: u32,
}

impl Ready {
    /// Returns true if the connection is alive: an error event of a live TCP connection can only be its error queue,
    /// since any other error ends the connection.
    pub fn is_sound(self) -> bool {
        self.bits & libc::EPOLLHUP as u32 == 0
    }

    /// Returns true if the other end sends no more: its stream has ended, perhaps behind bytes that were not read.
    pub fn is_closed(self) -> bool {
        self.bits & (libc::EPOLLRDHUP | libc::EPOLLHUP) as u32 != 0
    }

    /// The readiness without the error queue, which has been emptied.
    pub fn without_error(self) -> Ready {
        Ready::new(self.token, self.bits & !(libc::EPOLLERR as u32))
    }

    fn new(token: u64, bits: u32) -> Ready {
        let broken = bits & (libc::EPOLLERR | libc::EPOLLHUP) as u32 != 0;
        Ready {
            token,
            readable: broken || bits & (libc::EPOLLIN | libc::EPOLLRDHUP) as u32 != 0,
            writable: broken || bits & libc::EPOLLOUT as u32 != 0,
            has_error: bits & libc::EPOLLERR as u32 != 0,
            bits,
        }
    }
}

/// An epoll set.
#[derive(Debug)]
pub struct Poll {
    fd: OwnedFd,
}

/// Buffer for the events of one wait.
pub struct Events {
    raw: Vec<libc::epoll_event>,
}

impl Events {
    /// Allocates the buffer.
    pub fn new() -> Events {
        Events { raw: Vec::with_capacity(BATCH) }
    }

    /// Events of the last wait.
    pub fn iter(&self) -> impl Iterator<Item = Ready> + '_ {
        self.raw.iter().map(|event| Ready::new(event.u64, event.events))
    }
}

impl Default for Events {
    fn default() -> Events {
        Events::new()
    }
}

const BATCH: usize = 256;

impl AsFd for Poll {
    /// An epoll set is readable when one of its members is ready, so it can be a member of another one.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Poll {
    /// Creates an empty set.
    pub fn new() -> io::Result<Poll> {
        // SAFETY: no pointers are passed.
        let raw = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel has just returned this descriptor, which has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok(Poll { fd })
    }

    /// Adds a member.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Changes the events of interest of a member.
    pub fn modify(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    /// Like [`Poll::modify`]; the end of the other end's stream is an event also while reading is off.
    pub fn modify_or_closed(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control_bits(libc::EPOLL_CTL_MOD, fd, token, interest.bits() | libc::EPOLLRDHUP as u32)
    }

    /// Removes a member; closing the last descriptor of a socket does so too.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest { readable: false, writable: false })
    }

    /// Waits until something is ready or `timeout` has passed (`None`: for ever), at the resolution of the kernel's
    /// timers. A signal ends the wait with nothing ready.
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.raw.clear();
        let ts = timeout.map(|t| libc::timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        let ts_ptr = ts.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: `events.raw` has room for BATCH entries, `ts_ptr` is null or points to `ts`, which lives
        // until the call returns, and no signal mask is given.
        let result = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                events.raw.as_mut_ptr(),
                BATCH as libc::c_int,
                ts_ptr,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        let count = match check(result as libc::c_int) {
            Ok(count) => count as usize,
            // A sandbox that does not know the call reports EPERM.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                self.wait_by_ppoll(events, ts_ptr)?
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        // SAFETY: the kernel has filled in the first `count` entries, and `count` is at most BATCH.
        unsafe { events.raw.set_len(count) };
        Ok(())
    }

    /// The same in two calls: for kernels before 5.11, which lack `epoll_pwait2`, for sandboxes that forbid it, and for
    /// valgrind.
    #[cold]
    fn wait_by_ppoll(&self, events: &mut Events, timeout: *const libc::timespec) -> io::Result<usize> {
        let epoll = self.fd.as_raw_fd();
        let mut set = libc::pollfd { fd: epoll, events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd is given, `timeout` is null or points to a timespec that outlives the call, and no mask is
        // given.
        let ready = check(unsafe { libc::ppoll(&raw mut set, 1, timeout, std::ptr::null()) });
        match ready {
            Ok(0) => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
            other => other?,
        };
        // SAFETY: `events.raw` has room for BATCH entries.
        let count =
            check(unsafe { libc::epoll_wait(epoll, events.raw.as_mut_ptr(), BATCH as libc::c_int, 0) })?;
        Ok(count as usize)
    }

    fn control(&self, op: libc::c_int, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control_bits(op, fd, token, interest.bits())
    }

    fn control_bits(&self, op: libc::c_int, fd: BorrowedFd<'_>, token: u64, bits: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: bits, u64: token };
        // SAFETY: both descriptors are open and `event` is valid for the length of the call.
        check(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), op, fd.as_raw_fd(), &mut event) })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_end_of_a_stream_shows_while_reading_is_off() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let (poll, mut events) = (Poll::new().unwrap(), Events::new());
        let nothing = Interest { readable: false, writable: false };
        poll.add(there.as_fd(), 7, Interest::READ).unwrap();
        poll.modify_or_closed(there.as_fd(), 7, nothing).unwrap();
        here.write_all(b"x").unwrap();
        poll.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert_eq!(events.iter().count(), 0, "bytes are no event");
        here.shutdown(std::net::Shutdown::Write).unwrap();
        poll.wait(&mut events, None).unwrap();
        let ready: Vec<Ready> = events.iter().collect();
        assert!(ready.len() == 1 && ready[0].is_closed() && ready[0].is_sound(), "{ready:?}");
    }

    #[test]
    fn without_its_own_call_it_waits_by_another() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let (poll, mut events) = (Poll::new().unwrap(), Events::new());
        poll.add(there.as_fd(), 7, Interest::READ).unwrap();
        let none = libc::timespec { tv_sec: 0, tv_nsec: 1 };
        assert_eq!(poll.wait_by_ppoll(&mut events, &raw const none).unwrap(), 0);
        here.write_all(b"x").unwrap();
        assert_eq!(poll.wait_by_ppoll(&mut events, std::ptr::null()).unwrap(), 1);
    }
}
