//! Where the bytes of a LUN are, and the two ways in which they are reached.
//!
//! A [`Backend`] is one of two things, and the serving loop matches on it once per command:
//!
//! - [`Inline`] is memory that the reactor of the LUN owns, or nothing at all. Data-In is written to the
//!   socket straight from the slice, Data-Out is read from the socket straight into it. No copy, no lock
//!   and no thread is involved, which is why it is not hidden behind the trait.
//! - a [`BlockStore`] may take its time. A pool of workers calls it through an `Arc`, several at once,
//!   with buffers of their own: files, block devices, and whatever is wrapped ([`FaultStore`]).
//!
//! An enum rather than one trait with optional methods: a store cannot be half inline, and the compiler
//! sees that both ways are handled. Offsets are bytes from the start of the LUN and were checked against
//! its size by [`crate::scsi`] before they come here.
//!
//! What a failure means to the initiator is said in `scsi/failure.rs`, not here.

mod chance;
mod delay;
mod device;
mod disk;
mod fault;
mod file;
mod inline;
mod luck;
mod memory;
mod null;
mod open;
mod watched;

use std::fmt;
use std::io;
use std::sync::{Arc, RwLock};

use thiserror::Error;

pub use delay::{Delay, Delays};
pub use disk::Disk;
pub use fault::{FaultRule, FaultStore};
pub use inline::{Inline, Locked};
pub use memory::{Memory, MemoryError};
pub use null::Null;
pub use open::{OpenAs, OpenError};
pub use watched::{Finding, Watched};

/// Longest UNMAP and WRITE SAME. A long path costs a round trip for each: 1 TiB takes sixteen. Linux sends 7fffffh blocks
/// at most.
const RANGE_MAX_BYTES: u64 = 64 << 30;
/// The same in a store that has to write zeros: ten seconds at 100 MB/s.
const WRITTEN_RANGE_MAX_BYTES: u64 = 1 << 30;

/// The bytes of one LUN.
#[derive(Debug)]
pub enum Backend {
    /// Served inline by the reactor that owns it.
    Inline(Inline),
    /// Served by a pool of workers.
    Blocking(Arc<dyn BlockStore>),
}

/// A store whose operations may block. Every method may be called from several threads at once.
pub trait BlockStore: fmt::Debug + Send + Sync {
    /// Size in bytes at the last measurement.
    fn len_bytes(&self) -> u64;

    /// Measures the current size in bytes; may block.
    fn measure(&self) -> Result<u64, BackendError> {
        Ok(self.len_bytes())
    }

    /// Records a growth to this size.
    fn set_len(&self, _len_bytes: u64) {}

    /// The backing file, watched for changes by other processes; `None` without a file.
    fn watched(&self) -> Option<Arc<Watched>> {
        None
    }

    /// Fills `into` from `offset_bytes` on, all of it or an error.
    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), BackendError>;

    /// Fills all of `into` if that is a short copy from memory. Otherwise it has not waited for anything, `into` holds
    /// whatever, and [`BlockStore::read_at`] has to be asked.
    fn read_cached(&self, _offset_bytes: u64, _into: &mut [u8]) -> bool {
        false
    }

    /// Stores `from` at `offset_bytes`, all of it or an error. Whether it is stable afterwards says
    /// [`BlockStore::has_write_cache`].
    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BackendError>;

    /// The most that is read or written by one call, in bytes. Where that is no more than a copy in memory, long ones
    /// are cut, so that others come in between; where it waits for a medium, they are not.
    fn piece_bytes(&self) -> usize {
        usize::MAX
    }

    /// Stores `from` at `offset_bytes` and returns when it is on stable storage.
    fn write_through(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BackendError> {
        self.write_at(offset_bytes, from)?;
        if self.has_write_cache() { self.sync() } else { Ok(()) }
    }

    /// Returns when every write that was answered before the call is on stable storage.
    fn sync(&self) -> Result<(), BackendError>;

    /// Makes a stretch read as zeros, and gives back the space it occupies where that is possible.
    fn zero_at(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), BackendError> {
        write_zeros(self, offset_bytes, len_bytes)
    }

    /// Stores zeros that keep their space.
    fn write_zeros_at(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), BackendError> {
        write_zeros(self, offset_bytes, len_bytes)
    }

    /// Returns true if [`BlockStore::zero_at`] takes one call and no time for each byte.
    fn makes_zeros(&self) -> bool {
        true
    }

    /// Lock for atomic commands: writes hold it shared, a read-modify-write such as COMPARE AND WRITE exclusively.
    fn gate(&self) -> &RwLock<()>;

    /// Whether a write that was answered can still be lost with the power (WCE of the caching mode
    /// page). If so, FUA and SYNCHRONIZE CACHE need [`BlockStore::sync`].
    fn has_write_cache(&self) -> bool;

    /// Bytes per physical block, a power of two; 1 if it has none.
    fn physical_block_bytes(&self) -> u32;

    /// Optimal granularity of reads, writes and UNMAP, in bytes: a power of two.
    fn granularity_bytes(&self) -> u32;
}

