//! What this process has of the system: open files, memory.
#![allow(unsafe_code)]

use std::io;
use std::sync::OnceLock;

use crate::syscall::check;

/// What it was before it was raised.
static OPEN_FILES_BEFORE: OnceLock<libc::rlim_t> = OnceLock::new();

/// Raises the soft limit of open files to the hard one and returns it. The soft one is small by custom (1024)
/// for the sake of programs that use `select`, which nothing here does; those that are started have it as it was.
pub fn raise_open_files() -> io::Result<u64> {
    let limit = open_files()?;
    if limit.rlim_cur < limit.rlim_max {
        // First, for who starts a program meanwhile.
        OPEN_FILES_BEFORE.get_or_init(|| limit.rlim_cur);
        set_open_files(libc::rlimit { rlim_cur: limit.rlim_max, ..limit })?;
    }
    Ok(limit.rlim_max)
}

/// The limit that a program has to have which is started now, if it is not the one that this process has. For
/// [`set_open_files`], in that program.
pub(crate) fn open_files_of_others() -> Option<libc::rlimit> {
    let rlim_cur = *OPEN_FILES_BEFORE.get()?;
    open_files().ok().map(|limit| libc::rlimit { rlim_cur: rlim_cur.min(limit.rlim_max), ..limit })
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

fn open_files() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the kernel to write one rlimit to.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok(limit)
}

/// A system call, which neither allocates nor locks.
pub(crate) fn set_open_files(limit: libc::rlimit) -> io::Result<()> {
    // SAFETY: `limit` is valid for the call.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).map(|_| ())
}
