//! Signals of users that end a program, received through a descriptor (signalfd(2)).
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};

use crate::syscall::check;

/// SIGINT, SIGTERM and SIGHUP, which no longer end the process.
#[derive(Debug)]
pub struct EndSignals {
    file: File,
}

/// Request of a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// SIGINT or SIGTERM.
    End,
    /// SIGHUP: the terminal has hung up, or a service should reload its configuration.
    Hangup,
}

impl EndSignals {
    /// Blocks the signals and receives them from now on. Call it before any thread starts: threads inherit the mask,
    /// and so do child processes that are not started by [`crate::process::child`].
    pub fn take_over() -> io::Result<EndSignals> {
        // SAFETY: an all-zero set is a valid place for sigemptyset to fill.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is a signal set in all calls; the old mask is not requested.
        let raw = unsafe {
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&raw mut set, signal);
            }
            check(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))?;
            check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?
        };
        // SAFETY: the kernel has just returned this descriptor, which has no other owner.
        Ok(EndSignals { file: unsafe { File::from_raw_fd(raw) } })
    }

    /// Returns true if a signal has arrived since the last call.
    pub fn came(&self) -> bool {
        self.take().is_some()
    }

    /// The next pending signal.
    pub fn take(&self) -> Option<Signal> {
        // struct signalfd_siginfo begins with the signal's number.
        let mut info = [0; 128];
        (&self.file).read_exact(&mut info).ok()?;
        let number = i32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
        Some(if number == libc::SIGHUP { Signal::Hangup } else { Signal::End })
    }
}

impl AsFd for EndSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
