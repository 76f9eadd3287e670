//! Conversion of system call results to `io::Result`.

use std::io;

/// Returns the error in errno for `-1`.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
