//! Operations on files and block devices that std lacks: holes, durable writes, direct I/O, block sizes, extended
//! attributes.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::syscall::check;

/// Block sizes of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSizes {
    /// Logical block size, the unit of addresses.
    pub logical_bytes: u32,
    /// Physical block size: smaller writes need a read-modify-write.
    pub physical_bytes: u32,
}

/// Opens a block device that is neither mounted nor opened exclusively elsewhere; otherwise returns
/// `ErrorKind::ResourceBusy`.
pub fn open_exclusive(path: &Path, write: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(write).custom_flags(libc::O_EXCL).open(path)
}

/// Opens a regular file for reading, and also for writing if `write` is set. Fails for other file types, and does not
/// block on a pipe without a peer.
pub fn open_regular(path: &Path, write: bool) -> io::Result<File> {
    let open = |flags| OpenOptions::new().read(true).write(write).custom_flags(flags).open(path);
    match open(libc::O_NONBLOCK) {
        // Another process holds a lease, which the kernel breaks after a while (fcntl(2), F_SETLEASE).
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && path.metadata()?.is_file() => {
            regular(open(0)?)
        }
        file => regular(file?),
    }
}

/// Opens a regular file for reading, but does not follow a symbolic link.
pub fn open_unlinked(path: &Path) -> io::Result<File> {
    regular(OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?)
}

/// Opens a regular file for writing, creates it if needed, and does not follow a symbolic link. The contents are kept.
pub fn create_unlinked(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    regular(options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?)
}

/// Checks the open file: its path may lead to another file a moment later.
fn regular(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("expected a regular file, found something else")),
    }
}

/// Checks that this process may write to a file or a directory: otherwise `ErrorKind::PermissionDenied` or
/// `ErrorKind::ReadOnlyFilesystem`.
pub fn check_writable(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a zero byte, and the kernel only reads it.
    let result = unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK, libc::AT_EACCESS) };
    check(result).map(|_| ())
}

/// Checks that this process may write to an open file, whatever its open mode.
pub fn check_writable_open(file: BorrowedFd<'_>) -> io::Result<()> {
    check_writable(by_descriptor(file).as_ref())
}

/// Largest value of an extended attribute that [`attribute`] reads.
const ATTRIBUTE_MAX_BYTES: usize = 4096;

/// Value of an extended attribute of an open file, `None` if it is not set. `ErrorKind::Unsupported` if the file system
/// has no such attributes (xattr(7)).
pub fn attribute(file: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; ATTRIBUTE_MAX_BYTES];
    // SAFETY: the name ends with a zero byte; the kernel writes at most `value.len()` bytes to `value`.
    let got =
        unsafe { libc::fgetxattr(file.as_raw_fd(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    match usize::try_from(got) {
        Ok(len) => {
            value.truncate(len);
            Ok(Some(value))
        }
        Err(_) => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENODATA) => Ok(None),
            error => Err(error),
        },
    }
}

/// Sets an extended attribute of an open file and syncs it to stable storage. `ErrorKind::AlreadyExists` if it is set,
/// `ErrorKind::Unsupported` if the file system has no such attributes.
pub fn create_attribute(file: BorrowedFd<'_>, name: &CStr, value: &[u8]) -> io::Result<()> {
    let (at, len) = (value.as_ptr().cast(), value.len());
    // SAFETY: the name ends with a zero byte; the kernel only reads `len` bytes of `value`.
    check(unsafe { libc::fsetxattr(file.as_raw_fd(), name.as_ptr(), at, len, libc::XATTR_CREATE) })?;
    // SAFETY: the descriptor is open for as long as it is borrowed; no pointers are passed.
    check(unsafe { libc::fsync(file.as_raw_fd()) }).map(|_| ())
}

/// Magic number of exFAT (`EXFAT_SUPER_MAGIC`).
const EXFAT: libc::c_long = 0x2011_bab0;

/// Returns true unless an open file may have another inode number after its file system is mounted again, as with FUSE
/// and FAT.
pub fn has_lasting_inodes(file: BorrowedFd<'_>) -> bool {
    // SAFETY: all bits zero is a valid value of this struct of integers.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one struct through the pointer, which is valid for the call.
    let result = check(unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut found) });
    // The types of the compared values differ between C libraries.
    let kinds = [libc::FUSE_SUPER_MAGIC, libc::MSDOS_SUPER_MAGIC, EXFAT].map(i128::from);
    result.is_ok() && !kinds.contains(&i128::from(found.f_type))
}

/// Opens an open file again for direct I/O. `ErrorKind::InvalidInput` if the file system does not support it. Offsets,
/// lengths and addresses must then be multiples of the block size.
pub fn reopen_direct(file: BorrowedFd<'_>, write: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(write).custom_flags(libc::O_DIRECT).open(by_descriptor(file))
}

/// Opens an open file again for reading; errors of writeback are reported to each open file separately.
pub fn reopen(file: BorrowedFd<'_>) -> io::Result<File> {
    File::open(by_descriptor(file))
}

/// Opens an open file again for reading and writing; errors of writeback are reported to each open file separately.
pub fn reopen_to_write(file: BorrowedFd<'_>) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(by_descriptor(file))
}

