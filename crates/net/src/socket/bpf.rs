//! BPF programs for the sockets of this process's control group (bpf(2)): verified, compiled and attached by the
//! kernel, and removed with this process.
//!
//! Needs CAP_BPF and CAP_NET_ADMIN, and control groups of version 2. Programs have a few instructions in the
//! little-endian encoding (Documentation/bpf/standardization/instruction-set.rst); there is no compiler and no loader.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use crate::syscall::check;

// linux/bpf.h
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_PROG_TYPE_CGROUP_SOCKOPT: u32 = 25;
const BPF_CGROUP_SETSOCKOPT: u32 = 22;

/// One instruction.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Instruction {
    /// Operation code.
    pub(crate) code: u8,
    /// Destination register, and in the upper four bits the source register.
    pub(crate) registers: u8,
    /// Offset from an address or of a jump.
    pub(crate) offset: i16,
    /// Immediate value.
    pub(crate) value: i32,
}

/// The beginning of union bpf_attr, as BPF_PROG_LOAD has it.
#[repr(C)]
struct Load {
    kind: u32,
    instructions: u32,
    instructions_at: u64,
    license_at: u64,
    log_level: u32,
    log_bytes: u32,
    log_at: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attached_as: u32,
}

/// The beginning of union bpf_attr for BPF_LINK_CREATE.
#[repr(C)]
struct Link {
    program: u32,
    target: u32,
    attached_as: u32,
    flags: u32,
}

/// A program that runs when a socket option is set; detached on drop.
#[derive(Debug)]
pub(crate) struct OnSetOption {
    _link: OwnedFd,
}

impl OnSetOption {
    /// Attaches a program for all processes in the control group of this one.
    pub(crate) fn attach(program: &[Instruction], license: &CStr) -> io::Result<OnSetOption> {
        let program = load(program, license)?;
        let group = File::open(own_group()?)?;
        let link = Link {
            program: raw(&program),
            target: raw(&group),
            attached_as: BPF_CGROUP_SETSOCKOPT,
            flags: 0,
        };
        Ok(OnSetOption { _link: bpf(BPF_LINK_CREATE, &link)? })
    }
}

fn load(program: &[Instruction], license: &CStr) -> io::Result<OwnedFd> {
    let load = Load {
        kind: BPF_PROG_TYPE_CGROUP_SOCKOPT,
        instructions: u32::try_from(program.len()).unwrap_or(u32::MAX),
        instructions_at: program.as_ptr() as u64,
        license_at: license.as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log_at: 0,
        kernel_version: 0,
        flags: 0,
        name: [0; 16],
        interface: 0,
        attached_as: BPF_CGROUP_SETSOCKOPT,
    };
    bpf(BPF_PROG_LOAD, &load)
}

/// Calls bpf(2) for a command that returns a descriptor.
fn bpf<A>(command: libc::c_int, attributes: &A) -> io::Result<OwnedFd> {
    // SAFETY: the pointer and length describe `attributes`, which holds nothing but integers; the memory at their
    // addresses outlives the call, which only reads it.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<A>()) };
    let fd = check(libc::c_int::try_from(result).unwrap_or(-1))?;
    // SAFETY: the kernel has just returned this descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn raw(fd: &impl AsRawFd) -> u32 {
    fd.as_raw_fd().unsigned_abs()
}

/// The directory of this process' control group of version 2.
fn own_group() -> io::Result<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    group_in(&groups, &mounts)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no control groups of version 2 are mounted"))
}

/// Finds the directory in the contents of /proc/PID/cgroup and mountinfo (proc(5)).
fn group_in(groups: &str, mounts: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounted = mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        (kind.starts_with("cgroup2 ") && root == "/").then_some(at)
    })?;
    Some(PathBuf::from(mounted).join(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_where_it_is_mounted() {
        let mounts = "22 1 0:20 / /sys rw - sysfs sysfs rw\n\
                      31 22 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      32 22 0:28 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        let group = |groups: &str| group_in(groups, mounts).map(|path| path.display().to_string());
        assert_eq!(group("0::/\n").as_deref(), Some("/sys/fs/cgroup/unified/"));
        assert_eq!(
            group("4:memory:/a\n0::/system.slice/farlun.service\n").as_deref(),
            Some("/sys/fs/cgroup/unified/system.slice/farlun.service")
        );
        assert_eq!(group("4:memory:/a\n"), None, "there is none of version 2");
        assert_eq!(group_in("0::/\n", "22 1 0:20 / /sys rw - sysfs sysfs rw\n"), None, "it is not mounted");
    }
}
