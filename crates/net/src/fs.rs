//! What files can do beyond what std asks of them: holes.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::syscall::check;

/// Makes `len_bytes` from `offset_bytes` on read as zeros and gives back the whole blocks of the file system
/// in between; the size of the file stays. `ErrorKind::Unsupported` where there are no holes.
pub fn punch_hole(file: BorrowedFd<'_>, offset_bytes: u64, len_bytes: u64) -> io::Result<()> {
    let signed = |bytes: u64| libc::off_t::try_from(bytes).map_err(io::Error::other);
    let (offset, len) = (signed(offset_bytes)?, signed(len_bytes)?);
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: the descriptor is open for as long as it is borrowed; no pointers are passed.
    check(unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, len) }).map(|_| ())
}