fn by_descriptor(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Block sizes of an open block device.
pub fn block_sizes(device: BorrowedFd<'_>) -> io::Result<BlockSizes> {
    let ask = |request| {
        let mut value: libc::c_uint = 0;
        // SAFETY: both requests write one int through the pointer, which is valid for the call.
        check(unsafe { libc::ioctl(device.as_raw_fd(), request, &raw mut value) }).map(|_| value)
    };
    Ok(BlockSizes { logical_bytes: ask(libc::BLKSSZGET)?, physical_bytes: ask(libc::BLKPBSZGET)? })
}

/// Writes at `offset_bytes` with RWF_DSYNC and returns the number of bytes: they are on stable storage, with the
/// metadata needed to read them. `ErrorKind::Unsupported` if there is no such write.
pub fn write_through_at(file: BorrowedFd<'_>, from: &[u8], offset_bytes: u64) -> io::Result<usize> {
    let offset = libc::off_t::try_from(offset_bytes).map_err(io::Error::other)?;
    let slice = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    // SAFETY: the one slice is valid for reading during the call, and the kernel only reads it.
    let written = unsafe { libc::pwritev2(file.as_raw_fd(), &raw const slice, 1, offset, libc::RWF_DSYNC) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Reads cached data without waiting for the medium (RWF_NOWAIT) and returns the number of bytes.
/// `ErrorKind::WouldBlock` if nothing is cached, `ErrorKind::Unsupported` if the file system does not support it.
pub fn read_cached_at(file: BorrowedFd<'_>, into: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
    let offset = libc::off_t::try_from(offset_bytes).map_err(io::Error::other)?;
    let slice = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: the one slice is valid for writing during the call, and borrowed exclusively.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const slice, 1, offset, libc::RWF_NOWAIT) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Name of a device in `/sys/dev`, `MAJOR:MINOR`, from its number (`st_rdev`).
pub fn device_name(number: u64) -> String {
    format!("{}:{}", libc::major(number), libc::minor(number))
}

/// Deallocates a range, which then reads as zeros: whole blocks of the file system or device are freed, and the file
/// size does not change. `ErrorKind::Unsupported` if nothing can be deallocated.
pub fn punch_hole(file: BorrowedFd<'_>, offset_bytes: u64, len_bytes: u64) -> io::Result<()> {
    allocate(file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset_bytes, len_bytes)
}

/// Zeros a range and keeps it allocated; on a block device without a command for it the kernel writes zeros.
/// `ErrorKind::Unsupported` if there is no such call.
pub fn zero_range(file: BorrowedFd<'_>, offset_bytes: u64, len_bytes: u64) -> io::Result<()> {
    allocate(file, libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE, offset_bytes, len_bytes)
}

/// Offset of the first data at `offset_bytes` or behind it; `None` if there is a hole up to the end. A file system
/// without holes has data everywhere.
pub fn next_data(file: BorrowedFd<'_>, offset_bytes: u64) -> io::Result<Option<u64>> {
    match seek(file, offset_bytes, libc::SEEK_DATA) {
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        found => found.map(Some),
    }
}

/// Offset of the first hole at `offset_bytes` or behind it. The end of the file is one.
pub fn next_hole(file: BorrowedFd<'_>, offset_bytes: u64) -> io::Result<u64> {
    seek(file, offset_bytes, libc::SEEK_HOLE)
}

/// Moves the position of the open file, which nobody uses.
fn seek(file: BorrowedFd<'_>, offset_bytes: u64, from: libc::c_int) -> io::Result<u64> {
    let offset = libc::off_t::try_from(offset_bytes).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open for as long as it is borrowed; no pointers are passed.
    let found = unsafe { libc::lseek(file.as_raw_fd(), offset, from) };
    u64::try_from(found).map_err(|_| io::Error::last_os_error())
}

fn allocate(file: BorrowedFd<'_>, mode: libc::c_int, offset_bytes: u64, len_bytes: u64) -> io::Result<()> {
    let signed = |bytes: u64| libc::off_t::try_from(bytes).map_err(io::Error::other);
    let (offset, len) = (signed(offset_bytes)?, signed(len_bytes)?);
    // SAFETY: the descriptor is open for as long as it is borrowed; no pointers are passed.
    check(unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, len) }).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    #[test]
    fn regular_files_alone_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let [file, fifo, link, none] = ["file", "fifo", "link", "none"].map(|name| dir.path().join(name));
        fs::write(&file, "text").unwrap();
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        symlink(&file, &link).unwrap();
        let opened = |path: &Path| {
            let all = [open_regular(path, false), open_regular(path, true), open_unlinked(path)];
            (all.map(|file| file.is_ok()), create_unlinked(path).is_ok())
        };
        assert_eq!(opened(&file), ([true; 3], true));
        assert_eq!(fs::read_to_string(&file).unwrap(), "text");
        for other in [&*fifo, dir.path(), Path::new("/dev/null")] {
            assert_eq!(opened(other), ([false; 3], false), "{}", other.display());
        }
        assert_eq!(opened(&link), ([true, true, false], false));
        assert_eq!(opened(&none), ([false; 3], true));
    }
}
