//! An output file that has another name until it is complete.
//!
//! Only a regular file is ever replaced: anything else under its name (a device, a pipe, a folder) is refused before
//! the first read, and a link is followed to the file it names. One process at a time fills a file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use crate::exit::Exit;

/// A file that is being filled.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    partial: PathBuf,
    /// Locked for as long as it is being filled.
    file: File,
}

impl Output {
    /// Begins a file that is to be `path`.
    pub(crate) fn create(path: &Path) -> anyhow::Result<(Output, File)> {
        let shown = path.display();
        let path = match fs::canonicalize(path) {
            Ok(path) => path,
            Err(error)
                if error.kind() == ErrorKind::NotFound
                    && path.is_symlink()
                    && fs::metadata(path).is_err() =>
            {
                return Err(Exit::usage(format!("{shown} is a link to what is not there")));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(Exit::usage(format!("{shown}: {error}"))),
        };
        let before = match fs::metadata(&path) {
            Ok(found) if found.is_file() => Some(found),
            Ok(_) => {
                return Err(Exit::usage(format!(
                    "{shown} is no regular file, which is all that is ever replaced; name a file, or a new one"
                )));
            }
            Err(_) => None,
        };
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let cannot = || format!("cannot create {}", partial.display());
        // The rest of an earlier run is removed; a link there is not followed, now or when the file is made.
        match fs::symlink_metadata(&partial) {
            Ok(left) if left.is_dir() => {
                return Err(Exit::usage(format!("{} is a folder", partial.display())));
            }
            Ok(left) => {
                if left.is_file() && is_being_filled(&partial) {
                    let partial = partial.display();
                    return Err(Exit::usage(format!(
                        "another process is filling {partial}; name another file"
                    )));
                }
                fs::remove_file(&partial).with_context(cannot)?;
            }
            Err(_) => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&partial).with_context(cannot)?;
        // Without locks, two processes filling one file are not detected until the end.
        let _ = file.try_lock();
        if let Some(before) = before {
            file.set_permissions(before.permissions()).with_context(cannot)?;
        }
        let own = file.try_clone().with_context(cannot)?;
        Ok((Output { path, partial, file: own }, file))
    }

    /// Name of the file until it is complete.
    pub(crate) fn partial(&self) -> &Path {
        &self.partial
    }

    /// Gives the complete file its name.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let Output { path, partial, file } = self;
        let same =
            |one: &fs::Metadata, other: &fs::Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
        let own = file.metadata().with_context(|| format!("cannot look at {}", partial.display()))?;
        if !fs::symlink_metadata(&partial).is_ok_and(|there| same(&there, &own)) {
            return Err(anyhow!("{} has been taken away by another process; read again", partial.display()));
        }
        fs::rename(&partial, &path)
            .with_context(|| format!("cannot rename {} to {}", partial.display(), path.display()))
    }
}

/// Returns true if another process has the file locked. False on a file system without locks.
fn is_being_filled(path: &Path) -> bool {
    let left = OpenOptions::new().write(true).open(path);
    left.is_ok_and(|left| matches!(left.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Writes a whole file; an existing file is kept if that fails.
pub(crate) fn write(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    let (output, mut file) = Output::create(path)?;
    if let Err(error) = file.write_all(contents) {
        let _ = fs::remove_file(output.partial());
        return Err(anyhow!("cannot write {}: {error}", path.display()));
    }
    output.finish()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_regular_files_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for path in [dir.path(), Path::new("/dev/null")] {
            let error = Output::create(path).unwrap_err().to_string();
            assert!(error.contains("no regular file"), "{error}");
        }
        fs::write(at("old"), "old").unwrap();
        fs::set_permissions(at("old"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink(at("old"), at("link")).unwrap();
        // A link of another user at the name of the partial file.
        fs::write(at("precious"), "precious").unwrap();
        symlink(at("precious"), at("old.partial")).unwrap();
        let (output, file) = Output::create(&at("link")).unwrap();
        (&file).write_all(b"new").unwrap();
        assert_eq!(fs::read(at("old")).unwrap(), b"old");
        output.finish().unwrap();
        assert_eq!(fs::read(at("old")).unwrap(), b"new");
        assert_eq!(fs::read(at("precious")).unwrap(), b"precious");
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        assert_eq!(fs::metadata(at("old")).unwrap().permissions().mode() & 0o777, 0o640);
        symlink(at("nothing"), at("dangling")).unwrap();
        let error = Output::create(&at("dangling")).unwrap_err().to_string();
        assert!(error.contains("link to what is not there"), "{error}");
    }

    #[test]
    fn two_do_not_fill_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let (first, _file) = Output::create(&path).unwrap();
        let error = Output::create(&path).unwrap_err().to_string();
        assert!(error.contains("another process is filling"), "{error}");
        drop((first, _file));
        // The rest of a process that is gone.
        assert!(path.with_extension("partial").exists());
        let (second, _file) = Output::create(&path).unwrap();
        fs::remove_file(second.partial()).unwrap();
        fs::write(second.partial(), "somebody else's").unwrap();
        assert!(second.finish().unwrap_err().to_string().contains("taken away"));
        assert!(!path.exists());
    }
}
