//! The file that something is read into: under another name until all of it is there.
//!
//! Only a regular file is ever replaced: what is at its place otherwise (a device, a pipe, a folder) is refused before
//! anything is read, and a link is followed to the file it names.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::exit::Exit;

/// A file that is being filled.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    partial: PathBuf,
}

impl Output {
    /// Begins a file that is to be `path`.
    pub(crate) fn create(path: &Path) -> anyhow::Result<(Output, File)> {
        let shown = path.display();
        let path = match fs::canonicalize(path) {
            Ok(path) => path,
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
        // What an earlier run has left goes; a link there is not followed, now or when the file is made.
        match fs::symlink_metadata(&partial) {
            Ok(left) if left.is_dir() => {
                return Err(Exit::usage(format!("{} is a folder", partial.display())));
            }
            Ok(_) => fs::remove_file(&partial).with_context(cannot)?,
            Err(_) => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&partial).with_context(cannot)?;
        if let Some(before) = before {
            file.set_permissions(before.permissions()).with_context(cannot)?;
        }
        Ok((Output { path, partial }, file))
    }

    /// What it is called until it is complete.
    pub(crate) fn partial(&self) -> &Path {
        &self.partial
    }

    /// It is complete.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let Output { path, partial } = self;
        fs::rename(&partial, &path)
            .with_context(|| format!("cannot rename {} to {}", partial.display(), path.display()))
    }
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
        // Somebody else's link where the partial file is made.
        fs::write(at("precious"), "precious").unwrap();
        symlink(at("precious"), at("old.partial")).unwrap();
        let (output, file) = Output::create(&at("link")).unwrap();
        std::io::Write::write_all(&mut &file, b"new").unwrap();
        assert_eq!(fs::read(at("old")).unwrap(), b"old");
        output.finish().unwrap();
        assert_eq!(fs::read(at("old")).unwrap(), b"new");
        assert_eq!(fs::read(at("precious")).unwrap(), b"precious");
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        assert_eq!(fs::metadata(at("old")).unwrap().permissions().mode() & 0o777, 0o640);
    }
}
