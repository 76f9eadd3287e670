//! What the system allows this process: open files.
#![allow(unsafe_code)]

use std::io;

use crate::syscall::check;

/// Raises the soft limit of open files to the hard one and returns it. The soft one is small by custom (1024)
/// for the sake of programs that use `select`, which nothing here does.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the kernel to write one rlimit to.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` is valid for the call.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    }
    Ok(limit.rlim_cur)
}
