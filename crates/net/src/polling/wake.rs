//! Waking a reactor from another thread: an eventfd that both sides share.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use crate::syscall::check;

/// A wake-up channel; clones wake the same sleeper.
#[derive(Clone, Debug)]
pub struct Wake {
    file: Arc<File>,
}

impl Wake {
    /// Creates a channel without a pending wake-up.
    pub fn new() -> io::Result<Wake> {
        // SAFETY: no pointers are passed.
        let raw = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: the kernel has just returned this descriptor, which has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok(Wake { file: Arc::new(File::from(fd)) })
    }

    /// Makes the sleeper's descriptor readable. Several calls before its next turn count as one.
    pub fn wake(&self) {
        // A full counter means that a wake-up is pending already.
        let _ = (&*self.file).write(&1u64.to_ne_bytes());
    }

    /// Clears pending wake-ups, so that the descriptor is not readable.
    pub fn clear(&self) {
        let _ = (&*self.file).read(&mut [0; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Events, Interest, Poll};
    use std::time::Duration;

    #[test]
    fn wakes_once_for_many_calls() {
        let wake = Wake::new().unwrap();
        let poll = Poll::new().unwrap();
        let mut events = Events::new();
        let mut tokens = |timeout| {
            poll.wait(&mut events, timeout).unwrap();
            events.iter().map(|ready| ready.token).collect::<Vec<_>>()
        };
        poll.add(wake.as_fd(), 7, Interest::READ).unwrap();
        assert_eq!(tokens(Some(Duration::ZERO)), [0; 0]);
        wake.wake();
        wake.clone().wake();
        assert_eq!(tokens(None), [7]);
        wake.clear();
        assert_eq!(tokens(Some(Duration::ZERO)), [0; 0]);
    }
}
