//! The clock: CLOCK_MONOTONIC, the `t_ns` of every table.
#![allow(unsafe_code)]

use std::time::Duration;

use event::Instant;

use crate::stamps::Stamp;

/// Maximum age of the offset between the clocks.
const OFFSET_KEEPS: Duration = Duration::from_millis(500);
/// Number of readings, of which the best counts: an interrupted reading is inexact.
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

/// Converts timestamps of CLOCK_REALTIME to CLOCK_MONOTONIC. The clocks drift apart because the first is set and
/// slewed, so the offset is measured twice a second.
#[derive(Clone, Copy, Debug)]
pub struct Realtime {
    offset_ns: i64,
    until: Instant,
}

impl Realtime {
    /// Measures the offset.
    pub fn new() -> Realtime {
        Realtime { offset_ns: offset_ns(), until: now() + OFFSET_KEEPS }
    }

    /// Time on CLOCK_MONOTONIC; `now` is at most half a second old.
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

/// Offset of CLOCK_REALTIME from CLOCK_MONOTONIC, from the reading with the least time between its samples.
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
        // Another process may set the clock; then the second measurement is correct again.
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
