//! Source of the bytes of a LUN: memory, nothing, a file, or a block device.

use std::path::PathBuf;

use event::Bytes;

/// Kinds of LUNs: the words before the colon of a specification.
pub(super) const KINDS: [&str; 4] = ["memory", "null", "file", "block"];

/// Source of the bytes of a LUN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// `memory:SIZE`: zeros at first, gone with the process.
    Memory {
        /// Size of the memory.
        len: Bytes,
    },
    /// `null:SIZE`: reads return zeros, writes are discarded.
    Null {
        /// Reported size.
        len: Bytes,
    },
    /// `file:PATH`: an existing file.
    File {
        /// The file.
        path: PathBuf,
    },
    /// `block:PATH`: a block device.
    Block {
        /// The device.
        path: PathBuf,
    },
}

impl Source {
    /// The word before the colon.
    pub fn kind(&self) -> &'static str {
        match self {
            Source::Memory { .. } => KINDS[0],
            Source::Null { .. } => KINDS[1],
            Source::File { .. } => KINDS[2],
            Source::Block { .. } => KINDS[3],
        }
    }

    /// Returns true if the contents end with the process.
    pub fn is_volatile(&self) -> bool {
        matches!(self, Source::Memory { .. } | Source::Null { .. })
    }
}
