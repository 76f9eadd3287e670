//! Page-aligned memory for direct I/O. Large blocks are mapped, so that memory is allocated a page at a time when it is
//! first written: allocation is cheap, and no call waits until all of it is cleared.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::memory::mapping::Mapping;

/// Alignment of [`Aligned`]: a page, or the length if that is less.
pub const ALIGN_BYTES: usize = 4096;
/// Minimum length of memory that is mapped; the kernel clears pages when they are touched.
const MAPPED_BYTES: usize = 128 << 10;

/// Memory aligned to [`ALIGN_BYTES`], initially zero.
pub struct Aligned {
    start: NonNull<u8>,
    len: usize,
    /// Mapping that owns the memory, unless the allocator does.
    mapping: Option<Mapping>,
}

impl Aligned {
    /// Allocates `len` zero bytes, at least one.
    pub fn zeroed(len: usize) -> Aligned {
        let layout = Aligned::layout(len);
        if len >= MAPPED_BYTES {
            let Ok(mapping) = Mapping::anonymous(len) else { handle_alloc_error(layout) };
            return Aligned { start: mapping.at(0), len, mapping: Some(mapping) };
        }
        // SAFETY: the layout has a size, which `layout` sees to.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Aligned { start, len, mapping: None },
            None => handle_alloc_error(layout),
        }
    }

    fn layout(len: usize) -> Layout {
        assert!(len > 0, "memory of no length has no address");
        let align = len.next_power_of_two().min(ALIGN_BYTES);
        match Layout::from_size_align(len, align) {
            Ok(layout) => layout,
            Err(_) => panic!("{len} bytes are more than a process can have"),
        }
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes begin at `start`, and are ours for as long as `self` is there.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        if self.mapping.is_some() {
            return; // It unmaps itself.
        }
        // SAFETY: it was allocated by `zeroed` with the same layout.
        unsafe { dealloc(self.start.as_ptr(), Aligned::layout(self.len)) }
    }
}

// SAFETY: it owns plain bytes, as a boxed slice does.
unsafe impl Send for Aligned {}
// SAFETY: shared, it can only be read.
unsafe impl Sync for Aligned {}

impl fmt::Debug for Aligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Aligned({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_at_a_page_and_is_zero() {
        for len in [1, 512, 4095, 4096, 4097, MAPPED_BYTES - 1, MAPPED_BYTES, MAPPED_BYTES + 1, 1 << 20] {
            let mut bytes = Aligned::zeroed(len);
            let align = len.next_power_of_two().min(ALIGN_BYTES);
            assert_eq!((bytes.as_ptr() as usize % align, bytes.len()), (0, len));
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes[len - 1] = 7;
            assert_eq!(bytes[len - 1], 7);
        }
    }

    /// Memory use after one write: a huge page where the kernel provides them, and a page otherwise.
    #[test]
    fn much_is_promised_and_little_is_taken() {
        let resident_bytes = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        };
        let before_bytes = resident_bytes();
        let mut rows: Vec<Aligned> = (0..32).map(|_| Aligned::zeroed(32 << 20)).collect();
        rows.iter_mut().for_each(|row| row[5 << 20] = 7);
        let grown_bytes = resident_bytes().saturating_sub(before_bytes);
        assert!(grown_bytes < 128 << 20, "{grown_bytes} bytes for 32 that were written");
        assert!(rows.iter().all(|row| (row[5 << 20], row[(32 << 20) - 1]) == (7, 0)));
    }
}
