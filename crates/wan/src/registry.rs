//! Running paths of this machine, so that `farlun wan enter` finds the newest.
//!
//! One small file per run, in /run/farlun for root, in $XDG_RUNTIME_DIR/farlun or /tmp/farlun-UID for others. The run
//! holds a lock on it (flock(2)), which the kernel releases with the process and which is visible from all PID
//! namespaces: a file without a lock is removed by the next reader.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use net::clock;
use net::namespace::{Namespace, pid, user};
use serde::{Deserialize, Serialize};

use crate::commands::{Site, environment};
use crate::namespaces::Host;
use crate::namespaces::guard::INIT;
use crate::{HostName, Spec, WanError};

/// Age from which a draft without a lock is that of a run that was killed.
const DRAFT_TIME: Duration = Duration::from_secs(60);

/// Entry of a running path, for `farlun wan enter`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Entry {
    pid: u32,
    /// PID namespace of `pid`; 0 for an entry without one.
    #[serde(default)]
    outside: u64,
    /// PID namespace of the path's commands, whose init holds the same descriptors.
    #[serde(default)]
    inside: Option<u64>,
    /// Start of the path, on CLOCK_MONOTONIC.
    t_ns: u64,
    /// The hosts' namespaces, by name.
    descriptors: BTreeMap<String, i32>,
    /// Environment of the commands on each host.
    environment: BTreeMap<String, BTreeMap<String, String>>,
}

/// A host of a path that runs.
#[derive(Debug)]
pub struct Entrance {
    /// The process that runs the path.
    pub pid: u32,
    /// The host's network namespace.
    pub namespace: Namespace,
    /// Environment of commands on it.
    pub environment: BTreeMap<String, String>,
}

/// The entry of a run; removed when this is dropped.
pub(crate) struct Registered {
    path: PathBuf,
    locked: File,
}

impl Registered {
    pub(crate) fn new(spec: &Spec, site: &Site) -> Result<Registered, WanError> {
        let hosts = site.hosts();
        let pid = std::process::id();
        let directory = directory();
        own(&directory).map_err(|source| WanError::Registry { path: directory.clone(), source })?;
        let failed = |source| WanError::Registry { path: directory.clone(), source };
        let outside = pid::pid_namespace().map_err(failed)?;
        // One process may run several paths; their descriptors differ as long as they run. Processes of two PID namespaces
        // may have one number.
        let name = format!("wan-{outside}-{pid}-{}", hosts[0].namespace.descriptor());
        let path = directory.join(format!("{name}.json"));
        let failed = |source| WanError::Registry { path: path.clone(), source };
        let entry = Entry {
            pid,
            outside,
            inside: site.pid_namespace(),
            t_ns: clock::now().as_nanos(),
            descriptors: of_each(&hosts, |host| host.namespace.descriptor()),
            environment: of_each(&hosts, |host| environment(spec, host.name).into_iter().collect()),
        };
        // Removes the entries of killed runs.
        running(&directory);
        let locked = entry.write(&directory, &name).map_err(failed)?;
        Ok(Registered { path, locked })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // A file that stays behind is stale; the next reader removes it.
        remove(&self.path, &self.locked);
    }
}

/// Opens a host of the path of this user that started last.
pub fn newest(host: HostName) -> Result<Entrance, WanError> {
    let mut entry =
        running(&directory()).into_iter().max_by_key(|entry| entry.t_ns).ok_or(WanError::NoneRunning)?;
    let name = host.to_string();
    let Some(descriptor) = entry.descriptors.get(&name) else {
        let there = entry.descriptors.into_keys().collect::<Vec<_>>().join(", ");
        return Err(WanError::NoSuchHost { name: host, there });
    };
    let (pid, environment) = (entry.reached(), entry.environment.remove(&name).unwrap_or_default());
    // Before this process joins the user namespace, only its owner may open the process' files.
    user::join(pid)
        .map_err(|source| WanError::Registry { path: format!("/proc/{pid}/ns/user").into(), source })?;
    let path = PathBuf::from(format!("/proc/{pid}/fd/{descriptor}"));
    let namespace = Namespace::open(&path).map_err(|source| WanError::Registry { path, source })?;
    Ok(Entrance { pid, namespace, environment })
}

impl Entry {
    /// Writes the entry and locks it. Written beside and renamed, so that readers never see a partial entry, or one
    /// without its lock.
    fn write(&self, directory: &Path, name: &str) -> io::Result<File> {
        let draft = directory.join(format!(".{name}"));
        let text = serde_json::to_string(self).map_err(io::Error::other)?;
        // Of a run that was killed before it had renamed it: no other one has this name at the same time.
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::create_new(&draft)?;
        file.try_lock()?;
        file.write_all(text.as_bytes())?;
        fs::rename(&draft, directory.join(format!("{name}.json")))?;
        Ok(file)
    }

    /// PID of the process that holds the namespaces, as seen from here: for commands of the path that of their init.
    fn reached(&self) -> u32 {
        let own = pid::pid_namespace().ok();
        if own.is_some() && own == self.inside { INIT } else { self.pid }
    }

    /// True if the path's processes are visible from here.
    fn is_seen(&self) -> bool {
        let own = pid::pid_namespace().unwrap_or(0);
        self.inside == Some(own) || self.outside == 0 || self.outside == own
    }
}

