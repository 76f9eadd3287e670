//! Payload buffers for what is not in memory already: taken by length, given back by dropping them,
//! reused without being cleared. They may cross threads (a worker fills what the loop sends), and begin at a
//! page, as I/O past the page cache wants them.
//!
//! A buffer counts in full from the moment it is taken, and has memory from the moment it is first looked into. A reader
//! over a long path takes hundreds of megabytes of buffers for what it asks for, and needs memory for what has come: that
//! is what the last block has just given back, in the processor's cache.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use net::aligned::Aligned;

/// A pool of buffers.
#[derive(Clone, Debug)]
pub struct Buffers {
    pool: Arc<Pool>,
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
    bytes: OnceLock<Aligned>,
    len: usize,
    /// What it counts for.
    held_bytes: usize,
    pool: Arc<Pool>,
}

impl Buffers {
    /// A pool that keeps at most `keep_bytes` of free buffers.
    pub fn new(keep_bytes: usize) -> Buffers {
        Buffers {
            pool: Arc::new(Pool { free: Mutex::default(), keep_bytes, held_bytes: AtomicUsize::new(0) }),
        }
    }

    /// Bytes of buffers that are in use now: what a budget is held against.
    pub fn held_bytes(&self) -> usize {
        self.pool.held_bytes.load(Ordering::Relaxed)
    }

    /// What a buffer of `len` bytes counts for.
    pub fn counts_for(len: usize) -> usize {
        len.next_power_of_two().max(512)
    }

    /// A buffer of `len` bytes, at most 2^31.
    pub fn take(&self, len: usize) -> Buffer {
        let size = Buffers::counts_for(len);
        self.pool.held_bytes.fetch_add(size, Ordering::Relaxed);
        let bytes = OnceLock::new();
        Buffer { bytes, len, held_bytes: size, pool: Arc::clone(&self.pool) }
    }
}

impl Pool {
    /// Memory of a size that is a power of two.
    fn memory(&self, size: usize) -> Aligned {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let reused = free.by_size[size.trailing_zeros() as usize].pop();
        if reused.is_some() {
            free.bytes -= size;
        }
        drop(free);
        reused.unwrap_or_else(|| Aligned::zeroed(size))
    }
}

impl Buffer {
    /// Its length in bytes; to ask for that needs no memory.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives its memory back and counts on, for bytes that came out of it and are elsewhere now.
    pub fn emptied(mut self) -> Buffer {
        self.give_back();
        self.len = 0;
        self
    }

    fn give_back(&mut self) {
        let Some(bytes) = self.bytes.take() else { return };
        let mut free = self.pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.bytes + bytes.len() <= self.pool.keep_bytes {
            free.bytes += bytes.len();
            free.by_size[bytes.len().trailing_zeros() as usize].push(bytes);
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.held_bytes.fetch_sub(self.held_bytes, Ordering::Relaxed);
        self.give_back();
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.is_empty() {
            return &[];
        }
        &self.bytes.get_or_init(|| self.pool.memory(self.held_bytes))[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        if self.is_empty() {
            return &mut [];
        }
        let memory = || self.pool.memory(self.held_bytes);
        self.bytes.get_or_init(memory);
        self.bytes.get_mut().map_or(&mut [], |bytes| &mut bytes[..self.len])
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
        assert_eq!(pool.pool.free.lock().unwrap().bytes, 0, "more than the pool keeps");
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
        assert_eq!(pool.pool.free.lock().unwrap().bytes, 8192, "its memory is free");
        drop(emptied);
        assert_eq!((pool.held_bytes(), Buffers::counts_for(5000)), (0, 8192));
    }
}
