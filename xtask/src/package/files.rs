//! Files of a package: read from `packaging/`, written with their modes, compressed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::step;
use crate::workspace;

/// Text of a file in `packaging/`.
pub(super) fn asset(name: &str) -> Result<String> {
    let path = workspace::root().join("packaging").join(name);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes a file of this mode, and the folders above it.
pub(super) fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let folder = path.parent().context("a file without a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    let permissions = fs::Permissions::from_mode(mode);
    fs::set_permissions(path, permissions)
        .with_context(|| format!("cannot set the mode of {}", path.display()))
}

/// Copies a file to a path with this mode.
pub(super) fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    write(to, &bytes, mode)
}

/// Compresses a file in place, without its name and time, to `PATH.gz`.
pub(super) fn compress(path: &Path) -> Result<()> {
    step::captured(Command::new("gzip").arg("-9n").arg(path)).map(drop)
}

/// Files of a folder, sorted.
pub(super) fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}
