//! User namespaces: root privilege over own namespaces for unprivileged users.
//!
//! In its own user namespace a process may create network namespaces and devices and configure them; it gains no
//! privilege over existing objects. See user_namespaces(7).
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use crate::syscall::check;

/// Returns true if this process may create network namespaces without a user namespace.
pub fn is_privileged() -> bool {
    // SAFETY: no pointers are passed, and the call cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Moves this process, which must have a single thread, into a new user namespace in which it is root.
pub fn become_root() -> io::Result<()> {
    // SAFETY: no pointers are passed, and the calls cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: no pointers are passed.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER) })?;
    // Without this the kernel takes no map of groups from a process without privilege.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

/// Moves this process, which must have a single thread, into the user namespace of the process `pid`, unless it is
/// there already.
pub fn join(pid: u32) -> io::Result<()> {
    let namespace = File::open(format!("/proc/{pid}/ns/user"))?;
    if namespace.metadata()?.ino() == fs::metadata("/proc/self/ns/user")?.ino() {
        return Ok(());
    }
    // SAFETY: no pointers are passed.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWUSER) }).map(|_| ())
}

/// User ID outside the user namespace: the effective user before [`become_root`].
pub fn outside() -> u32 {
    // SAFETY: no pointers are passed, and the call cannot fail.
    let inside = unsafe { libc::geteuid() };
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    outside_of(inside, &map).unwrap_or(inside)
}

/// Lines of first user inside, first user outside, count.
fn outside_of(inside: u32, map: &str) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut words = line.split_whitespace().map(str::parse::<u32>);
        let (first, outside, count) = (words.next()?.ok()?, words.next()?.ok()?, words.next()?.ok()?);
        let offset = inside.checked_sub(first).filter(|offset| *offset < count)?;
        outside.checked_add(offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_users_are_read() {
        assert_eq!(outside_of(0, "         0       1000          1\n"), Some(1000));
        assert_eq!(outside_of(7, "0 0 4294967295\n"), Some(7));
        assert_eq!(outside_of(7, "0 1000 1\n1 100000 65536\n"), Some(100_006));
        assert_eq!(outside_of(7, "0 1000 1\n"), None);
        assert_eq!(outside_of(7, ""), None);
    }
}