/// Error of a store operation.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BackendError {
    /// The space behind a thinly provisioned LUN is used up; more space cures it.
    #[error("no space is left behind the LUN: {0}")]
    NoSpace(String),
    /// The medium failed for this range; others may work.
    #[error("the storage behind the LUN failed: {0}")]
    Io(String),
    /// The store is not what it was when it was opened: cut short, unplugged, a stale handle.
    #[error("the storage behind the LUN is gone: {0}")]
    Gone(String),
    /// Temporarily not ready.
    #[error("the storage behind the LUN is not ready: {0}")]
    NotReady(String),
}

/// Writes zeros, for stores that have no holes.
fn write_zeros<S: BlockStore + ?Sized>(
    store: &S,
    offset_bytes: u64,
    len_bytes: u64,
) -> Result<(), BackendError> {
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

impl Backend {
    /// Size in bytes.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Backend::Inline(inline) => inline.len_bytes(),
            Backend::Blocking(store) => store.len_bytes(),
        }
    }

    /// The longest stretch that one command unmaps or fills. The command must end before initiators give up, which most
    /// do after half a minute.
    pub fn range_max_bytes(&self) -> u64 {
        match self {
            Backend::Blocking(store) if !store.makes_zeros() => WRITTEN_RANGE_MAX_BYTES,
            Backend::Blocking(_) | Backend::Inline(_) => RANGE_MAX_BYTES,
        }
    }

    /// Optimal unmap granularity in bytes. RAM has no preference.
    pub fn granularity_bytes(&self) -> u32 {
        match self {
            Backend::Inline(_) => 1,
            Backend::Blocking(store) => store.granularity_bytes(),
        }
    }

    /// Whether an answered write can still be lost with the power although the medium is not volatile
    /// as a whole. Memory has nothing behind it that a flush could reach: no.
    pub fn has_write_cache(&self) -> bool {
        match self {
            Backend::Inline(_) => false,
            Backend::Blocking(store) => store.has_write_cache(),
        }
    }
}

impl From<io::Error> for BackendError {
    fn from(error: io::Error) -> BackendError {
        /// "No such device or address": what reads of an unplugged device give. Std has no kind for it.
        const ENXIO: i32 = 6;
        /// "No such device": the driver went away.
        const ENODEV: i32 = 19;

        let text = error.to_string();
        match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge, _) => {
                BackendError::NoSpace(text)
            }
            (io::ErrorKind::UnexpectedEof | io::ErrorKind::StaleNetworkFileHandle, _)
            | (_, Some(ENXIO | ENODEV)) => BackendError::Gone(text),
            _ => BackendError::Io(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operating_system_errors_keep_their_meaning() {
        let check = |errno: i32, same: fn(String) -> BackendError| {
            let error = io::Error::from_raw_os_error(errno);
            let text = error.to_string();
            assert_eq!(BackendError::from(error), same(text), "errno {errno}");
        };
        check(28, BackendError::NoSpace); // ENOSPC
        check(122, BackendError::NoSpace); // EDQUOT
        check(27, BackendError::NoSpace); // EFBIG
        check(5, BackendError::Io); // EIO
        check(30, BackendError::Io); // EROFS: remounted read-only after an error
        check(116, BackendError::Gone); // ESTALE
        check(6, BackendError::Gone); // ENXIO
        check(19, BackendError::Gone); // ENODEV
        let text = BackendError::from(io::Error::from_raw_os_error(5)).to_string();
        assert!(text.contains("Input/output error"), "{text}");
    }
}
