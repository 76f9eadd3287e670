//! An open file or block device: reads and writes at a place, through the page cache or past it. Opening a file
//! is in `file.rs`, a block device in `device.rs`.
//!
//! Reads and writes are positioned, so workers share one descriptor without a lock. Answered writes may be
//! lost with the power until they are synced, in the page cache or in the cache of the device: LUNs on it
//! report a write cache (WCE). FUA is one call that writes and syncs only that (RWF_DSYNC): as fast as a write
//! and fdatasync alone on the file, 1.4 times as fast beside a writer that does not sync.
//!
//! Past the page cache is not the default. Measured on a virtio disk over loopback, from 1 GiB that was not
//! cached: 1 MiB reads ran at 1.5 to 4 times the rate for a third of the target's CPU time; 4 KiB reads were
//! alike; 4 KiB writes had a seventh to two thirds of the rate, since the cache takes them in; and data in
//! the cache already is read at 1.5 to 2 times the rate out of it.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use net::aligned::ALIGN_BYTES;

use super::luck::Luck;
use super::watched::Cut;
use super::watched::Watched;
use crate::composite::ByteRange;
use crate::device::Extent;
use crate::error::{BlockError, ErrorKind};
use crate::store::{BlockingStore, write_zeros};

/// Bytes that are copied from or into the page cache at a time: 10 µs or so. A kernel without preemption does nothing else on that
/// processor meanwhile.
const CACHED_PIECE_BYTES: usize = 64 << 10;

/// Longest read from the page cache by the loop itself. It is less than a piece, since the loop may read for
/// every command of a turn before others have theirs.
const AT_ONCE_BYTES: usize = 16 << 10;

/// An open file or block device.
#[derive(Debug)]
pub struct FileStore {
    shape: Shape,
    /// Size in bytes, as it was found last.
    len_bytes: AtomicU64,
    /// Through the page cache.
    cached: File,
    /// Past it, for aligned requests.
    direct: Option<File>,
    /// For FUA writes through the page cache, each of which has one of its own meanwhile: the kernel reports a failed write
    /// once per open file, to the first call that asks, for any writer.
    through: Mutex<Vec<File>>,
    /// Only synced. The kernel tells every open file of a failed write once: were it the one that is written
    /// through, a FUA write could take the news away from the next SYNCHRONIZE CACHE.
    witness: File,
    /// The first failed sync. The kernel reports a lost write once and then forgets it, so a later sync
    /// that says "fine" would be a lie: it keeps failing until the target is started again.
    lost_writes: OnceLock<BlockError>,
    /// Held during a sync: of two at a time one would get the failure and the other success.
    syncing: Mutex<()>,
    /// Of reads that were to find everything in the page cache.
    luck: Luck,
    gate: RwLock<()>,
    /// If it is a file.
    watched: Option<Arc<Watched>>,
}

/// Facts that opening it found.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) len_bytes: u64,
    /// Bytes per logical block of the LUN.
    pub(super) block_len_bytes: u32,
    /// 1 if it has none.
    pub(super) physical_block_bytes: u32,
    pub(super) granularity_bytes: u32,
    /// Zeros take one call and no time for each byte.
    pub(super) makes_zeros: bool,
}

impl FileStore {
    pub(super) fn new(
        cached: File,
        direct: Option<File>,
        shape: Shape,
        watched: Option<Watched>,
    ) -> io::Result<FileStore> {
        let witness = net::fs::reopen(cached.as_fd())?;
        let (lost_writes, luck, gate) = (OnceLock::new(), Luck::default(), RwLock::default());
        let (through, syncing) = (Mutex::default(), Mutex::default());
        let len_bytes = AtomicU64::new(shape.len_bytes);
        let watched = watched.map(Arc::new);
        Ok(FileStore {
            shape,
            len_bytes,
            cached,
            direct,
            through,
            witness,
            lost_writes,
            syncing,
            luck,
            gate,
            watched,
        })
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.cached.as_fd()
    }

    /// Bytes per logical block of the LUN.
    pub fn block_len_bytes(&self) -> u32 {
        self.shape.block_len_bytes
    }

    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> io::Result<()> {
        let done = match self.direct(offset_bytes, into) {
            Some(direct) => again(|| direct.read_at(into, offset_bytes))?,
            None => 0,
        };
        self.cached.read_exact_at(&mut into[done..], offset_bytes + done as u64)
    }

