//! Modes and errors of opening a file or a block device.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Mode of opening a file or a block device.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OpenAs {
    /// It is not written.
    pub read_only: bool,
    /// Past the page cache.
    pub direct: bool,
}

/// Why a file or a block device cannot be served.
#[derive(Debug, Error)]
pub enum OpenError {
    /// There is no such file.
    #[error("{} does not exist; create it first, for example: truncate -s 10G {}", path.display(), path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A directory, a device, a pipe.
    #[error("{} is {found}, expected {expected}", path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
        /// Kind found.
        found: &'static str,
        /// Kind expected.
        expected: &'static str,
    },
    /// The size does not make whole blocks.
    #[error(
        "{} has {len_bytes} bytes, which is not a positive multiple of the block size of {block_len_bytes} bytes; \
         round it up: truncate -s %{block_len_bytes} {} (an empty file needs a size: truncate -s 10G)",
        path.display(), path.display()
    )]
    Size {
        /// The file.
        path: PathBuf,
        /// Its size.
        len_bytes: u64,
        /// Bytes per block of the LUN.
        block_len_bytes: u32,
    },
    /// Somebody else serves it.
    #[error(
        "{} is locked: it is served already, by another target or by another --lun of this one; \
         stop that one (only read-only LUNs may share a file: file:PATH,ro)",
        path.display()
    )]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// A block device that is in use.
    #[error(
        "{} is in use: mounted, part of a RAID or volume group, or served already; unmount it, or stop who uses it",
        path.display()
    )]
    InUse {
        /// The device.
        path: PathBuf,
    },
    /// A block device that cannot be addressed in blocks of that size.
    #[error(
        "{} has blocks of {found_bytes} bytes and cannot be served in smaller ones of {block_len_bytes} bytes; \
         use block={found_bytes}",
        path.display()
    )]
    Block {
        /// The device.
        path: PathBuf,
        /// Its own.
        found_bytes: u32,
        /// Bytes per block of the LUN.
        block_len_bytes: u32,
    },
    /// A block device without a block: a drive without a medium, a loop device without a file.
    #[error("{} has no blocks; put something into it first", path.display())]
    Empty {
        /// The device.
        path: PathBuf,
    },
    /// The file system has no I/O past the page cache.
    #[error("{} cannot be used past the page cache: its file system does not do that; use direct=off", path.display())]
    NoDirect {
        /// The file.
        path: PathBuf,
    },
    /// The system refused to open, examine or lock it.
    #[error("cannot {action} {}: {source}", path.display())]
    System {
        /// Action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}
