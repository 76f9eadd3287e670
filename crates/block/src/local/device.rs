//! A LUN in a block device: a disk, a partition, a logical volume, a loop device.
//!
//! It is opened exclusively (`O_EXCL`): a device that is mounted, part of an array or open in the same way
//! elsewhere is refused, and cannot be mounted while it is served. Reads and writes are in
//! `store.rs`. Unmapped ranges are discarded where the device says that it reads as zeros then, and otherwise
//! written with zeros by the kernel.

use std::fs;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::open::{OpenAs, OpenError};
use super::store::{FileStore, Shape};

impl FileStore {
    /// Opens the block device `path` for nobody else, for blocks of `block_len_bytes` or of its own.
    pub fn open_device(
        path: &Path,
        open_as: OpenAs,
        block_len_bytes: Option<u32>,
    ) -> Result<FileStore, OpenError> {
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
        // A part of a block at the end of the device is not served.
        let len_bytes = len_bytes - len_bytes % u64::from(block_len_bytes);
        if len_bytes == 0 {
            return Err(OpenError::Empty { path: owned() });
        }
        let direct = open_as.direct.then(|| net::fs::reopen_direct(device.as_fd(), write)).transpose();
        let direct = direct.map_err(system("open past the page cache"))?;
        let shape = Shape {
            len_bytes,
            block_len_bytes,
            physical_block_bytes: sizes.physical_bytes,
            granularity_bytes: sizes.physical_bytes,
            makes_zeros: makes_zeros(device.metadata().map_err(system("examine"))?.rdev()),
        };
        FileStore::new(device, direct, shape, None).map_err(system("open once more"))
    }
}

/// Returns true if the kernel zeroes a stretch of this device without writing all of it. A partition has the limits of its disk.
fn makes_zeros(number: u64) -> bool {
    let folder = format!("/sys/dev/block/{}", net::fs::device_name(number));
    let most = ["queue", "../queue"]
        .iter()
        .find_map(|queue| fs::read_to_string(format!("{folder}/{queue}/write_zeroes_max_bytes")).ok());
    most.is_none_or(|most| most.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_device_is_named() {
        let open =
            |path: &Path| FileStore::open_device(path, OpenAs::default(), None).unwrap_err().to_string();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        fs::write(&path, [0; 4096]).unwrap();
        assert!(open(&path).contains("is a regular file, expected a block device; use file:PATH"));
        assert!(open(dir.path()).contains("is a directory"));
        assert!(open(Path::new("/dev/null")).contains("is no block device"));
        assert!(open(&dir.path().join("none")).contains("cannot examine"));
    }
}
