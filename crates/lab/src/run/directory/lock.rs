//! Lock on a run directory, so that one run at a time writes there.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::run::error::LabError;

/// Held until the run has ended, however it ends. The directory itself is locked: that leaves no file behind and ends
/// with the process.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    pub(in crate::run) fn take(out: &Path) -> Result<Lock, LabError> {
        let file = File::open(out).map_err(LabError::file(out))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(TryLockError::WouldBlock) => Err(LabError::Busy(out.to_owned())),
            Err(TryLockError::Error(source)) => Err(LabError::File { path: out.to_owned(), source }),
        }
    }
}

/// Closing alone would leave it locked for as long as a child that another thread has just forked still has the file.
impl Drop for Lock {
    fn drop(&mut self) {
        // A failure has no receiver: the file is closed in any case.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_free_at_once_whoever_else_has_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::take(dir.path()).unwrap();
        assert!(matches!(Lock::take(dir.path()), Err(LabError::Busy(_))));
        // As a child has it between fork and exec.
        let copy = lock.0.try_clone().unwrap();
        drop(lock);
        assert!(Lock::take(dir.path()).is_ok());
        drop(copy);
    }
}
