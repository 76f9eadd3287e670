//! The paths that run on this machine, so that `farlun wan enter` finds the newest.
//!
//! One small file per run, in /run/farlun for root and $XDG_RUNTIME_DIR/farlun for others. A file whose
//! process is gone is removed by whoever looks next.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use net::clock;
use net::namespace::Namespace;
use serde::{Deserialize, Serialize};

use crate::{Side, WanError};

/// Where a running path can be entered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Entry {
    pid: u32,
    /// When the process started, in clock ticks: tells it from a later one with the same number.
    pid_start_ticks: u64,
    /// When the path was ready, on CLOCK_MONOTONIC.
    t_ns: u64,
    near_descriptor: i32,
    far_descriptor: i32,
}

/// The entry of a run; removed when this is dropped.
pub(crate) struct Registered {
    file: PathBuf,
}

impl Registered {
    pub(crate) fn new(near: &Namespace, far: &Namespace) -> Result<Registered, WanError> {
        let pid = std::process::id();
        let directory = directory();
        // One process may run several paths; their descriptors differ as long as they run.
        let name = format!("wan-{pid}-{}", near.descriptor());
        let file = directory.join(format!("{name}.json"));
        let failed = |source| WanError::Registry { path: file.clone(), source };
        let entry = Entry {
            pid,
            pid_start_ticks: start_ticks(pid).map_err(failed)?,
            t_ns: clock::now().as_nanos(),
            near_descriptor: near.descriptor(),
            far_descriptor: far.descriptor(),
        };
        fs::create_dir_all(&directory).map_err(failed)?;
        // Sweeps away what killed runs have left.
        running(&directory);
        // Written beside and renamed: nobody reads half an entry.
        let draft = directory.join(format!(".{name}"));
        let text = serde_json::to_string(&entry).map_err(io::Error::other).map_err(failed)?;
        fs::write(&draft, text).and_then(|()| fs::rename(&draft, &file)).map_err(failed)?;
        Ok(Registered { file })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // A file that stays behind is stale and is removed by the next one who looks.
        let _ = fs::remove_file(&self.file);
    }
}

/// Opens one end of the path of this user that started last.
pub fn newest(side: Side) -> Result<Namespace, WanError> {
    let entry =
        running(&directory()).into_iter().max_by_key(|entry| entry.t_ns).ok_or(WanError::NoneRunning)?;
    let descriptor = match side {
        Side::Near => entry.near_descriptor,
        Side::Far => entry.far_descriptor,
    };
    let path = PathBuf::from(format!("/proc/{}/fd/{descriptor}", entry.pid));
    Namespace::open(&path).map_err(|source| WanError::Registry { path, source })
}

fn directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if fs::metadata("/proc/self").is_ok_and(|me| !is_root(&me)) => {
            Path::new(&runtime).join("farlun")
        }
        _ => PathBuf::from("/run/farlun"),
    }
}

fn is_root(me: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(me) == 0
}

/// The entries whose processes live. Removes the others.
fn running(directory: &Path) -> Vec<Entry> {
    let Ok(files) = fs::read_dir(directory) else { return Vec::new() };
    let mut found = Vec::new();
    for file in files.flatten() {
        let name = file.file_name();
        if !name.to_str().is_some_and(|name| name.starts_with("wan-") && name.ends_with(".json")) {
            continue;
        }
        let entry = fs::read(file.path()).ok().and_then(|text| serde_json::from_slice::<Entry>(&text).ok());
        match entry {
            Some(entry) if start_ticks(entry.pid).is_ok_and(|start| start == entry.pid_start_ticks) => {
                found.push(entry);
            }
            _ => drop(fs::remove_file(file.path())),
        }
    }
    found
}

/// Field 22 of /proc/PID/stat. The name before it is in parentheses and may contain anything.
fn start_ticks(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let field = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19)?.parse().ok());
    field.ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat has no start time")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_processes_that_are_gone_are_removed() {
        let directory = tempfile::tempdir().expect("a directory for a test");
        let me = std::process::id();
        let entry = |pid, pid_start_ticks| Entry {
            pid,
            pid_start_ticks,
            t_ns: 1,
            near_descriptor: 3,
            far_descriptor: 4,
        };
        let start = start_ticks(me).expect("this process runs");
        for (name, entry) in
            [("wan-1.json", entry(me, start)), ("wan-2.json", entry(me, start + 1)), ("other", entry(me, 0))]
        {
            fs::write(directory.path().join(name), serde_json::to_string(&entry).unwrap()).unwrap();
        }
        fs::write(directory.path().join("wan-3.json"), "half an ent").unwrap();
        assert_eq!(running(directory.path()), [entry(me, start)]);
        let mut left: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["other", "wan-1.json"]);
    }
}