    fn write(&self, offset_bytes: u64, from: &[u8]) -> io::Result<()> {
        let done = match self.direct(offset_bytes, from) {
            Some(direct) => again(|| direct.write_at(from, offset_bytes))?,
            None => 0,
        };
        self.cached.write_all_at(&from[done..], offset_bytes + done as u64)
    }

    /// Zeros that occupy nothing, or else zeros.
    fn zero(&self, offset_bytes: u64, len_bytes: u64) -> io::Result<()> {
        match net::fs::punch_hole(self.cached.as_fd(), offset_bytes, len_bytes) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                net::fs::zero_range(self.cached.as_fd(), offset_bytes, len_bytes)
            }
            result => result,
        }
    }

    /// Looks whether a cut of the file, if it is one, lies before this end of a write, or of a read that found the end of
    /// the file.
    fn check_end(&self, end_bytes: u64) -> Result<(), BlockError> {
        match &self.watched {
            Some(watched) => watched.check_now(end_bytes)?.map_err(lost),
            None => Ok(()),
        }
    }

    /// The same by earlier checks.
    fn check_known(&self, end_bytes: u64) -> Result<(), BlockError> {
        let checked = self.watched.as_ref().map_or(Ok(()), |watched| watched.check(end_bytes));
        checked.map_err(lost)
    }

    /// Writes zeros where the system could not make them by itself.
    fn or_zeros(&self, offset_bytes: u64, len_bytes: u64, made: io::Result<()>) -> Result<(), BlockError> {
        match made {
            // The kernel knows no stretch of a device that is no multiple of its own blocks.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput) =>
            {
                write_zeros(self, offset_bytes, len_bytes)
            }
            made => made.map_err(BlockError::from),
        }
    }

    /// The descriptor past the page cache, if there is one and this can be done through it.
    fn direct(&self, offset_bytes: u64, bytes: &[u8]) -> Option<&File> {
        let is_aligned = |place: usize| place.is_multiple_of(ALIGN_BYTES);
        let all = [offset_bytes as usize, bytes.len(), bytes.as_ptr() as usize];
        self.direct.as_ref().filter(|_| all.into_iter().all(is_aligned))
    }

    /// All of it, to stable storage. `ErrorKind::Unsupported` where that cannot be had in one call, or by a file of one's own.
    fn write_durably(&self, offset_bytes: u64, from: &[u8]) -> io::Result<()> {
        let at_once = |file: &File, done: usize| {
            let (rest, place) = (&from[done..], offset_bytes + done as u64);
            again(|| net::fs::write_through_at(file.as_fd(), rest, place))
        };
        // The rest after a short write need not be aligned.
        let mut done = match self.direct(offset_bytes, from) {
            Some(direct) => at_once(direct, 0)?,
            None => 0,
        };
        if done == from.len() {
            return Ok(());
        }
        let lent = self.through().pop();
        let file = match lent {
            Some(file) => file,
            None => net::fs::reopen_to_write(self.cached.as_fd())
                .map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?,
        };
        while done < from.len() {
            match at_once(&file, done)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => done += written,
            }
        }
        self.through().push(file);
        Ok(())
    }

    fn through(&self) -> MutexGuard<'_, Vec<File>> {
        self.through.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn lose_writes(&self, error: BlockError) {
        self.lost_writes.set(error).unwrap();
    }
}

impl BlockingStore for FileStore {
    fn len_bytes(&self) -> u64 {
        self.len_bytes.load(Ordering::Relaxed)
    }

    fn measure(&self) -> Result<u64, BlockError> {
        // Reads and writes have positions of their own.
        let mut cached = &self.cached;
        Ok(cached.seek(SeekFrom::End(0))?)
    }

    fn set_len(&self, len_bytes: u64) {
        self.len_bytes.store(len_bytes, Ordering::Relaxed);
        self.watched.iter().for_each(|watched| watched.set_len(len_bytes));
    }

