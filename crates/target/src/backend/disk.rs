//! An open file or block device: reads and writes at a place, through the page cache or past it.
//!
//! Reads and writes are positioned, so workers share one descriptor without a lock. Answered writes may be
//! lost with the power until they are synced, in the page cache or in the cache of the device: LUNs on it
//! report a write cache (WCE). FUA is one call that writes and syncs only that (RWF_DSYNC).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::{OnceLock, RwLock};

use net::aligned::ALIGN_BYTES;

use super::BackendError;

/// What files and block devices have in common.
#[derive(Debug)]
pub(super) struct Disk {
    /// Through the page cache.
    cached: File,
    /// Past it, for what is aligned.
    direct: Option<File>,
    /// Only synced. The kernel tells every open file of a failed write once: were it the one that is written
    /// through, a FUA write could take the news away from the next SYNCHRONIZE CACHE.
    witness: File,
    /// The first failed sync. The kernel reports a lost write once and then forgets it, so a later sync
    /// that says "fine" would be a lie: it keeps failing until the target is started again.
    lost_writes: OnceLock<BackendError>,
    pub(super) gate: RwLock<()>,
}

impl Disk {
    pub(super) fn new(cached: File, direct: Option<File>) -> io::Result<Disk> {
        let witness = net::fs::reopen(cached.as_fd())?;
        Ok(Disk { cached, direct, witness, lost_writes: OnceLock::new(), gate: RwLock::default() })
    }

    pub(super) fn file(&self) -> &File {
        &self.cached
    }

    pub(super) fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> io::Result<()> {
        let done = match self.direct(offset_bytes, into) {
            Some(direct) => again(|| direct.read_at(into, offset_bytes))?,
            None => 0,
        };
        self.cached.read_exact_at(&mut into[done..], offset_bytes + done as u64)
    }

    pub(super) fn write_at(&self, offset_bytes: u64, from: &[u8]) -> io::Result<()> {
        let done = match self.direct(offset_bytes, from) {
            Some(direct) => again(|| direct.write_at(from, offset_bytes))?,
            None => 0,
        };
        self.cached.write_all_at(&from[done..], offset_bytes + done as u64)
    }

    /// Writes, and returns when it is on stable storage.
    pub(super) fn write_through(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BackendError> {
        let file = self.direct(offset_bytes, from).unwrap_or(&self.cached);
        let mut done = 0;
        while done < from.len() {
            let rest = &from[done..];
            // What is left after a short write need not be aligned any more.
            let file = if done == 0 { file } else { &self.cached };
            match again(|| net::fs::write_through_at(file.as_fd(), rest, offset_bytes + done as u64)) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    self.write_at(offset_bytes + done as u64, rest)?;
                    return self.sync();
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<(), BackendError> {
        if let Some(error) = self.lost_writes.get() {
            return Err(error.clone());
        }
        self.witness.sync_data().map_err(|error| {
            let error = BackendError::from(error);
            self.lost_writes.get_or_init(|| error).clone()
        })
    }

    /// Zeros that occupy nothing, or else zeros; `Unsupported` if they have to be written.
    pub(super) fn zero_at(&self, offset_bytes: u64, len_bytes: u64) -> io::Result<()> {
        let unsupported = |result: &io::Result<()>| {
            result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Unsupported)
        };
        let punched = net::fs::punch_hole(self.cached.as_fd(), offset_bytes, len_bytes);
        match unsupported(&punched) {
            true => net::fs::zero_range(self.cached.as_fd(), offset_bytes, len_bytes),
            false => punched,
        }
    }

    /// The descriptor past the page cache, if there is one and this can be done through it.
    fn direct(&self, offset_bytes: u64, bytes: &[u8]) -> Option<&File> {
        let is_aligned = |place: usize| place.is_multiple_of(ALIGN_BYTES);
        let all = [offset_bytes as usize, bytes.len(), bytes.as_ptr() as usize];
        self.direct.as_ref().filter(|_| all.into_iter().all(is_aligned))
    }

    #[cfg(test)]
    pub(super) fn lose_writes(&self, error: BackendError) {
        self.lost_writes.set(error).unwrap();
    }
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
