//! A file behind a LUN and changes to it by other processes: its name, and truncation.
//!
//! A write beyond the end of a file makes it longer, with zeros in between. In a file that another process has
//! truncated they would be read as data. So a truncation is remembered, and I/O behind it fails until the file is opened anew.

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

/// A file that is served.
#[derive(Debug)]
pub struct Watched {
    path: PathBuf,
    /// Opened once more, without the lock.
    file: File,
    /// Size that it should have at least, in bytes.
    len_bytes: AtomicU64,
    /// The least size that it was found to have, if that is less.
    cut_bytes: AtomicU64,
    /// Its name led to it when it was opened.
    has_name: bool,
}

/// A request reaches beyond the place where the file was cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("it was cut to {cut_bytes} bytes, and had {len_bytes} when it was opened")]
pub(super) struct Cut {
    cut_bytes: u64,
    len_bytes: u64,
}

/// Something that was done to the file of a LUN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    path: PathBuf,
    kind: Kind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    Deleted,
    Replaced,
    Renamed,
    Cut(Cut),
}

impl Watched {
    pub(super) fn new(path: &Path, file: BorrowedFd<'_>, len_bytes: u64) -> io::Result<Watched> {
        let path = std::path::absolute(path)?;
        let file = net::fs::reopen(file)?;
        let own = file.metadata()?;
        let has_name = path.metadata().is_ok_and(|named| is_same(&own, &named));
        let (len_bytes, cut_bytes) = (AtomicU64::new(len_bytes), AtomicU64::new(u64::MAX));
        Ok(Watched { path, file, len_bytes, cut_bytes, has_name })
    }

    /// It has grown.
    pub(super) fn set_len(&self, len_bytes: u64) {
        self.len_bytes.store(len_bytes, Ordering::Relaxed);
    }

    /// Looks whether the file was cut: before each write, which would make it longer, and when a read finds its end.
    ///
    /// # Errors
    /// The range reaches beyond a cut.
    pub(super) fn check_now(&self, end_bytes: u64) -> io::Result<Result<(), Cut>> {
        self.note(&self.file.metadata()?);
        Ok(self.check(end_bytes))
    }

    /// The same by earlier checks, without a system call.
    ///
    /// # Errors
    /// The range reaches beyond a cut.
    pub(super) fn check(&self, end_bytes: u64) -> Result<(), Cut> {
        let cut = self.cut().filter(|cut| end_bytes > cut.cut_bytes);
        cut.map_or(Ok(()), Err)
    }

    /// Looks for changes of the file; may block.
    pub fn look(&self) -> io::Result<Option<Finding>> {
        let own = self.file.metadata()?;
        self.note(&own);
        let cut = self.cut().map(Kind::Cut);
        let named = match self.path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            named => Some(named?),
        };
        let kind = match named {
            _ if !self.has_name => cut,
            None if own.nlink() == 0 => Some(Kind::Deleted),
            None => Some(Kind::Renamed),
            Some(named) if !is_same(&own, &named) => Some(Kind::Replaced),
            Some(_) => cut,
        };
        Ok(kind.map(|kind| Finding { path: self.path.clone(), kind }))
    }

    /// Remembers a cut.
    fn note(&self, own: &Metadata) {
        if own.len() < self.len_bytes.load(Ordering::Relaxed) {
            self.cut_bytes.fetch_min(own.len(), Ordering::Relaxed);
        }
    }

    fn cut(&self) -> Option<Cut> {
        let (cut_bytes, len_bytes) =
            (self.cut_bytes.load(Ordering::Relaxed), self.len_bytes.load(Ordering::Relaxed));
        (cut_bytes < u64::MAX).then_some(Cut { cut_bytes, len_bytes })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.kind {
            Kind::Deleted => write!(
                f,
                "{path} was deleted while it is served; all of it is lost when the target ends: copy it through a session"
            ),
            Kind::Replaced => write!(
                f,
                "{path} is another file now; sessions use the old one until the LUN is removed and re-added"
            ),
            Kind::Renamed => write!(
                f,
                "{path} was renamed while it is served; sessions go on with it, and the next start will not find it"
            ),
            Kind::Cut(Cut { cut_bytes, len_bytes }) => write!(
                f,
                "{path} has shrunk from {len_bytes} to {cut_bytes} bytes while it is served; what was behind is lost, and \
                 fails with MEDIUM ERROR until the LUN is taken out and put in again"
            ),
        }
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::os::fd::AsFd;

    use super::*;

    const LEN_BYTES: u64 = 8192;

    fn watched(dir: &Path) -> (PathBuf, Watched) {
        let path = dir.join("disk");
        let file = File::create(&path).unwrap();
        file.set_len(LEN_BYTES).unwrap();
        let watched = Watched::new(&path, file.as_fd(), LEN_BYTES).unwrap();
        (path, watched)
    }

    fn said(watched: &Watched) -> String {
        watched.look().unwrap().map_or_else(String::new, |finding| finding.to_string())
    }

    #[test]
    fn what_is_done_to_a_file_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (path, watched) = watched(dir.path());
        assert_eq!(said(&watched), "");
        let other = dir.path().join("other");
        fs::rename(&path, &other).unwrap();
        assert!(said(&watched).contains("disk was renamed while it is served"), "{}", said(&watched));
        fs::write(&path, "another").unwrap();
        assert!(said(&watched).contains("disk is another file now"), "{}", said(&watched));
        fs::rename(&other, &path).unwrap();
        assert_eq!(said(&watched), "", "it is back");
        fs::write(&other, "another").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(said(&watched).contains("disk is another file now"), "{}", said(&watched));
        fs::remove_file(&path).unwrap();
        assert!(said(&watched).contains("disk was deleted while it is served"), "{}", said(&watched));
    }

    #[test]
    fn a_cut_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let (path, watched) = watched(dir.path());
        let set_len =
            |bytes| OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(bytes)).unwrap();
        watched.check_now(LEN_BYTES).unwrap().unwrap();
        set_len(4096);
        watched.check(LEN_BYTES).unwrap();
        assert!(said(&watched).contains("has shrunk from 8192 to 4096 bytes"), "{}", said(&watched));
        set_len(2 * LEN_BYTES);
        watched.check_now(4096).unwrap().unwrap();
        for checked in [watched.check_now(4097).unwrap(), watched.check(4097)] {
            let error = checked.unwrap_err().to_string();
            assert!(error.contains("it was cut to 4096 bytes, and had 8192"), "{error}");
        }
    }
}
