//! What this process has of the system: open files, memory.
#![allow(unsafe_code)]

use std::io;

use crate::syscall::check;

/// Raises the soft limit of open files to the hard one and returns it. The soft one is small by custom (1024)
/// for the sake of programs that use `select`, which nothing here does.
pub fn raise_open_files() -> io::Result<u64> {
    let limit = open_files()?;
    if limit.rlim_cur < limit.rlim_max {
        set_open_files(libc::rlimit { rlim_cur: limit.rlim_max, ..limit })?;
    }
    Ok(limit.rlim_max)
}

/// Gives memory that was freed back to the system. glibc by itself keeps whatever lies below something in use; other
/// allocators know better and are left alone.
pub fn give_memory_back() {
    // SAFETY: no pointers are passed.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Lets `open` open as many files as the hard limit allows: some for each processor are more than 1024 on a large
/// machine. Files stay open; programs that are started later have the limit that there was.
pub fn with_open_files<T>(open: impl FnOnce() -> T) -> T {
    let limit = open_files();
    let is_raised = raise_open_files().is_ok();
    let opened = open();
    if let (true, Ok(limit)) = (is_raised, limit) {
        // It was allowed before.
        let _ = set_open_files(limit);
    }
    opened
}

fn open_files() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the kernel to write one rlimit to.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok(limit)
}

fn set_open_files(limit: libc::rlimit) -> io::Result<()> {
    // SAFETY: `limit` is valid for the call.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_raised_for_as_long_as_it_is_needed() {
        let before = open_files().unwrap();
        with_open_files(|| assert_eq!(open_files().unwrap().rlim_cur, before.rlim_max));
        assert_eq!(open_files().unwrap().rlim_cur, before.rlim_cur);
    }
}
