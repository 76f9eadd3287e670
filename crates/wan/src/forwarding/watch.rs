//! Time since a device was last polled. A packet found there may have arrived that much earlier than its timestamp.
//!
//! A sleep that a packet ends counts as polling, but only until its planned end: later the thread was stopped or had
//! no processor. The thread never sleeps for longer than a heartbeat, which bounds the uncertainty.

use std::time::Duration;

use event::Instant;

/// Poll history of one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Watch {
    /// End of the last poll, or of the time in which no poll was needed.
    looked: Instant,
    /// Longest recent interval without a poll.
    gap: Duration,
    /// Latest time by which packets of that interval have been read.
    over: Instant,
}

impl Watch {
    pub(crate) const fn new(now: Instant) -> Watch {
        Watch { looked: now, gap: Duration::ZERO, over: now }
    }

    /// Records that the device was polled or watched until `t`.
    pub(crate) fn looked_until(&mut self, t: Instant) {
        self.looked = self.looked.max(t);
    }

    /// Records a poll at `now`; a packet found then may have arrived at any time since the last one.
    pub(crate) fn look(&mut self, now: Instant) {
        let gap = now.since(self.looked);
        // Packets of a gap are read in less time than it took, or they arrive faster than they can be read.
        if gap > self.gap || now >= self.over {
            (self.gap, self.over) = (gap, now + gap);
        }
        self.looked_until(now);
    }

    /// Records that the device had no packet.
    pub(crate) const fn found_nothing(&mut self) {
        self.gap = Duration::ZERO;
    }

    /// Uncertainty of the arrival time of a packet that is read now.
    pub(crate) const fn unseen_ns(&self) -> u64 {
        self.gap.as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    /// Polls at these times and checks the uncertainty of the packet found then, in microseconds; `None` for no
    /// packet.
    fn check(watch: &mut Watch, looks: &[(u64, Option<u64>)]) {
        for (at, found) in looks {
            watch.look(us(*at));
            match found {
                Some(unseen_us) => assert_eq!(watch.unseen_ns(), unseen_us * 1_000, "at {at} µs"),
                None => watch.found_nothing(),
            }
        }
    }

    #[test]
    fn the_time_between_two_looks_is_unseen() {
        check(&mut Watch::new(us(0)), &[(3, Some(3)), (4, None), (10, Some(6)), (11, None), (12, Some(1))]);
    }

    #[test]
    fn a_sleep_sees_until_it_was_to_end() {
        let mut watch = Watch::new(us(0));
        check(&mut watch, &[(1, None)]);
        // Woken in time by the packet.
        watch.looked_until(us(400));
        check(&mut watch, &[(402, Some(2)), (403, None)]);
        // To be woken after a millisecond, and woken after fifty.
        watch.looked_until(us(1_403));
        check(
            &mut watch,
            &[(51_403, Some(50_000)), (51_404, Some(50_000)), (51_405, None), (51_406, Some(1))],
        );
    }

    #[test]
    fn what_came_in_a_gap_is_read_in_as_long_again_at_most() {
        let looks = [(100, Some(100)), (150, Some(100)), (199, Some(100)), (200, Some(1)), (201, Some(1))];
        check(&mut Watch::new(us(0)), &looks);
        let longer = [(10, Some(10)), (15, Some(10)), (40, Some(25)), (64, Some(25)), (65, Some(1))];
        check(&mut Watch::new(us(0)), &longer);
    }

    #[test]
    fn nobody_has_to_look_before_the_line_has_room() {
        let mut watch = Watch::new(us(0));
        watch.looked_until(us(100));
        check(&mut watch, &[(50, Some(0)), (100, Some(0)), (130, Some(30))]);
    }
}
