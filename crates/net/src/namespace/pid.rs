//! Child processes in a PID namespace of their own: the kernel kills all of them when the init process of the namespace
//! ends for any reason. See pid_namespaces(7).
//!
//! A thread that has unshared the PID namespace of its children can start no threads, and an unprivileged user cannot
//! revert that. So the children have a dedicated thread as parent, which lives as long as they do.
#![allow(unsafe_code)]

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::ptr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::namespace::Namespace;
use crate::process::child;
use crate::process::scheduling;
use crate::syscall::check;

type Job = Box<dyn FnOnce() + Send>;

/// A parent of child processes, with or without a PID namespace. Drop ends the parent and the children bound to it.
pub struct Nursery {
    /// `None`: the calling thread is the parent.
    thread: Option<(Sender<Job>, JoinHandle<()>)>,
    /// Inode of the PID namespace.
    inside: Option<u64>,
}

impl Nursery {
    /// Uses the calling thread as parent, in the current PID namespace; the thread must outlive the children.
    pub fn plain() -> Nursery {
        Nursery { thread: None, inside: None }
    }

    /// Creates a parent with a new PID namespace that has its own /proc, and its init process: `command`, which
    /// inherits `kept` and does not end with the parent.
    ///
    /// # Errors
    /// Namespaces or mounts are not permitted, as in many containers.
    pub fn with_init(mut command: Command, kept: Vec<RawFd>) -> io::Result<(Nursery, Child)> {
        let (jobs, work): (Sender<Job>, Receiver<Job>) = channel();
        let body = move || work.into_iter().for_each(|job| job());
        let thread = thread::Builder::new().name("nursery".into()).spawn(body)?;
        let mut nursery = Nursery { thread: Some((jobs, thread)), inside: None };
        let begin = move || {
            // SAFETY: no pointers are passed; it concerns the children of this thread only.
            check(unsafe { libc::unshare(libc::CLONE_NEWPID) })?;
            // SAFETY: these only make system calls: they neither allocate nor lock.
            unsafe {
                command.pre_exec(own_proc);
                command.pre_exec(move || kept.iter().try_for_each(|fd| inherit(*fd)));
            }
            let init = command.spawn()?;
            let inside = fs::metadata("/proc/thread-self/ns/pid_for_children")?.ino();
            Ok((init, inside))
        };
        let (init, inside) = nursery.run(begin)?;
        nursery.inside = Some(inside);
        Ok((nursery, init))
    }

    /// Inode of the children's PID namespace, if it is a separate one.
    pub const fn inside(&self) -> Option<u64> {
        self.inside
    }

    /// Starts a command in a network namespace, bound to this parent; it runs on the CPUs allowed to the calling
    /// thread.
    pub fn spawn_in(&self, namespace: &Namespace, mut command: Command) -> io::Result<Child> {
        let descriptor = namespace.descriptor();
        if self.thread.is_none() {
            return child::spawn_in(descriptor, &mut command);
        }
        let cpus = scheduling::allowed_cpus()?;
        // SAFETY: it only makes system calls, which neither allocate nor lock.
        unsafe { command.pre_exec(own_proc) };
        self.run(move || {
            scheduling::keep_to(&cpus)?;
            child::spawn_in(descriptor, &mut command)
        })
    }

    /// Runs `work` on the parent's thread.
    fn run<T: Send + 'static>(&self, work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
        let gone = || io::Error::other("the thread that starts commands is gone");
        let (jobs, _) = self.thread.as_ref().ok_or_else(gone)?;
        let (told, result) = channel();
        // The caller waits for the result.
        let job = move || drop(told.send(work()));
        jobs.send(Box::new(job)).map_err(|_| gone())?;
        result.recv().map_err(|_| gone())?
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        if let Some((jobs, thread)) = self.thread.take() {
            drop(jobs);
            let _ = thread.join();
        }
    }
}

/// Mount points of disks on a mount without propagation. Mount namespaces of children keep copies of these disks'
/// mounts, which an unmount outside does not reach: the disks stay in use until the children have ended.
pub fn private_disks() -> io::Result<Vec<String>> {
    Ok(disks_without_propagation(&fs::read_to_string("/proc/thread-self/mountinfo")?))
}

