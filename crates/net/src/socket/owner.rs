//! Owners of sockets, and network namespaces in use, from /proc.
//!
//! A scan of all files of all processes takes milliseconds, so only new sockets need one. Without privilege, processes
//! of other users are invisible, and sockets of the kernel belong to no process.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::namespace::Namespace;

/// A process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Process ID.
    pub pid: u32,
    /// Name of the process, as set by itself or its parent.
    pub name: String,
}

/// Processes that have the sockets with these inode numbers open; of several the first. Sockets without a visible owner
/// are omitted.
pub fn of_sockets(inodes: &[u32]) -> HashMap<u32, Process> {
    let mut owners = HashMap::new();
    for pid in pids() {
        // Processes may end during the scan, and those of other users are not readable.
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        for file in files.flatten() {
            let Ok(target) = fs::read_link(file.path()) else { continue };
            let number = target.to_str().and_then(|name| name.strip_prefix("socket:[")?.strip_suffix(']'));
            let Some(inode) = number.and_then(|number| number.parse().ok()) else { continue };
            if inodes.contains(&inode) {
                owners.entry(inode).or_insert_with(|| Process { pid, name: name(pid) });
            }
        }
        if owners.len() == inodes.len() {
            break;
        }
    }
    owners
}

/// A network namespace with at least one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inhabited {
    /// Inode of the namespace, which identifies it.
    pub inode: u64,
    /// One of the processes in it.
    pub pid: u32,
}

/// Network namespaces of all visible processes, at most `most`.
pub fn namespaces(most: usize) -> Vec<Inhabited> {
    let mut found: Vec<Inhabited> = Vec::new();
    for pid in pids() {
        let Ok(about) = fs::metadata(format!("/proc/{pid}/ns/net")) else { continue };
        if found.len() < most && found.iter().all(|known| known.inode != about.ino()) {
            found.push(Inhabited { inode: about.ino(), pid });
        }
    }
    found
}

/// Opens the namespace of a process, or the one kept by a file such as `/run/netns/NAME`.
pub fn namespace(pid_or_path: &str) -> io::Result<Namespace> {
    let path = match pid_or_path.parse::<u32>() {
        Ok(pid) => PathBuf::from(format!("/proc/{pid}/ns/net")),
        Err(_) => Path::new(pid_or_path).to_owned(),
    };
    Namespace::open(&path)
}

fn pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn name(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    // Process names are arbitrary.
    name.trim_end().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_socket_of_ours_is_ours() {
        use std::os::fd::AsRawFd;
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        let text = link.to_str().unwrap();
        let inode = text.trim_start_matches("socket:[").trim_end_matches(']').parse().unwrap();
        let owners = of_sockets(&[inode, u32::MAX]);
        assert_eq!(owners[&inode].pid, std::process::id());
        assert!(!owners[&inode].name.is_empty() && owners.len() == 1);
    }

    #[test]
    fn our_namespace_is_inhabited() {
        let ours = Namespace::current().unwrap().inode().unwrap();
        assert!(namespaces(1000).iter().any(|found| found.inode == ours));
        let by_pid = namespace(&std::process::id().to_string()).unwrap();
        assert_eq!(by_pid.inode().unwrap(), ours);
        assert!(namespace("/nowhere").is_err());
    }
}
