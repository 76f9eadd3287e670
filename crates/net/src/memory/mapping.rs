//! Memory mapped by mmap(2): shared with the kernel through a descriptor, or private to the process; unmapped on drop.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// One mapping. Its owner synchronizes accesses.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to the mapping as a Box would; nothing in it is bound to a thread.
unsafe impl Send for Mapping {}
// SAFETY: all that a shared reference gives is an address.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes, for reading and writing.
    pub(crate) fn new(fd: BorrowedFd<'_>, len: usize) -> io::Result<Mapping> {
        let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, fd.as_raw_fd());
        // SAFETY: a new mapping, at any address.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, fd, 0) };
        Mapping::of(start, len)
    }

    /// Maps `len` zero bytes, at least one, page-aligned and private. A page is allocated when it is first written.
    pub(crate) fn anonymous(len: usize) -> io::Result<Mapping> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, at any address, of no file.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0) };
        Mapping::of(start, len)
    }

    /// Wraps the result of mmap(2).
    fn of(start: *mut libc::c_void, len: usize) -> io::Result<Mapping> {
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast());
        Ok(Mapping { start: start.ok_or_else(|| io::Error::other("memory at address 0"))?, len })
    }

    /// Address of the byte at `offset`, which must lie inside the mapping.
    #[inline]
    pub(crate) fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < self.len, "byte {offset} of {}", self.len);
        // SAFETY: the offset lies inside the mapping.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and no reference outlives its owner.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
