//! A directory for tables that are not kept: for nobody else to read, and gone in the end, also where a signal ends the
//! run.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;

use net::EndSignals;

use crate::exit::FAILED;

/// The directory.
pub(super) struct Temporary(PathBuf);

impl Temporary {
    /// Makes it; the end that a signal asks for comes when it is removed.
    pub(super) fn create(signals: EndSignals) -> io::Result<Temporary> {
        let mut random = [0; 8];
        net::random::fill(&mut random);
        let name = format!("farlun-doctor-{:016x}", u64::from_le_bytes(random));
        let made = Temporary(std::env::temp_dir().join(name));
        DirBuilder::new().mode(0o700).create(&made.0)?;
        let path = made.0.clone();
        thread::Builder::new().name("end-signals".to_owned()).spawn(move || {
            while !signals.came() {
                if net::wait::readable([signals.as_fd()], None).is_err() {
                    return;
                }
            }
            remove(&path);
            std::process::exit(FAILED.into());
        })?;
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

/// What is left behind lies among the temporary files.
fn remove(path: &Path) {
    let _ = std::fs::remove_dir_all(path);
}
