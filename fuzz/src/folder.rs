//! Temporary folders for targets that read files.

use std::path::Path;

use tempfile::{Builder, TempDir};

/// A folder for one run of a target, in memory where there is one.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let mut builder = Builder::new();
    builder.prefix("farlun-fuzz-");
    let folder = if memory.is_dir() { builder.tempdir_in(memory) } else { builder.tempdir() };
    folder.expect("a folder")
}
