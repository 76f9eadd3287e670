//! Aggregation of small frames: a line that packs them into frames of its own, as SONET does with Ethernet.
//!
//! A small frame waits for the next frame of the line and leaves with all others that wait, without a gap:
//! acknowledgements arrive in bunches, and the gaps between bunches are multiples of the line's period. A large frame
//! fills the waiting frame, which then leaves immediately before it: data are not delayed and nothing is reordered.

use std::collections::VecDeque;

use core::time::Duration;

use event::Instant;

use crate::{Dropped, Packet, Stage};

/// A frame up to this many bytes of IP is small: an acknowledgement with all its options, not a segment of data.
pub const SMALL_BYTES: u32 = 128;

/// Packs small frames together.
#[derive(Debug)]
pub struct Merge {
    period: Duration,
    waiting: VecDeque<Packet>,
    /// Departure of the frame that they wait for.
    tick: Instant,
    left: VecDeque<(Instant, Packet)>,
}

impl Merge {
    /// A line with a frame every `period`, at the multiples of it.
    pub fn new(period: Duration) -> Merge {
        assert!(!period.is_zero(), "frames take time");
        Merge { period, waiting: VecDeque::new(), tick: Instant::ZERO, left: VecDeque::new() }
    }

    fn leave(&mut self, at: Instant) {
        self.left.extend(self.waiting.drain(..).map(|packet| (at, packet)));
    }

    fn advance(&mut self, now: Instant) {
        if self.tick <= now {
            self.leave(self.tick);
        }
    }

    /// The first multiple of the period that is not before `now`.
    fn tick_after(&self, now: Instant) -> Instant {
        let period_ns = self.period.as_nanos() as u64;
        Instant::from_nanos(now.as_nanos().div_ceil(period_ns).saturating_mul(period_ns))
    }
}

impl Stage for Merge {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        self.advance(now);
        if packet.ip_bytes <= SMALL_BYTES {
            if self.waiting.is_empty() {
                self.tick = self.tick_after(now);
            }
            self.waiting.push_back(packet);
        } else {
            self.leave(now);
            self.left.push_back((now, packet));
        }
        Ok(())
    }

    fn next_at(&self) -> Option<Instant> {
        let waiting = (!self.waiting.is_empty()).then_some(self.tick);
        self.left.front().map(|(left, _)| *left).or(waiting)
    }

    fn pop(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        self.advance(now);
        self.left.pop_front_if(|(left, _)| *left <= now)
    }

    fn shortest(&self) -> Duration {
        Duration::ZERO
    }
}