/// Removes the file that `file` is open on, unless another one has its name by now.
fn remove(path: &Path, file: &File) {
    let is_it = |found: fs::Metadata, own: fs::Metadata| (found.dev(), found.ino()) == (own.dev(), own.ino());
    if fs::symlink_metadata(path).and_then(|found| Ok(is_it(found, file.metadata()?))).unwrap_or(false) {
        let _ = fs::remove_file(path);
    }
}

/// Returns true for a time within the last minute, or in the future.
fn is_recent(time: SystemTime) -> bool {
    time.elapsed().is_ok_and(|age| age < DRAFT_TIME) || time.elapsed().is_err()
}

/// True if the run that wrote an entry has ended.
fn is_over(file: &File) -> bool {
    // Shared, so that two that look at the same time do not take each other for the run.
    file.try_lock_shared().is_ok()
}

fn of_each<T>(hosts: &[Arc<Host>], what: impl Fn(&Host) -> T) -> BTreeMap<String, T> {
    hosts.iter().map(|host| (host.name.to_string(), what(host))).collect()
}

fn directory() -> PathBuf {
    let user = user::outside();
    match std::env::var_os("XDG_RUNTIME_DIR") {
        _ if user == 0 => PathBuf::from("/run/farlun"),
        Some(runtime) if Path::new(&runtime).is_dir() => Path::new(&runtime).join("farlun"),
        _ => std::env::temp_dir().join(format!("farlun-{user}")),
    }
}

/// Makes the directory, which must belong to this user alone: others could redirect `enter`.
fn own(directory: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(directory)?;
    let me = fs::metadata("/proc/self")?;
    match found.is_dir() && found.uid() == me.uid() {
        true => Ok(()),
        false => Err(io::Error::other("it is no directory of this user; remove it")),
    }
}

/// Entries of running paths that can be reached from here. Removes those of runs that have ended.
fn running(directory: &Path) -> Vec<Entry> {
    let Ok(files) = fs::read_dir(directory) else { return Vec::new() };
    let mut found = Vec::new();
    for listed in files.flatten() {
        let name = listed.file_name();
        let Some(name) = name.to_str() else { continue };
        // A run that was killed leaves a draft, too.
        let (is_draft, is_entry) =
            (name.starts_with(".wan-"), name.starts_with("wan-") && name.ends_with(".json"));
        if !is_draft && !is_entry {
            continue;
        }
        let Ok(file) = File::open(listed.path()) else { continue };
        if is_over(&file) {
            // A draft is without its lock for a moment after it is made.
            let is_new = || file.metadata().and_then(|found| found.modified()).is_ok_and(is_recent);
            if is_entry || !is_new() {
                remove(&listed.path(), &file);
            }
            continue;
        }
        if is_draft {
            continue;
        }
        let entry = serde_json::from_reader::<_, Entry>(&file).ok();
        found.extend(entry.filter(Entry::is_seen));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_runs_that_are_over_are_removed() {
        let directory = tempfile::tempdir().expect("a directory for a test");
        let directory = directory.path();
        let outside = pid::pid_namespace().expect("this process has one");
        let entry = |t_ns| Entry {
            pid: std::process::id(),
            outside,
            inside: None,
            t_ns,
            descriptors: [("near".to_owned(), 3), ("far".to_owned(), 4)].into(),
            environment: BTreeMap::new(),
        };
        // A path whose process is in another PID namespace, and one whose commands see this process.
        let hidden = Entry { outside: 1, ..entry(3) };
        let around = Entry { inside: Some(outside), ..Entry { outside: 1, ..entry(4) } };
        assert_eq!((hidden.reached(), around.reached()), (std::process::id(), INIT));
        let write = |entry: &Entry, name: &str| entry.write(directory, name).expect("an entry is written");
        let runs = [write(&entry(1), "wan-1"), write(&hidden, "wan-3"), write(&around, "wan-4")];
        // Of runs that have ended without removing theirs, wherever they were.
        drop([write(&entry(2), "wan-2"), write(&Entry { t_ns: 5, ..hidden.clone() }, "wan-5")]);
        for name in ["wan-6.json", "other"] {
            fs::write(directory.join(name), "half an ent").unwrap();
        }
        let reachable = || {
            let mut found = running(directory);
            found.sort_by_key(|entry| entry.t_ns);
            found
        };
        assert_eq!(reachable(), [entry(1), around]);
        let left = || {
            let files = fs::read_dir(directory).unwrap();
            let mut left: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
            left.sort();
            left
        };
        assert_eq!(left(), ["other", "wan-1.json", "wan-3.json", "wan-4.json"]);
        // Drafts: of a run that is about to begin, and of one that was killed.
        for (name, age) in [(".wan-7", Duration::ZERO), (".wan-8", 2 * DRAFT_TIME)] {
            let draft = File::create_new(directory.join(name)).unwrap();
            draft.set_modified(SystemTime::now() - age).unwrap();
        }
        assert_eq!(reachable().len(), 2);
        assert_eq!(left(), [".wan-7", "other", "wan-1.json", "wan-3.json", "wan-4.json"]);
        // The name is another run's by now.
        let again = write(&entry(6), "wan-1");
        remove(&directory.join("wan-1.json"), &runs[0]);
        assert_eq!(left().len(), 5, "the other run keeps its entry");
        remove(&directory.join("wan-1.json"), &again);
        fs::remove_file(directory.join(".wan-7")).unwrap();
        drop(runs);
        assert_eq!(reachable(), []);
        assert_eq!(left(), ["other"]);
    }
}
