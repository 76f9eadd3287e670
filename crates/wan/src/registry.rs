//! The paths that run on this machine, so that `farlun wan enter` finds the newest.
//!
//! One small file per run, in /run/farlun for root, in $XDG_RUNTIME_DIR/farlun or /tmp/farlun-UID for others. A file whose
//! process is gone is removed at the next look.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use net::namespace::Namespace;
use net::{clock, nursery, user};
use serde::{Deserialize, Serialize};

use crate::environment::environment;
use crate::guard::INIT;
use crate::host::Host;
use crate::site::Site;
use crate::{HostName, Spec, WanError};

/// Where a running path can be entered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Entry {
    pid: u32,
    /// When the process started, in clock ticks: tells it from a later one with the same number.
    pid_start_ticks: u64,
    /// PID namespace in which the process has that number; 0 for the only one there is.
    #[serde(default)]
    outside: u64,
    /// PID namespace of the path's commands, whose init holds the same descriptors.
    #[serde(default)]
    inside: Option<u64>,
    /// When the path was ready, on CLOCK_MONOTONIC.
    t_ns: u64,
    /// The hosts' namespaces, by name.
    descriptors: BTreeMap<String, i32>,
    /// What commands in each find in their environment.
    environment: BTreeMap<String, BTreeMap<String, String>>,
}

/// A host of a path that runs.
#[derive(Debug)]
pub struct Entrance {
    /// The process that runs the path.
    pub pid: u32,
    /// The host's network namespace.
    pub namespace: Namespace,
    /// What commands in it find in their environment.
    pub environment: BTreeMap<String, String>,
}

/// The entry of a run; removed when this is dropped.
pub(crate) struct Registered {
    file: PathBuf,
}

impl Registered {
    pub(crate) fn new(spec: &Spec, site: &Site) -> Result<Registered, WanError> {
        let hosts = site.hosts();
        let pid = std::process::id();
        let directory = directory();
        own(&directory).map_err(|source| WanError::Registry { path: directory.clone(), source })?;
        // One process may run several paths; their descriptors differ as long as they run.
        let name = format!("wan-{pid}-{}", hosts[0].namespace.descriptor());
        let file = directory.join(format!("{name}.json"));
        let failed = |source| WanError::Registry { path: file.clone(), source };
        let entry = Entry {
            pid,
            pid_start_ticks: start_ticks(pid).map_err(failed)?,
            outside: nursery::pid_namespace().map_err(failed)?,
            inside: site.pid_namespace(),
            t_ns: clock::now().as_nanos(),
            descriptors: of_each(&hosts, |host| host.namespace.descriptor()),
            environment: of_each(&hosts, |host| environment(spec, host.name).into_iter().collect()),
        };
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
    // Before the user namespace is joined nobody but its owner may look into the process.
    user::join(pid)
        .map_err(|source| WanError::Registry { path: format!("/proc/{pid}/ns/user").into(), source })?;
    let path = PathBuf::from(format!("/proc/{pid}/fd/{descriptor}"));
    let namespace = Namespace::open(&path).map_err(|source| WanError::Registry { path, source })?;
    Ok(Entrance { pid, namespace, environment })
}

impl Entry {
    /// Number of the process that holds the namespaces, where this one is: for commands of the path that of their init.
    fn reached(&self) -> u32 {
        let own = nursery::pid_namespace().ok();
        if own.is_some() && own == self.inside { INIT } else { self.pid }
    }

    /// Returns whether the path is there; `None` if its process cannot be seen from here.
    fn is_running(&self) -> Option<bool> {
        let own = nursery::pid_namespace().unwrap_or(0);
        if self.inside == Some(own) {
            return Some(true);
        }
        let is_seen = self.outside == 0 || self.outside == own;
        is_seen.then(|| start_ticks(self.pid).is_ok_and(|start| start == self.pid_start_ticks))
    }
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

/// Makes the directory, which must be ours alone: others could send `enter` elsewhere.
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
        match (entry.as_ref().map_or(Some(false), Entry::is_running), entry) {
            (Some(true), Some(entry)) => found.push(entry),
            (None, _) => {}
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
        let outside = nursery::pid_namespace().expect("this process has one");
        let entry = |pid, pid_start_ticks| Entry {
            pid,
            pid_start_ticks,
            outside,
            inside: None,
            t_ns: 1,
            descriptors: [("near".to_owned(), 3), ("far".to_owned(), 4)].into(),
            environment: BTreeMap::new(),
        };
        let start = start_ticks(me).expect("this process runs");
        for (name, entry) in
            [("wan-1.json", entry(me, start)), ("wan-2.json", entry(me, start + 1)), ("other", entry(me, 0))]
        {
            fs::write(directory.path().join(name), serde_json::to_string(&entry).unwrap()).unwrap();
        }
        fs::write(directory.path().join("wan-3.json"), "half an ent").unwrap();
        // A path whose process is in another PID namespace, and one whose commands see this process.
        let hidden = Entry { outside: 1, ..entry(me, start + 1) };
        let around = Entry { inside: Some(outside), ..hidden.clone() };
        assert_eq!((hidden.reached(), around.reached()), (me, INIT));
        for (name, entry) in [("wan-4.json", &hidden), ("wan-5.json", &around)] {
            fs::write(directory.path().join(name), serde_json::to_string(entry).unwrap()).unwrap();
        }
        let mut found = running(directory.path());
        found.sort_by_key(|entry| entry.pid_start_ticks);
        assert_eq!(found, [entry(me, start), around]);
        let mut left: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["other", "wan-1.json", "wan-4.json", "wan-5.json"]);
    }
}
