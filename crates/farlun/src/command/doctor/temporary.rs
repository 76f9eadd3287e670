//! A temporary directory for tables: private to the user, and removed in the end, also if a signal ends the run.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;

use net::EndSignals;

use crate::exit::FAILED;

/// Attempts to remove a directory that other threads still write to.
const ATTEMPTS: usize = 16;

/// The end of the program on a signal, with the directory to remove.
pub(super) struct Ending(Arc<OnceLock<PathBuf>>);

/// The directory.
pub(super) struct Temporary(PathBuf);

impl Ending {
    /// Takes the signals over: before any thread starts that is not to be ended by them.
    pub(super) fn watch() -> io::Result<Ending> {
        let signals = EndSignals::take_over()?;
        let path = Arc::new(OnceLock::new());
        let doomed = Arc::<OnceLock<PathBuf>>::clone(&path);
        thread::Builder::new().name("end-signals".to_owned()).spawn(move || {
            while !signals.came() {
                if net::wait::readable([signals.as_fd()], None).is_err() {
                    return;
                }
            }
            doomed.get().into_iter().for_each(|path| remove(path));
            std::process::exit(FAILED.into());
        })?;
        Ok(Ending(path))
    }
}

impl Temporary {
    /// Makes it.
    pub(super) fn create(ending: &Ending) -> io::Result<Temporary> {
        let mut random = [0; 8];
        net::random::fill(&mut random);
        let name = format!("farlun-doctor-{:016x}", u64::from_le_bytes(random));
        let made = Temporary(std::env::temp_dir().join(name));
        DirBuilder::new().mode(0o700).create(&made.0)?;
        ending.0.get_or_init(|| made.0.clone());
        Ok(made)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes a directory in which tables may still be created. A rest that cannot be removed stays among the temporary
/// files.
fn remove(path: &Path) {
    for _ in 0..ATTEMPTS {
        if std::fs::remove_dir_all(path).is_ok() || !path.exists() {
            return;
        }
    }
}
