//! Files with one common limit, of one capture or of all captures of a host: the oldest are removed beyond it.
//!
//! A file that is being written is never removed.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::CaptureError;

/// Hosts whose files are counted.
const SHELVES_MAX: usize = 1024;

/// Shelves of hosts, the most recently used one last.
#[derive(Debug, Default)]
pub(crate) struct Shelves(VecDeque<(IpAddr, Shelf)>);

impl Shelves {
    /// The shelf of a host. For a new one beyond [`SHELVES_MAX`] that of the host is forgotten whose last capture began
    /// longest ago and which has none that runs; its files stay.
    pub(crate) fn of(&mut self, host: IpAddr) -> Shelf {
        let found = self.0.iter().position(|(ip, _)| *ip == host).and_then(|place| self.0.remove(place));
        let (_, shelf) = found.unwrap_or_else(|| (host, Shelf::default()));
        if self.0.len() >= SHELVES_MAX
            && let Some(place) = self.0.iter().position(|(_, shelf)| !shelf.is_used())
        {
            self.0.remove(place);
        }
        self.0.push_back((host, shelf.clone()));
        shelf
    }
}

/// Files in the order of their beginning, shared by their writers.
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
                // The user has moved it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(CaptureError::File { path, source }),
            }
        }
        Ok(removed)
    }

    /// Returns whether a capture holds it.
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.0) > 1
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

    #[test]
    fn idle_hosts_are_forgotten_and_busy_ones_are_not() {
        let host = |n: usize| IpAddr::V4((n as u32).into());
        let mut shelves = Shelves::default();
        let busy = shelves.of(host(0));
        busy.add(Path::new("busy"));
        shelves.of(host(1)).add(Path::new("again"));
        for n in 2..SHELVES_MAX {
            shelves.of(host(n)).add(Path::new("idle"));
        }
        assert!(shelves.of(host(1)).holds(Path::new("again")));
        for n in SHELVES_MAX..SHELVES_MAX + 10 {
            shelves.of(host(n));
            assert_eq!(shelves.0.len(), SHELVES_MAX);
        }
        assert!(shelves.of(host(0)).holds(Path::new("busy")), "a capture is running");
        assert!(shelves.of(host(1)).holds(Path::new("again")), "it was used of late");
        assert!(!shelves.of(host(2)).holds(Path::new("idle")));
    }
}