/// Parses a table as in proc_pid_mountinfo(5); the root, which is never unmounted, and bind mounts are omitted.
fn disks_without_propagation(table: &str) -> Vec<String> {
    let mounts = || {
        table.lines().filter_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            Some((before.split(' ').collect::<Vec<_>>(), after.split(' ').nth(1)?))
        })
    };
    let is_told = |fields: &[&str]| fields.iter().any(|field| field.starts_with("shared:"));
    // Mount ID, parent ID, device, root, mount point, options, optional fields.
    let told: HashSet<&str> = mounts()
        .filter(|(words, _)| words.len() > 6 && is_told(&words[6..]))
        .map(|(words, _)| words[0])
        .collect();
    let disk = |(words, source): (Vec<&str>, &str)| {
        let &[_, parent, _, root, at, ..] = &words[..] else { return None };
        let is_disk = source.starts_with("/dev/") && root == "/" && at != "/";
        (is_disk && !told.contains(parent)).then(|| at.to_owned())
    };
    mounts().filter_map(disk).collect()
}

/// Inode of the calling process's PID namespace.
pub fn pid_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// Lets the kernel reap child processes, started or inherited, for which this process does not wait, as the init
/// process of a PID namespace must.
pub fn collect_all() {
    // SAFETY: SIG_IGN is no handler that could do anything.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Gives the calling process, just forked, a mount namespace with the /proc of its PID namespace. Mounts outside
/// propagate into it, but not the reverse.
fn own_proc() -> io::Result<()> {
    // SAFETY: no pointers are passed.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    let flags = libc::MS_REC | libc::MS_SLAVE;
    // SAFETY: strings that end with a zero and null pointers, which the call allows where nothing is mounted.
    check(unsafe { libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), flags, ptr::null()) })?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let (proc, at) = (c"proc".as_ptr(), c"/proc".as_ptr());
    // SAFETY: as above; /proc takes no data.
    check(unsafe { libc::mount(proc, at, proc, flags, ptr::null()) }).map(drop)
}

/// Keeps a descriptor open across the exec of the calling process, just forked.
fn inherit(fd: RawFd) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }).map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::Stdio;
    use std::time::Duration;

    use super::*;
    use crate::polling::wait;
    use std::os::fd::AsFd;

    #[test]
    fn disks_that_an_unmount_does_not_free_are_found() {
        let table = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                     28 27 8:1 / /mnt/a rw shared:6 - xfs /dev/sda1 rw\n\
                     29 28 8:2 / /mnt/a/b rw,relatime - ext4 /dev/sdb rw\n\
                     30 27 8:3 / /mnt/c rw master:7 propagate_from:2 - ext4 /dev/sdc rw\n\
                     31 30 8:4 / /mnt/c/d rw unbindable - ext4 /dev/sdd rw\n\
                     32 27 8:5 /hosts /etc/hosts rw - ext4 /dev/sde rw\n\
                     33 27 0:9 / /run rw - tmpfs tmpfs rw\nhalf a line\n";
        assert_eq!(disks_without_propagation(table), ["/mnt/a", "/mnt/c", "/mnt/c/d"]);
        assert!(private_disks().is_ok());
    }

    #[test]
    fn the_end_of_the_first_child_is_that_of_all() {
        let mut init = Command::new("cat");
        init.stdin(Stdio::piped()).stdout(Stdio::piped());
        let (nursery, mut init) = match Nursery::with_init(init, Vec::new()) {
            Ok(made) => made,
            Err(error) => {
                println!("skipped: the_end_of_the_first_child_is_that_of_all: {error}");
                return;
            }
        };
        init.stdin.as_mut().unwrap().write_all(b"ready").unwrap();
        init.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
        let here = Namespace::current().unwrap();
        let mut shell = Command::new("sh");
        // The shell ends; its child keeps the pipe open. Process IDs are those of /proc.
        let line =
            "setsid sleep 1000 & test -d /proc/$! && test ! -e /proc/$PPID && readlink /proc/self/ns/pid";
        let mut shell = nursery
            .spawn_in(&here, {
                shell.args(["-c", line]).stdout(Stdio::piped());
                shell
            })
            .unwrap();
        assert!(shell.wait().unwrap().success());
        let mut stdout = shell.stdout.take().unwrap();
        let mut said = [0; 64];
        let len = stdout.read(&mut said).unwrap();
        let said = String::from_utf8_lossy(&said[..len]).into_owned();
        assert_eq!(said.trim(), format!("pid:[{}]", nursery.inside().unwrap()));
        assert_ne!(nursery.inside().unwrap(), pid_namespace().unwrap());
        let is_open = wait::readable([stdout.as_fd()], Some(Duration::ZERO)).unwrap();
        assert_eq!(is_open, [false], "the stray lives");
        init.kill().unwrap();
        init.wait().unwrap();
        assert_eq!(stdout.read(&mut [0]).unwrap(), 0, "the stray has ended with the init");
        assert!(nursery.spawn_in(&here, Command::new("true")).is_err(), "nothing begins after it");
    }
}
