//! A LUN in a block device: a disk, a partition, a logical volume, a loop device.
//!
//! It is opened exclusively (`O_EXCL`): a device that is mounted, part of an array or open in the same way
//! elsewhere is refused, and cannot be mounted while it is served. How it is read and written is in
//! `disk.rs`. What is unmapped is discarded where the device says that it reads as zeros then, and otherwise
//! written with zeros by the kernel.

use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::RwLock;

use super::disk::Disk;
use super::{BackendError, BlockStore, OpenAs, OpenError, write_zeros};

/// An open block device.
#[derive(Debug)]
pub struct DeviceStore {
    disk: Disk,
    len_bytes: u64,
    physical_block_bytes: u32,
    logical_block_bytes: u32,
}

impl DeviceStore {
    /// Opens `path` for nobody else, for blocks of `block_len_bytes` or of its own.
    pub fn open(
        path: &Path,
        open_as: OpenAs,
        block_len_bytes: Option<u32>,
    ) -> Result<DeviceStore, OpenError> {
        let owned = || path.to_owned();
        let system = |action| move |source| OpenError::System { action, path: owned(), source };
        let kind = path.metadata().map_err(system("examine"))?.file_type();
        if !kind.is_block_device() {
            let (found, expected) = match () {
                () if kind.is_file() => ("a regular file", "a block device; use file:PATH"),
                () if kind.is_dir() => ("a directory", "a block device"),
                () => ("no block device", "one"),
            };
            return Err(OpenError::NotAFile { path: owned(), found, expected });
        }
        let write = !open_as.read_only;
        let mut device = match net::fs::open_exclusive(path, write) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                return Err(OpenError::InUse { path: owned() });
            }
            device => device.map_err(system("open"))?,
        };
        let sizes = net::fs::block_sizes(device.as_fd()).map_err(system("ask for the block size of"))?;
        let found_bytes = sizes.logical_bytes;
        let block_len_bytes = block_len_bytes.unwrap_or(found_bytes);
        if block_len_bytes < found_bytes {
            return Err(OpenError::Block { path: owned(), found_bytes, block_len_bytes });
        }
        let len_bytes = device.seek(SeekFrom::End(0)).map_err(system("measure"))?;
        // A device has the size it has: what makes no whole block at its end is not served.
        let len_bytes = len_bytes - len_bytes % u64::from(block_len_bytes);
        if len_bytes == 0 {
            return Err(OpenError::Empty { path: owned() });
        }
        let direct = open_as.direct.then(|| net::fs::reopen_direct(device.as_fd(), write)).transpose();
        let direct = direct.map_err(system("open past the page cache"))?;
        let disk = Disk::new(device, direct).map_err(system("open once more"))?;
        let physical_block_bytes = sizes.physical_bytes;
        Ok(DeviceStore { disk, len_bytes, physical_block_bytes, logical_block_bytes: block_len_bytes })
    }

    /// Bytes per logical block of the LUN.
    pub fn logical_block_bytes(&self) -> u32 {
        self.logical_block_bytes
    }
}

impl BlockStore for DeviceStore {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.disk.read_at(offset_bytes, into).map_err(BackendError::from)
    }

    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BackendError> {
        self.disk.write_at(offset_bytes, from).map_err(BackendError::from)
    }

    fn write_through(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BackendError> {
        self.disk.write_through(offset_bytes, from)
    }

    fn sync(&self) -> Result<(), BackendError> {
        self.disk.sync()
    }

    fn zero_at(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), BackendError> {
        if len_bytes == 0 {
            return Ok(());
        }
        match self.disk.zero_at(offset_bytes, len_bytes) {
            // The kernel knows no stretch that is no multiple of the device's own blocks.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput) =>
            {
                write_zeros(self, offset_bytes, len_bytes)
            }
            result => result.map_err(BackendError::from),
        }
    }

    fn gate(&self) -> &RwLock<()> {
        &self.disk.gate
    }

    fn has_write_cache(&self) -> bool {
        true
    }

    fn physical_block_bytes(&self) -> u32 {
        self.physical_block_bytes.max(self.logical_block_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_device_is_named() {
        let open = |path: &Path| DeviceStore::open(path, OpenAs::default(), None).unwrap_err().to_string();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::write(&path, [0; 4096]).unwrap();
        assert!(open(&path).contains("is a regular file, expected a block device; use file:PATH"));
        assert!(open(dir.path()).contains("is a directory"));
        assert!(open(Path::new("/dev/null")).contains("is no block device"));
        assert!(open(&dir.path().join("none")).contains("cannot examine"));
    }
}
