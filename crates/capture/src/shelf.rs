//! Files that count together, of one capture or of all captures of a host: the oldest are removed when there are too many.
//!
//! A file that is being written is never removed.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::CaptureError;

/// Files in the order of their beginning, shared by those who write them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shelf(Arc<Mutex<VecDeque<Held>>>);

#[derive(Debug)]
struct Held {
    path: PathBuf,
    is_written: bool,
}

impl Shelf {
    /// Adds a file that is being written.
    pub(crate) fn add(&self, path: &Path) {
        self.lock().push_back(Held { path: path.to_owned(), is_written: true });
    }

    /// Marks a file as whole: nothing more is written to it.
    pub(crate) fn close(&self, path: &Path) {
        self.lock().iter_mut().filter(|held| held.path == path).for_each(|held| held.is_written = false);
    }

    /// Returns whether a file is among them.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        self.lock().iter().any(|held| held.path == path)
    }

    /// Removes the oldest whole files beyond `most`; returns their number.
    pub(crate) fn trim(&self, most: usize) -> Result<u64, CaptureError> {
        let mut held = self.lock();
        let mut removed = 0;
        while held.len() > most
            && let Some(oldest) = held.iter().position(|held| !held.is_written)
            && let Some(Held { path, .. }) = held.remove(oldest)
        {
            match fs::remove_file(&path) {
                Ok(()) => removed += 1,
                // Somebody has put it away.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(CaptureError::File { path, source }),
            }
        }
        Ok(removed)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_whole_file_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::default();
        let paths: Vec<PathBuf> = ["a", "b", "c", "d"].map(|name| dir.path().join(name)).into();
        for path in &paths {
            fs::write(path, "").unwrap();
            shelf.add(path);
        }
        assert_eq!(shelf.trim(1).unwrap(), 0, "all are being written");
        shelf.close(&paths[1]);
        shelf.close(&paths[2]);
        assert_eq!(shelf.trim(3).unwrap(), 1);
        assert_eq!(paths.iter().map(|path| shelf.holds(path)).collect::<Vec<_>>(), [true, false, true, true]);
        fs::remove_file(&paths[2]).unwrap();
        assert_eq!(shelf.trim(1).unwrap(), 0, "somebody has put it away");
        assert!(!paths[1].exists() && paths[0].exists() && !shelf.holds(&paths[2]));
    }
}
