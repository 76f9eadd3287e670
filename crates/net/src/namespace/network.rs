//! Network namespaces: created on a dedicated thread, kept by a descriptor, entered by child processes.
//!
//! A namespace has neither a mount nor a name. It lives as long as its descriptor, its processes and its sockets, and
//! thus ends with the process that created it. Other processes reach it through `/proc/PID/fd/N`. See
//! network_namespaces(7).
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;

use crate::syscall::check;

/// A network namespace, open.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// Makes an empty namespace and runs `set_up` in it.
    ///
    /// `set_up` runs on a dedicated thread: a thread that has left its namespace must not return to a pool.
    pub fn create<T: Send>(set_up: impl FnOnce() -> io::Result<T> + Send) -> io::Result<(Namespace, T)> {
        on_a_thread(|| {
            // SAFETY: no pointers are passed; only the calling thread moves.
            check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
            Ok((Namespace::current()?, set_up()?))
        })
    }

    /// The namespace of the calling thread.
    pub fn current() -> io::Result<Namespace> {
        Ok(Namespace { file: File::open("/proc/thread-self/ns/net")? })
    }

    /// Opens a namespace that another process keeps, by the path of one of its descriptors.
    pub fn open(path: &Path) -> io::Result<Namespace> {
        Ok(Namespace { file: File::open(path)? })
    }

    /// Runs `work` on a thread inside the namespace.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        on_a_thread(|| {
            self.enter()?;
            work()
        })
    }

    /// Moves the calling thread, and the program that it executes afterwards, into the namespace.
    pub fn enter(&self) -> io::Result<()> {
        enter_raw(self.file.as_raw_fd())
    }

    /// The number of the descriptor, for `/proc/PID/fd/N`.
    pub fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Inode of the namespace, which identifies it while it exists.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.ino())
    }
}

/// [`Namespace::enter`] between fork and exec, when allocation is forbidden.
pub(crate) fn enter_raw(descriptor: i32) -> io::Result<()> {
    // SAFETY: no pointers are passed; only the calling thread moves.
    check(unsafe { libc::setns(descriptor, libc::CLONE_NEWNET) }).map(|_| ())
}

/// Processes whose network namespace is one of `inodes`, whatever their parent.
pub fn members(inodes: &[u64]) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // A process may end during the scan, and is then omitted.
    pids.filter(|pid| {
        let inside = fs::metadata(format!("/proc/{pid}/ns/net"));
        inside.is_ok_and(|namespace| inodes.contains(&namespace.ino()))
    })
    .collect()
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("namespace".into()).spawn_scoped(scope, work)?;
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
