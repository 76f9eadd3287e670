//! Scheduling of threads: real-time priority, timer slack, CPU affinity.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use crate::syscall::check;

/// Gives the calling thread precedence over all ordinary threads (SCHED_FIFO). Needs CAP_SYS_NICE.
pub fn realtime(priority: i32) -> io::Result<()> {
    // The kernel's sched_param is this one number, and applies to a thread; musl's function, which would have to set a
    // whole process, always fails.
    let parameter: libc::c_int = priority;
    let policy = libc::SCHED_FIFO;
    // SAFETY: `parameter` is valid for the call; thread 0 is the calling one.
    let failed = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const parameter) };
    check(failed as libc::c_int).map(|_| ())
}

/// Maximum number of CPUs in the kernel's masks (CONFIG_NR_CPUS of distributions).
const CPUS_MAX: usize = 8192;
const MASK_BITS: usize = libc::c_ulong::BITS as usize;
const MASK_WORDS: usize = CPUS_MAX / MASK_BITS;

/// The CPUs that the calling thread may run on, in ascending order.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let mut mask: [libc::c_ulong; MASK_WORDS] = [0; MASK_WORDS];
    // A direct system call, since the sets of C libraries end at CPU 1023.
    // SAFETY: `mask` is as long as is said, and thread 0 is the calling one.
    let filled =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr()) };
    check(filled as libc::c_int)?;
    Ok((0..CPUS_MAX).filter(|cpu| mask[cpu / MASK_BITS] >> (cpu % MASK_BITS) & 1 == 1).collect())
}

/// Restricts the calling thread to these CPUs. Allocates nothing.
pub fn keep_to(cpus: &[usize]) -> io::Result<()> {
    let mut mask: [libc::c_ulong; MASK_WORDS] = [0; MASK_WORDS];
    for cpu in cpus {
        let word = mask.get_mut(cpu / MASK_BITS).ok_or(io::ErrorKind::InvalidInput)?;
        *word |= 1 << (cpu % MASK_BITS);
    }
    // SAFETY: `mask` is as long as is said, and thread 0 is the calling one.
    let failed = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&mask), mask.as_ptr()) };
    check(failed as libc::c_int).map(drop)
}

/// Gives the calling thread the lowest priority (nice 19), for work without a deadline.
pub fn background() -> io::Result<()> {
    // SAFETY: no pointers are passed; ID 0 is the calling thread.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) }).map(|_| ())
}

/// Disables the timer slack of the calling thread: the kernel delays timers to bundle them (50 µs by default).
pub fn exact_timers() -> io::Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes its nanoseconds by value.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) }).map(|_| ())
}

/// Keeps idle CPUs out of deep sleep states, whose wake-up takes tens of microseconds, as long as the handle lives (the
/// kernel's PM QoS: a latency of at most 0 µs is requested). Needs root, and a kernel that supports it.
pub fn stay_awake() -> io::Result<File> {
    let mut request = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
    request.write_all(&0_i32.to_ne_bytes())?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_put_and_others_do_not() {
        let allowed = allowed_cpus().unwrap();
        assert!(!allowed.is_empty() && allowed.is_sorted());
        let last = *allowed.last().unwrap();
        let pinned = std::thread::spawn(move || {
            keep_to(&[last]).unwrap();
            allowed_cpus().unwrap()
        });
        assert_eq!(pinned.join().unwrap(), [last]);
        assert_eq!(allowed_cpus().unwrap(), allowed);
        keep_to(&allowed).unwrap();
        assert_eq!(allowed_cpus().unwrap(), allowed);
        for none in [CPUS_MAX - 1, CPUS_MAX, usize::MAX] {
            assert_eq!(keep_to(&[none]).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{none}");
        }
    }
}
