//! A store whose calls may block: files, block devices, and wrappers of one.

use std::fmt;
use std::sync::{Arc, RwLock};

use crate::composite::ByteRange;
use crate::device::Extent;
use crate::error::BlockError;
use crate::local::Watched;

/// Longest transfer of one request: the memory that one request makes a server promise. No long line gains from more.
pub const TRANSFER_MAX_BYTES: u32 = 32 << 20;

/// Longest atomic change of one request: the loop, or all other calls of a store, wait for the whole of it.
pub const ATOMIC_MAX_BYTES: u32 = 1 << 20;

/// Longest range that one request unmaps or fills. A long path costs a round trip for each: 1 TiB takes sixteen. Linux
/// sends 7fffffh blocks at most.
pub const RANGE_MAX_BYTES: u64 = 64 << 30;
/// Longest such range in a store that has to write zeros: ten seconds at 100 MB/s.
pub const WRITTEN_RANGE_MAX_BYTES: u64 = 1 << 30;

/// A store whose operations may block. Every method may be called from several threads at once.
pub trait BlockingStore: fmt::Debug + Send + Sync {
    /// Size in bytes at the last measurement.
    fn len_bytes(&self) -> u64;

    /// Measures the current size in bytes; may block.
    fn measure(&self) -> Result<u64, BlockError> {
        Ok(self.len_bytes())
    }

    /// Records a growth to this size.
    fn set_len(&self, _len_bytes: u64) {}

    /// The backing file, watched for changes by other processes; `None` without a file.
    fn watched(&self) -> Option<Arc<Watched>> {
        None
    }

    /// Fills `into` from `offset_bytes` on, all of it or an error.
    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), BlockError>;

    /// Fills all of `into` if that is a short copy from memory. Otherwise it has not waited for anything, `into` holds
    /// undefined bytes, and [`BlockingStore::read_at`] has to be called.
    fn read_cached(&self, _offset_bytes: u64, _into: &mut [u8]) -> bool {
        false
    }

    /// Stores `from` at `offset_bytes`, all of it or an error. Whether it is stable afterwards says
    /// [`BlockingStore::has_write_cache`].
    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BlockError>;

    /// The most that is read or written by one call, in bytes. Where that is no more than a copy in memory, long ones
    /// are cut, so that others come in between; where it waits for a medium, they are not.
    fn piece_bytes(&self) -> usize {
        usize::MAX
    }

    /// Stores `from` at `offset_bytes` and returns when it is on stable storage.
    fn write_through(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BlockError> {
        self.write_at(offset_bytes, from)?;
        if self.has_write_cache() { self.sync() } else { Ok(()) }
    }

    /// Returns when every write that was answered before the call is on stable storage.
    fn sync(&self) -> Result<(), BlockError>;

    /// Makes a stretch read as zeros, and gives back the space it occupies where that is possible.
    fn zero_at(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), BlockError> {
        write_zeros(self, offset_bytes, len_bytes)
    }

    /// Stores zeros that keep their space.
    fn write_zeros_at(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), BlockError> {
        write_zeros(self, offset_bytes, len_bytes)
    }

    /// Allocation of the begin of a range: at least one extent, and at most `extents_max`. A store that cannot tell has
    /// data everywhere.
    fn extents(&self, range: ByteRange, _extents_max: usize) -> Result<Vec<Extent>, BlockError> {
        Ok(vec![Extent::data(range.len_bytes)])
    }

    /// Returns true if [`BlockingStore::zero_at`] takes one call and no time for each byte.
    fn makes_zeros(&self) -> bool {
        true
    }

    /// Lock for atomic commands: writes hold it shared, a read-modify-write such as COMPARE AND WRITE exclusively.
    fn gate(&self) -> &RwLock<()>;

    /// Returns true if an answered write can still be lost with the power (WCE of the caching mode
    /// page). If so, FUA and SYNCHRONIZE CACHE need [`BlockingStore::sync`].
    fn has_write_cache(&self) -> bool;

    /// Bytes per physical block, a power of two; 1 if it has none.
    fn physical_block_bytes(&self) -> u32;

    /// Optimal granularity of reads, writes and UNMAP, in bytes: a power of two.
    fn granularity_bytes(&self) -> u32;
}

/// Writes zeros, for stores that have no holes.
pub(crate) fn write_zeros<S: BlockingStore + ?Sized>(
    store: &S,
    offset_bytes: u64,
    len_bytes: u64,
) -> Result<(), BlockError> {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let end_bytes = offset_bytes + len_bytes;
    let mut at_bytes = offset_bytes;
    while at_bytes < end_bytes {
        let len_bytes = (end_bytes - at_bytes).min(ZEROS.len() as u64);
        store.write_at(at_bytes, &ZEROS[..len_bytes as usize])?;
        at_bytes += len_bytes;
    }
    Ok(())
}
