//! Watch over the files of LUNs: deletion, renaming, replacement and truncation by other processes. A thread does the
//! checks, because a file system may answer late. Each finding is one line in the log.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::serve::log;
use block::{Finding, Watched};

/// Interval between two checks.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Thread that checks the files.
pub(crate) struct StoreWatch {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct Shared {
    files: Mutex<Vec<(u16, Arc<Watched>)>>,
    is_over: AtomicBool,
}

impl StoreWatch {
    /// Starts the watch over files, by the numbers of their LUNs.
    pub(crate) fn start(files: Vec<(u16, Arc<Watched>)>) -> io::Result<StoreWatch> {
        let shared = Arc::new(Shared { files: Mutex::new(files), is_over: AtomicBool::new(false) });
        let watch = {
            let shared = Arc::clone(&shared);
            move || {
                let mut found = Found::default();
                while !shared.is_over.load(Ordering::Acquire) {
                    thread::park_timeout(LOOK_EVERY);
                    let files = shared.files.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    found.look(&files).into_iter().for_each(|line| log(format_args!("{line}")));
                }
            }
        };
        let thread = thread::Builder::new().name("store-watch".to_owned()).spawn(watch)?;
        Ok(StoreWatch { shared, thread: thread.thread().clone() })
    }

    /// Other LUNs are served.
    pub(crate) fn set(&self, files: Vec<(u16, Arc<Watched>)>) {
        *self.shared.files.lock().unwrap_or_else(PoisonError::into_inner) = files;
    }
}

/// The thread is not joined: it may hang with a file system.
impl Drop for StoreWatch {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Last finding on each file.
#[derive(Debug, Default)]
struct Found(HashMap<(u16, *const Watched), Finding>);

impl Found {
    /// Checks all files; returns a line for each new finding.
    fn look(&mut self, files: &[(u16, Arc<Watched>)]) -> Vec<String> {
        let key = |(number, file): &(u16, Arc<Watched>)| (*number, Arc::as_ptr(file));
        self.0.retain(|known, _| files.iter().any(|file| key(file) == *known));
        let mut lines = Vec::new();
        for file in files {
            match file.1.look() {
                Ok(Some(finding)) if self.0.get(&key(file)) != Some(&finding) => {
                    lines.push(format!("LUN {}: {finding}", file.0));
                    self.0.insert(key(file), finding);
                }
                Ok(None) => drop(self.0.remove(&key(file))),
                // Reads and writes fail as well, and say so.
                Ok(Some(_)) | Err(_) => {}
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::lun::{Luns, Opening};

    #[test]
    fn the_same_is_said_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        fs::write(&path, [7; 8192]).unwrap();
        let specs = [(3, format!("file:{}", path.display()).parse().unwrap())];
        let luns = Luns::open(&specs.into(), Opening::of("iqn.t", None)).unwrap();
        let (files, mut found) = (luns.watched(), Found::default());
        assert_eq!(found.look(&files), [""; 0]);
        fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(4096)).unwrap();
        let lines = found.look(&files);
        assert!(
            lines.len() == 1 && lines[0].starts_with("LUN 3: ") && lines[0].contains("shrunk"),
            "{lines:?}"
        );
        assert_eq!(found.look(&files), [""; 0]);
        fs::remove_file(&path).unwrap();
        let lines = found.look(&files);
        assert!(lines.len() == 1 && lines[0].contains("was deleted"), "{lines:?}");
        assert_eq!(found.look(&files), [""; 0]);
        assert!(found.look(&[]).is_empty() && found.0.is_empty(), "it is served no more");
    }
}
