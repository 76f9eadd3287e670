//! Files that LUNs of a plan are in: made before the first cell, removed after the last.
//!
//! They are in the run directory and full of bytes that no store takes for a hole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::plan::Lun;
use crate::run::error::LabError;

/// Bytes that are written at a time.
const PIECE: usize = 1 << 20;

/// Files of a run in progress.
#[derive(Debug)]
pub(in crate::run) struct Stores(Vec<PathBuf>);

/// Path of the file of a LUN.
pub(in crate::run) fn path(run_dir: &Path, number: usize) -> PathBuf {
    run_dir.join(format!("lun{number}.img"))
}

impl Stores {
    /// Makes all files of the plan.
    pub(in crate::run) fn make(run_dir: &Path, luns: &[Lun]) -> Result<Stores, LabError> {
        let mut stores = Stores(Vec::new());
        for (number, bytes) in luns.iter().enumerate().filter_map(|(n, lun)| Some((n, lun.made_bytes()?))) {
            let path = path(run_dir, number);
            stores.0.push(path.clone());
            fill(&path, bytes, number as u64).map_err(LabError::file(&path))?;
        }
        Ok(stores)
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        // A file that cannot be removed stays visible in the run directory.
        self.0.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

fn fill(path: &Path, mut bytes: u64, seed: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut piece = vec![0; PIECE];
    while bytes > 0 {
        let len = usize::try_from(bytes).unwrap_or(PIECE).min(PIECE);
        random.fill(&mut piece[..len]);
        file.write_all(&piece[..len])?;
        bytes -= len as u64;
    }
    // A read must find it on the disk, not on its way there.
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use crate::plan::{Plan, Variant};

    use super::*;

    #[test]
    fn files_are_there_while_they_are_wanted() {
        let plan = r#"
            name = "stores"
            title = "a file"
            [[lun]]
            kind = "memory"
            size = "1MiB"
            [[lun]]
            kind = "file"
            size = "3MiB"
            direct = true
            [[load]]
            name = "raw"
            kind = "stream"
            window = "1s"
        "#;
        let luns = Plan::parse(plan, Variant::Full).unwrap().far.luns;
        let dir = tempfile::tempdir().unwrap();
        let stores = Stores::make(dir.path(), &luns).unwrap();
        let file = dir.path().join("lun1.img");
        assert_eq!(fs::read(&file).unwrap().len(), 3 << 20);
        assert_eq!(luns[1].argument(1, &path(dir.path(), 1)), format!("file:{},direct=on", file.display()));
        drop(stores);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
