//! The clock: CLOCK_MONOTONIC, the `t_ns` of every table.
#![allow(unsafe_code)]

use std::time::Duration;

use event::Instant;

use crate::stamps::Stamp;

/// How old the offset between the clocks may be.
const OFFSET_KEEPS: Duration = Duration::from_millis(500);
/// Readings to choose the best of: one that was interrupted says little.
const READINGS: usize = 4;

/// Now, on CLOCK_MONOTONIC.
pub fn now() -> Instant {
    Instant::from_nanos(read(libc::CLOCK_MONOTONIC))
}

/// CPU time this process has used in all its threads, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time that the calling thread has used, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Puts stamps of CLOCK_REALTIME on CLOCK_MONOTONIC. The clocks drift apart as the first is set and trimmed, so the
/// offset is looked at again twice a second.
#[derive(Clone, Copy, Debug)]
pub struct Realtime {
    offset_ns: i64,
    until: Instant,
}

impl Realtime {
    /// Looks at both clocks.
    pub fn new() -> Realtime {
        Realtime { offset_ns: offset_ns(), until: now() + OFFSET_KEEPS }
    }

    /// When it was on CLOCK_MONOTONIC; `now` is at most half a second old.
    pub fn monotonic(&mut self, stamp: Stamp, now: Instant) -> Instant {
        if now >= self.until {
            *self = Realtime::new();
        }
        Instant::from_nanos(stamp.0.saturating_add_signed(-self.offset_ns))
    }
}

impl Default for Realtime {
    fn default() -> Realtime {
        Realtime::new()
    }
}

/// How far CLOCK_REALTIME is ahead, read where the fewest nanoseconds passed between the readings.
fn offset_ns() -> i64 {
    let readings = (0..READINGS).map(|_| {
        let (before, real, after) =
            (read(libc::CLOCK_MONOTONIC), read(libc::CLOCK_REALTIME), read(libc::CLOCK_MONOTONIC));
        (after - before, real.wrapping_sub(before + (after - before) / 2).cast_signed())
    });
    readings.min().map_or(0, |(_, offset_ns)| offset_ns)
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

    #[test]
    fn stamps_are_put_between_what_was_before_and_after() {
        let mut clock = Realtime::new();
        // Another process may set the clock; then the second look is right again.
        let holds = (0..3).any(|_| {
            let before = now();
            let stamp = Stamp(read(libc::CLOCK_REALTIME));
            let after = now();
            let found = clock.monotonic(stamp, after + OFFSET_KEEPS);
            let slack = Duration::from_micros(50);
            found + slack >= before && after + slack >= found
        });
        assert!(holds);
    }
}