    fn watched(&self) -> Option<Arc<Watched>> {
        self.watched.clone()
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), BlockError> {
        let end_bytes = offset_bytes + into.len() as u64;
        self.check_known(end_bytes)?;
        match self.read(offset_bytes, into) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.check_end(end_bytes)?;
                let (found, opened) = (self.measure().unwrap_or_default(), self.len_bytes());
                Err(BlockError::new(
                    ErrorKind::Medium,
                    format!("it has {found} bytes, and had {opened} when it was opened"),
                ))
            }
            result => result.map_err(BlockError::from),
        }
    }

    /// A look that misses has the kernel begin to read, which costs the caller a little: where the cache is cold there
    /// are few of them.
    fn read_cached(&self, offset_bytes: u64, into: &mut [u8]) -> bool {
        if into.len() > AT_ONCE_BYTES || self.direct.is_some() || !self.luck.is_worth_it() {
            return false;
        }
        if self.check_known(offset_bytes + into.len() as u64).is_err() {
            return false;
        }
        let read = again(|| net::fs::read_cached_at(self.cached.as_fd(), into, offset_bytes));
        let is_all = read.is_ok_and(|read| read == into.len());
        self.luck.was(is_all);
        is_all
    }

    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BlockError> {
        self.check_end(offset_bytes + from.len() as u64)?;
        self.write(offset_bytes, from).map_err(BlockError::from)
    }

    fn piece_bytes(&self) -> usize {
        if self.direct.is_some() { usize::MAX } else { CACHED_PIECE_BYTES }
    }

    fn write_through(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BlockError> {
        self.check_end(offset_bytes + from.len() as u64)?;
        match self.write_durably(offset_bytes, from) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.write(offset_bytes, from)?;
                self.sync()
            }
            Err(error) => {
                // The others would tell of it once more each.
                self.through().clear();
                Err(error.into())
            }
        }
    }

    fn sync(&self) -> Result<(), BlockError> {
        let _alone = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = self.lost_writes.get() {
            return Err(error.clone());
        }
        self.witness.sync_data().map_err(|error| {
            let error = BlockError::from(error);
            self.lost_writes.get_or_init(|| error).clone()
        })
    }

    /// A hole, where there are holes.
    fn zero_at(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), BlockError> {
        if len_bytes == 0 {
            return Ok(());
        }
        self.check_end(offset_bytes + len_bytes)?;
        self.or_zeros(offset_bytes, len_bytes, self.zero(offset_bytes, len_bytes))
    }

    /// Blocks that are allocated and not written, where the file system has such; a device that can zero by itself is
    /// made to.
    fn write_zeros_at(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), BlockError> {
        if len_bytes == 0 {
            return Ok(());
        }
        self.check_end(offset_bytes + len_bytes)?;
        let zeroed = net::fs::zero_range(self.cached.as_fd(), offset_bytes, len_bytes);
        self.or_zeros(offset_bytes, len_bytes, zeroed)
    }

    /// Holes of the file system. A block device has none that its kernel tells of.
    fn extents(&self, range: ByteRange, extents_max: usize) -> Result<Vec<Extent>, BlockError> {
        let (file, end_bytes) = (self.cached.as_fd(), range.offset_bytes + range.len_bytes);
        let (mut at_bytes, mut extents) = (range.offset_bytes, Vec::new());
        while at_bytes < end_bytes && extents.len() < extents_max.max(1) {
            let data_bytes = net::fs::next_data(file, at_bytes)?.unwrap_or(end_bytes).min(end_bytes);
            if data_bytes > at_bytes {
                extents.push(Extent::hole(data_bytes - at_bytes));
                at_bytes = data_bytes;
            } else {
                let hole_bytes = net::fs::next_hole(file, at_bytes)?.clamp(at_bytes, end_bytes);
                // A file that was cut meanwhile has neither data nor a hole there.
                if hole_bytes == at_bytes {
                    Extent::data(end_bytes - at_bytes).append_to(&mut extents);
                    break;
                }
                extents.push(Extent::data(hole_bytes - at_bytes));
                at_bytes = hole_bytes;
            }
        }
        Ok(extents)
    }

    fn makes_zeros(&self) -> bool {
        self.shape.makes_zeros
    }

    fn gate(&self) -> &RwLock<()> {
        &self.gate
    }

    fn has_write_cache(&self) -> bool {
        true
    }

    fn physical_block_bytes(&self) -> u32 {
        self.shape.physical_block_bytes
    }

    fn granularity_bytes(&self) -> u32 {
        self.shape.granularity_bytes
    }
}

/// The rest of the file is as good as ever, so this is the medium's failure and not the unit's.
fn lost(cut: Cut) -> BlockError {
    BlockError::new(ErrorKind::Medium, cut.to_string())
}

/// Until no signal comes in between.
fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
