//! Devices that lend their bytes: the event loop sends from and receives into their slices, without a copy, a lock or a
//! worker thread. [`Locked`] puts a lock around one, for wrappers that need a [`BlockingStore`].

mod device;
mod memory;
mod null;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::composite::ByteRange;
use crate::device::Extent;
use crate::error::BlockError;
use crate::store::BlockingStore;

pub use device::LentDevice;
pub use memory::{Memory, MemoryError};
pub use null::Null;

/// A device that the event loop accesses synchronously: RAM or the null device.
#[derive(Debug)]
pub enum Lent {
    /// RAM.
    Memory(Memory),
    /// Null device: reads return zeros, writes are discarded.
    Null(Null),
}

impl Lent {
    /// Size in bytes.
    #[inline]
    pub fn len_bytes(&self) -> u64 {
        match self {
            Lent::Memory(memory) => memory.len_bytes(),
            Lent::Null(null) => null.len_bytes(),
        }
    }

    /// Returns the bytes of a range, at most one transfer, to send from.
    #[inline]
    pub fn bytes(&self, offset_bytes: u64, len_bytes: usize) -> &[u8] {
        match self {
            Lent::Memory(memory) => &memory.bytes()[offset_bytes as usize..][..len_bytes],
            Lent::Null(null) => null.zeros(len_bytes),
        }
    }

    /// Returns the buffer for the next `len_bytes` of a PDU with data at `offset_bytes`; `after_bytes` of it have been
    /// received.
    #[inline]
    pub fn space(&mut self, offset_bytes: u64, after_bytes: usize, len_bytes: usize) -> &mut [u8] {
        match self {
            Lent::Memory(memory) => {
                &mut memory.bytes_mut()[offset_bytes as usize + after_bytes..][..len_bytes]
            }
            Lent::Null(null) => null.sink(after_bytes, len_bytes),
        }
    }

    /// Allocation of the begin of a range: at least one extent, and at most `extents_max`.
    pub fn extents(&self, range: ByteRange, extents_max: usize) -> Vec<Extent> {
        match self {
            Lent::Memory(memory) => memory.extents(range, extents_max),
            Lent::Null(_) => vec![Extent::hole(range.len_bytes)],
        }
    }

    /// Zeroes a range.
    pub fn zero(&mut self, offset_bytes: u64, len_bytes: u64) {
        match self {
            Lent::Memory(memory) => memory.zero(offset_bytes, len_bytes),
            Lent::Null(_) => {}
        }
    }
}

/// An [`Lent`] as a [`BlockingStore`], for wrappers. Their own cost exceeds that of a lock and a copy.
#[derive(Debug)]
pub struct Locked {
    inner: RwLock<Lent>,
    len_bytes: u64,
    gate: RwLock<()>,
}

impl Locked {
    /// Wraps `inner`.
    pub fn new(inner: Lent) -> Locked {
        let len_bytes = inner.len_bytes();
        Locked { inner: RwLock::new(inner), len_bytes, gate: RwLock::default() }
    }

    // Poisoning is ignored: a panicked worker leaves bytes without any invariant.
    fn shared(&self) -> RwLockReadGuard<'_, Lent> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self) -> RwLockWriteGuard<'_, Lent> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlockingStore for Locked {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), BlockError> {
        into.copy_from_slice(self.shared().bytes(offset_bytes, into.len()));
        Ok(())
    }

    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BlockError> {
        self.alone().space(offset_bytes, 0, from.len()).copy_from_slice(from);
        Ok(())
    }

    fn sync(&self) -> Result<(), BlockError> {
        Ok(())
    }

    fn zero_at(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), BlockError> {
        self.alone().zero(offset_bytes, len_bytes);
        Ok(())
    }

    fn gate(&self) -> &RwLock<()> {
        &self.gate
    }

    /// No write cache, like the wrapped device.
    fn has_write_cache(&self) -> bool {
        false
    }

    fn physical_block_bytes(&self) -> u32 {
        1
    }

    fn granularity_bytes(&self) -> u32 {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_zeros_of_any_size() {
        let mut null = Lent::Null(Null::new(1 << 50));
        assert_eq!(null.len_bytes(), 1 << 50);
        null.space((1 << 50) - 4096, 512, 1024).fill(7);
        assert_eq!(
            null.space((1 << 50) - 4096, 1024, 512)[..],
            [7; 512],
            "what a PDU brought is there for its digest"
        );
        assert!(null.bytes((1 << 50) - 4096, 4096).iter().all(|&byte| byte == 0));
    }

    #[test]
    fn behind_a_lock_it_is_the_same() {
        let store = Locked::new(Lent::Memory(Memory::zeroed(1 << 18).unwrap()));
        let expect = |stretches: &[(usize, u8)]| {
            let mut found = vec![1; 1 << 18];
            store.read_at(0, &mut found).unwrap();
            let expected: Vec<u8> = stretches.iter().flat_map(|&(len, byte)| vec![byte; len]).collect();
            assert!(found == expected, "{stretches:?}");
        };
        store.write_at(4096, &[7; 1 << 17]).unwrap();
        store.zero_at(8192, 1024).unwrap();
        let rest = (1 << 18) - 4096 - (1 << 17);
        expect(&[(4096, 0), (4096, 7), (1024, 0), ((1 << 17) - 5120, 7), (rest, 0)]);
        // Longer than a piece, and no multiple of it.
        store.write_zeros_at(16384, (1 << 16) + 512).unwrap();
        let left = (1 << 17) + 4096 - 16384 - (1 << 16) - 512;
        expect(&[(4096, 0), (4096, 7), (1024, 0), (7168, 7), ((1 << 16) + 512, 0), (left, 7), (rest, 0)]);
        store.write_zeros_at(4096, 0).unwrap();
        expect(&[(4096, 0), (4096, 7), (1024, 0), (7168, 7), ((1 << 16) + 512, 0), (left, 7), (rest, 0)]);
        assert!(store.len_bytes() == 1 << 18 && !store.has_write_cache());
    }
}
