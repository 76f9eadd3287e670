//! Resource limits of this process: open files, memory.
#![allow(unsafe_code)]

use std::io;
use std::sync::OnceLock;

use crate::syscall::check;

/// Soft limit before it was raised.
static OPEN_FILES_BEFORE: OnceLock<libc::rlim_t> = OnceLock::new();

/// Raises the soft limit of open files to the hard limit and returns it. The usual soft limit of 1024 protects programs
/// with `select`, which is not used here; child processes get the previous limit.
pub fn raise_open_files() -> io::Result<u64> {
    let limit = open_files()?;
    if limit.rlim_cur < limit.rlim_max {
        // The value must be stored first, since other threads may start programs meanwhile.
        OPEN_FILES_BEFORE.get_or_init(|| limit.rlim_cur);
        set_open_files(libc::rlimit { rlim_cur: limit.rlim_max, ..limit })?;
    }
    Ok(limit.rlim_max)
}

/// Limit for a child process that is started now, if it differs from the one of this process. The child applies it by
/// [`set_open_files`].
pub(crate) fn open_files_of_others() -> Option<libc::rlimit> {
    let rlim_cur = *OPEN_FILES_BEFORE.get()?;
    open_files().ok().map(|limit| libc::rlimit { rlim_cur: rlim_cur.min(limit.rlim_max), ..limit })
}

/// Returns freed memory to the system. glibc keeps memory below a block in use unless requested; other allocators do so
/// themselves.
pub fn give_memory_back() {
    // SAFETY: no pointers are passed.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

fn open_files() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the kernel to write one rlimit to.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok(limit)
}

/// Sets the limit by a system call, which neither allocates nor locks.
pub(crate) fn set_open_files(limit: libc::rlimit) -> io::Result<()> {
    // SAFETY: `limit` is valid for the call.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).map(|_| ())
}
