//! The signals by which users end a program, as a descriptor to wait for (signalfd(2)).
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};

use crate::syscall::check;

/// SIGINT, SIGTERM and SIGHUP, taken instead of ending the process.
#[derive(Debug)]
pub struct EndSignals {
    file: File,
}

impl EndSignals {
    /// Takes the signals from now on. Call it before any thread starts: threads inherit what is taken, and
    /// so do children that are not started by [`crate::child`].
    pub fn take_over() -> io::Result<EndSignals> {
        // SAFETY: an all-zero set is a valid place for sigemptyset to fill.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is a signal set in all calls; the old mask is not asked for.
        let raw = unsafe {
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&raw mut set, signal);
            }
            check(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))?;
            check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?
        };
        // SAFETY: the kernel just gave us this descriptor and nobody else owns it.
        Ok(EndSignals { file: unsafe { File::from_raw_fd(raw) } })
    }

    /// Whether one has come since the last call.
    pub fn came(&self) -> bool {
        // struct signalfd_siginfo; which of the signals it was makes no difference.
        (&self.file).read(&mut [0; 128]).is_ok()
    }
}

impl AsFd for EndSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
