//! The clock: CLOCK_MONOTONIC, the `t_ns` of every table.
#![allow(unsafe_code)]

use event::Instant;

/// Now, on CLOCK_MONOTONIC.
pub fn now() -> Instant {
    Instant::from_nanos(read(libc::CLOCK_MONOTONIC))
}

/// CPU time this process has used in all its threads, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid place for the kernel to write one timespec to.
    let failed = unsafe { libc::clock_gettime(clock, &mut ts) };
    assert_eq!(failed, 0, "clock {clock} exists on every Linux");
    ts.tv_sec.unsigned_abs() * 1_000_000_000 + ts.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_runs_backwards() {
        let (a, b) = (now(), now());
        assert!(b >= a && a > Instant::ZERO);
        assert!(process_cpu_ns() > 0);
    }
}
