//! A timer tick: a host that polls for packets only when its clock ticks.
//!
//! All packets since the last tick leave at the next one, without a gap; departures lie on multiples of the tick,
//! also after a pause. A coalesced interrupt ([`Coalesce`](crate::Coalesce)) counts from the packet instead.

use std::collections::VecDeque;

use core::time::Duration;

use event::Instant;

use crate::{Dropped, Packet, Stage};

/// Lets packets through at the ticks of a clock.
#[derive(Debug)]
pub struct Tick {
    period: Duration,
    /// With the tick at which each leaves.
    waiting: VecDeque<(Instant, Packet)>,
}

impl Tick {
    /// A clock that ticks at the multiples of `period`.
    pub fn new(period: Duration) -> Tick {
        assert!(!period.is_zero(), "ticks take time");
        Tick { period, waiting: VecDeque::new() }
    }
}

impl Stage for Tick {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        let period_ns = self.period.as_nanos() as u64;
        let tick_ns = now.as_nanos().div_ceil(period_ns).saturating_mul(period_ns);
        self.waiting.push_back((Instant::from_nanos(tick_ns), packet));
        Ok(())
    }

    fn next_at(&self) -> Option<Instant> {
        self.waiting.front().map(|(tick, _)| *tick)
    }

    fn pop(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        self.waiting.pop_front_if(|(tick, _)| *tick <= now)
    }

    fn shortest(&self) -> Duration {
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Handle;

    #[test]
    fn what_came_between_two_ticks_leaves_at_the_second() {
        let mut tick = Tick::new(Duration::from_millis(1));
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        for us in [100, 999, 1_000, 1_001, 7_500] {
            tick.push(at(us), Packet::new(Handle(us), at(us), 1500, 1538, 1)).expect("no stage drops here");
        }
        assert_eq!(tick.next_at(), Some(at(1_000)));
        assert_eq!(tick.pop(at(999)), None);
        let left: Vec<_> = std::iter::from_fn(|| tick.pop(at(9_000))).map(|(left, _)| left).collect();
        assert_eq!(left, [at(1_000), at(1_000), at(1_000), at(2_000), at(8_000)]);
    }
}
