//! Small files of the target's own state: read and replaced as a whole.
//!
//! A new state is written under another name, made durable and renamed, so that after a crash the file has the old or
//! the new one. Symbolic links are not followed: the folder may be one that others can write to.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::lun::identity::random;

/// Longest file that is read; longer ones are none of ours.
const MOST_BYTES: u64 = 256 << 20;

/// The text of a file, `None` if there is no file.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    let file = match net::fs::open_unlinked(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Creates a file with this text, which is on stable storage then: `ErrorKind::AlreadyExists` if there is one. Several
/// processes may do so at once: one succeeds, and none sees a part of the text. Its folder is made if needed.
pub(crate) fn create(path: &Path, text: &str) -> io::Result<()> {
    let dir = folder(path);
    fs::create_dir_all(dir).map_err(|error| match error.kind() {
        // A file is in the place of the folder.
        ErrorKind::AlreadyExists => ErrorKind::NotADirectory.into(),
        _ => error,
    })?;
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{:016x}.new", random()));
    let draft = Path::new(&draft);
    let created = write_new(draft, text).and_then(|()| match fs::hard_link(draft, path) {
        // File systems without links, such as vfat.
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => {
            write_new(path, text)
        }
        linked => linked,
    });
    // The draft exists unless the first step failed.
    let _ = fs::remove_file(draft);
    created?;
    File::open(dir)?.sync_all()
}

/// Fails where [`create`] would, as far as can be seen without creating anything.
pub(crate) fn check_create(path: &Path) -> io::Result<()> {
    for dir in folder(path).ancestors() {
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        match fs::metadata(dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(found) if found.is_dir() => return net::fs::check_writable(dir),
            Ok(_) => return Err(ErrorKind::NotADirectory.into()),
        }
    }
    Err(ErrorKind::NotFound.into())
}

/// Writes a file that does not exist yet; nothing is left of it if that fails.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Replaces the text of a file, which is on stable storage then. Its folder is made if needed.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(folder(path))?;
    overwrite(path, text)
}

/// Replaces the text of a file in an existing folder. A missing folder, of an unmounted file system for instance, is
/// not created.
pub(crate) fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    // A file left by an earlier crash, or placed there by another process.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    write_new(Path::new(&new), text)?;
    fs::rename(&new, path)?;
    File::open(folder(path))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/state");
        assert_eq!(read(&path).unwrap(), None);
        assert_eq!(overwrite(&path, "one").unwrap_err().kind(), ErrorKind::NotFound);
        assert!(!dir.path().join("below").exists());
        for text in ["one", "another"] {
            replace(&path, text).unwrap();
            assert_eq!(read(&path).unwrap().as_deref(), Some(text));
        }
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path().join("below")).unwrap().count(), 1, "nothing is left lying about");
    }

    #[test]
    fn a_file_is_created_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/state");
        create(&path, "one").unwrap();
        assert_eq!(create(&path, "another").unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(read(&path).unwrap().as_deref(), Some("one"));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path().join("below")).unwrap().count(), 1, "no draft is left");
        symlink("nowhere", dir.path().join("link")).unwrap();
        assert_eq!(create(&dir.path().join("link"), "one").unwrap_err().kind(), ErrorKind::AlreadyExists);
        let below_a_file = create(&path.join("state"), "one").unwrap_err();
        assert_eq!(below_a_file.kind(), ErrorKind::NotADirectory);
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let [path, new, other] = ["state", "state.new", "other"].map(|name| dir.path().join(name));
        fs::write(&other, "precious").unwrap();
        symlink(&other, &new).unwrap();
        symlink(&other, &path).unwrap();
        assert!(read(&path).is_err(), "another file is read");
        replace(&path, "state").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
        assert_eq!(read(&path).unwrap().as_deref(), Some("state"));
        assert!(!path.symlink_metadata().unwrap().is_symlink());
    }
}
