//! Payload buffers for devices that lend no bytes: taken by length, given back by dropping them,
//! reused without being cleared. They may cross threads (a worker fills one, the loop sends it), and begin at a
//! page, as I/O past the page cache wants them.
//!
//! A buffer counts in full from the moment it is taken, and has memory from the moment it is first looked into. A reader
//! over a long path takes hundreds of megabytes of buffers for its requests, and needs memory for arrived data: the
//! memory that the last block has just given back, in the processor's cache. A buffer that is promised counts for the bytes
//! that have arrived in it: a peer that announces data and sends none must not use up a budget.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use net::aligned::Aligned;

/// From this size on memory is the kernel's, and resident a page at a time as it is written.
const LAZY_BYTES: usize = 128 << 10;
/// A page of it.
const PAGE_BYTES: usize = 4 << 10;

/// A pool of buffers, or a part of one with a count of its own.
#[derive(Clone, Debug)]
pub struct Buffers {
    part: Arc<Part>,
}

#[derive(Debug)]
struct Part {
    pool: Arc<Pool>,
    /// Bytes of its buffers that are in use.
    held_bytes: AtomicUsize,
}

impl Part {
    fn add(&self, bytes: usize) {
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.pool.held_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn subtract(&self, bytes: usize) {
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.pool.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Pool {
    /// Free buffers by the logarithm of their size.
    free: Mutex<Free>,
    keep_bytes: usize,
    /// Bytes of buffers that are in use.
    held_bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct Free {
    by_size: [Vec<Aligned>; 32],
    bytes: usize,
}

/// A buffer; its content is whatever its last user left.
#[derive(Debug)]
pub struct Buffer {
    /// From the first look until it is given back.
    bytes: OnceLock<Memory>,
    len: usize,
    /// Length of its memory.
    size: usize,
    /// Bytes that it counts for.
    held_bytes: usize,
    part: Arc<Part>,
}

#[derive(Debug)]
struct Memory {
    bytes: Aligned,
    /// All of it is resident, whatever has arrived.
    is_resident: bool,
}

impl Buffers {
    /// A pool that keeps at most `keep_bytes` of free buffers.
    pub fn new(keep_bytes: usize) -> Buffers {
        let pool = Pool { free: Mutex::default(), keep_bytes, held_bytes: AtomicUsize::new(0) };
        Buffers::of(Arc::new(pool))
    }

    fn of(pool: Arc<Pool>) -> Buffers {
        Buffers { part: Arc::new(Part { pool, held_bytes: AtomicUsize::new(0) }) }
    }

    /// Another part of the same pool.
    pub fn part(&self) -> Buffers {
        Buffers::of(Arc::clone(&self.part.pool))
    }

    /// Bytes of buffers that are in use now, of all parts: the figure that a budget bounds.
    pub fn held_bytes(&self) -> usize {
        self.part.pool.held_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of this part's buffers that are in use now.
    pub fn part_bytes(&self) -> usize {
        self.part.held_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that a buffer of `len` bytes counts for.
    pub fn counts_for(len: usize) -> usize {
        len.next_power_of_two().max(512)
    }

    /// A buffer of `len` bytes, at most 2^31.
    pub fn take(&self, len: usize) -> Buffer {
        let mut buffer = self.promise(len);
        buffer.held_bytes = buffer.size;
        self.part.add(buffer.size);
        buffer
    }

    /// A buffer of `len` bytes, at most 2^31, that counts for nothing yet: see [`Buffer::count`].
    pub fn promise(&self, len: usize) -> Buffer {
        let size = Buffers::counts_for(len);
        Buffer { bytes: OnceLock::new(), len, size, held_bytes: 0, part: Arc::clone(&self.part) }
    }
}

impl Pool {
    /// Memory of a size that is a power of two.
    fn memory(&self, size: usize) -> Memory {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let reused = free.by_size[size.trailing_zeros() as usize].pop();
        if reused.is_some() {
            free.bytes -= size;
        }
        drop(free);
        let is_resident = reused.is_some() || size < LAZY_BYTES;
        Memory { bytes: reused.unwrap_or_else(|| Aligned::zeroed(size)), is_resident }
    }
}

impl Buffer {
    /// Length in bytes; does not allocate.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Releases its memory and keeps its count, for bytes that moved elsewhere.
    pub fn emptied(mut self) -> Buffer {
        self.give_back();
        self.len = 0;
        self
    }

    /// Has memory from now on, and counts at once if all of it is resident.
    pub fn begin(&mut self) {
        let memory = || self.part.pool.memory(self.size);
        if self.bytes.get_or_init(memory).is_resident {
            self.count(0);
        }
    }

    /// Counts the memory of a promised buffer in which `arrived_bytes` have arrived: the pages that are resident.
    pub fn count(&mut self, arrived_bytes: usize) {
        let held_bytes = match self.bytes.get() {
            None => 0,
            Some(memory) if memory.is_resident => self.size,
            Some(_) => arrived_bytes.next_multiple_of(PAGE_BYTES).min(self.size),
        };
        if held_bytes > self.held_bytes {
            self.part.add(held_bytes - self.held_bytes);
            self.held_bytes = held_bytes;
        }
    }

    fn give_back(&mut self) {
        let Some(Memory { bytes, .. }) = self.bytes.take() else { return };
        let pool = &self.part.pool;
        let mut free = pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.bytes + bytes.len() <= pool.keep_bytes {
            free.bytes += bytes.len();
            free.by_size[bytes.len().trailing_zeros() as usize].push(bytes);
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.part.subtract(self.held_bytes);
        self.give_back();
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.is_empty() {
            return &[];
        }
        &self.bytes.get_or_init(|| self.part.pool.memory(self.size)).bytes[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        if self.is_empty() {
            return &mut [];
        }
        let memory = || self.part.pool.memory(self.size);
        self.bytes.get_or_init(memory);
        self.bytes.get_mut().map_or(&mut [], |memory| &mut memory.bytes[..self.len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reuses_up_to_its_bound() {
        let pool = Buffers::new(8192);
        let mut first = pool.take(5000);
        first[4999] = 7;
        let address = first.as_ptr();
        drop(first);
        let again = pool.take(8192);
        assert_eq!((again.as_ptr(), again[4999], again.len()), (address, 7, 8192));
        let large = pool.take(100_000);
        assert_eq!(pool.held_bytes(), 8192 + 131_072);
        assert_eq!(large[99_999], 0);
        drop(large);
        assert_eq!(pool.part.pool.free.lock().unwrap().bytes, 0, "more than the pool keeps");
    }

    #[test]
    fn what_was_given_back_last_is_what_comes_next_into() {
        let pool = Buffers::new(1 << 20);
        let mut asked: Vec<Buffer> = (0..100).map(|_| pool.take(8192)).collect();
        assert_eq!((pool.held_bytes(), asked[99].len()), (100 * 8192, 8192));
        let mut addresses: Vec<*const u8> = Vec::new();
        while let Some(mut next) = asked.pop() {
            next.fill(1);
            addresses.push(next.as_ptr());
        }
        addresses.dedup();
        assert_eq!(addresses.len(), 1, "one after the other in the same memory");
    }

    #[test]
    fn one_that_is_emptied_counts_until_it_is_dropped() {
        let pool = Buffers::new(8192);
        let mut taken = pool.take(5000);
        taken.fill(1);
        let emptied = taken.emptied();
        assert_eq!((pool.held_bytes(), emptied.len()), (8192, 0));
        assert_eq!(pool.part.pool.free.lock().unwrap().bytes, 8192, "its memory is free");
        drop(emptied);
        assert_eq!((pool.held_bytes(), Buffers::counts_for(5000)), (0, 8192));
    }

    #[test]
    fn a_promise_counts_for_the_pages_that_have_arrived() {
        let pool = Buffers::new(1 << 20);
        let part = pool.part();
        let mut large = part.promise(1 << 20);
        large.count(1 << 20);
        assert_eq!((pool.held_bytes(), large.len()), (0, 1 << 20), "it has no memory");
        for (arrived_bytes, expected) in [(1, 4096), (4096, 4096), (5000, 8192), (1 << 20, 1 << 20)] {
            large[arrived_bytes - 1] = 1;
            large.count(arrived_bytes);
            assert_eq!((part.part_bytes(), pool.held_bytes()), (expected, expected), "{arrived_bytes}");
        }
        let other = pool.take(512);
        assert_eq!(
            (part.part_bytes(), pool.part_bytes(), pool.held_bytes()),
            (1 << 20, 512, (1 << 20) + 512)
        );
        drop((large, other));
        assert_eq!((part.part_bytes(), pool.held_bytes()), (0, 0));
        // Memory that is used again is resident, and so is a small buffer's.
        for len in [1 << 20, 2000] {
            let mut resident = part.promise(len);
            resident[0] = 1;
            resident.count(1);
            assert_eq!(pool.held_bytes(), Buffers::counts_for(len), "{len}");
        }
    }
}
