//! Child processes: start in a namespace, end with their parent, wait, signals.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use crate::namespace::enter_raw;
use crate::process::limits;
use crate::syscall::check;

/// A signal that ends processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// SIGTERM: request to end.
    Terminate,
    /// SIGKILL: immediate end.
    Kill,
}

/// Starts `command`. The kernel kills the child when the calling *thread* ends for any reason (PR_SET_PDEATHSIG): call
/// this from a thread that lives long enough. The child receives signals as usual, even those that the caller has
/// blocked.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let parent = std::process::id();
    let open_files = limits::open_files_of_others();
    // SAFETY: both only make system calls: they neither allocate nor lock.
    unsafe { command.pre_exec(move || open_files.map_or(Ok(()), limits::set_open_files)) };
    // SAFETY: as above.
    unsafe { command.pre_exec(move || bind(parent)) };
    command.spawn()
}

/// Like [`spawn`], inside the network namespace that `descriptor` holds.
pub(crate) fn spawn_in(descriptor: RawFd, command: &mut Command) -> io::Result<Child> {
    // SAFETY: it is one system call, which neither allocates nor locks.
    unsafe { command.pre_exec(move || enter_raw(descriptor)) };
    spawn(command)
}

/// Makes the calling process, just forked, end with its parent, and clears its signal mask, which is inherited through
/// fork and exec.
fn bind(parent: u32) -> io::Result<()> {
    // SAFETY: an all-zero set is a valid place for sigemptyset to fill, PR_SET_PDEATHSIG takes its signal by value, and
    // the old mask is not requested.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        check(libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()))?;
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong))?;
    }
    // The parent may have died before the call above, and the signal would never arrive. A parent in an outer PID
    // namespace has no number here.
    if ![parent, 0].contains(&std::os::unix::process::parent_id()) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}

/// A descriptor that becomes readable when the child has ended (pidfd_open(2)).
pub fn ending(child: &Child) -> io::Result<OwnedFd> {
    let pid = libc::c_long::from(child.id() as i32);
    // SAFETY: no pointers are passed.
    let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0 as libc::c_long) };
    let raw = check(raw as libc::c_int)?;
    // SAFETY: the kernel has just returned this descriptor, closed on exec, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Sends `signal` to the process `pid`; a process that has ended is no error.
pub fn signal(pid: u32, signal: Signal) {
    let number = match signal {
        Signal::Terminate => libc::SIGTERM,
        Signal::Kill => libc::SIGKILL,
    };
    // SAFETY: no pointers are passed. ESRCH means that the process has ended already.
    let _ = unsafe { libc::kill(pid.cast_signed(), number) };
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_program_has_the_limit_of_open_files_that_there_was() {
        let limit_of_program = || {
            let mut command = Command::new("sh");
            let child = spawn(command.args(["-c", "ulimit -n"]).stdout(Stdio::piped()));
            let said = child.and_then(Child::wait_with_output).expect("a shell").stdout;
            String::from_utf8(said).expect("numbers")
        };
        let raised = limits::raise_open_files().expect("up to the hard limit");
        // Equal limits would leave nothing to restore.
        let half = libc::rlimit { rlim_cur: raised / 2, rlim_max: raised };
        limits::set_open_files(half).expect("it is lower");
        let before = limit_of_program();
        limits::raise_open_files().expect("up to the hard limit");
        assert_eq!(limit_of_program(), before);
        let soft = before.lines().next().and_then(|soft| soft.parse::<u64>().ok());
        assert!(soft.is_some_and(|soft| soft < raised), "{before:?} of {raised}");
    }
}
