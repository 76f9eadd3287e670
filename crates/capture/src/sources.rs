//! Several taps as one: packets in the order of their timestamps, as far as the kernel delivers them.
//!
//! The kernel delivers a block with packets after a while even if it is not full, so a tap without packets has none
//! older than that. Until then a packet of another tap waits in its ring.

use std::time::{Duration, SystemTime};

use net::stamps::Stamp;
use net::tap::{Packet, Tap};

/// Time after which the kernel delivers a block that is not full.
pub(crate) const RETIRE: Duration = Duration::from_millis(50);
/// The longest that a packet can be in a ring unseen, with room for a busy machine.
const UNSEEN_NS: u64 = 100_000_000;

/// Taps that are read together.
#[derive(Debug)]
pub(crate) struct Sources {
    taps: Vec<Tap>,
    /// True if timestamps are on the clock of this machine, which can tell the silence of a tap.
    has_system_stamps: bool,
}

impl Sources {
    pub(crate) fn new(taps: Vec<Tap>, has_system_stamps: bool) -> Sources {
        Sources { taps, has_system_stamps }
    }

    pub(crate) fn taps(&mut self) -> &mut [Tap] {
        &mut self.taps
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Tap> {
        self.taps.iter()
    }

    /// Passes at most `most` packets, each with the number of its tap, to `show`, and returns their number. Without
    /// further packets (`is_to_come` false) all waiting ones are passed.
    pub(crate) fn take(
        &mut self,
        most: u64,
        is_to_come: bool,
        mut show: impl FnMut(usize, &Packet<'_>),
    ) -> u64 {
        if let [tap] = &mut self.taps[..] {
            return tap.take_each(most, |packet| show(0, packet));
        }
        let settled = match self.has_system_stamps && is_to_come {
            true => Settled::at(system_ns()),
            false => Settled::ALL,
        };
        for count in 0..most {
            let heads = self.taps.iter_mut().enumerate().map(|(at, tap)| (tap.peek(), at));
            let Some(at) = next(heads, settled) else { return count };
            if let Some(packet) = self.taps[at].take() {
                show(at, &packet);
            }
        }
        most
    }

    /// True if a packet waits for an earlier one of another tap.
    pub(crate) fn is_holding(&mut self) -> bool {
        self.taps.len() > 1 && self.taps.iter_mut().any(|tap| tap.peek().is_some())
    }
}

/// Timestamps of packets that no older one can follow any more.
#[derive(Clone, Copy, Debug)]
struct Settled {
    until: Stamp,
    /// Packets from here on are from before the clock was set back: to wait for their time could take for ever.
    from: Stamp,
}

impl Settled {
    const ALL: Settled = Settled { until: Stamp(u64::MAX), from: Stamp(0) };

    const fn at(now_ns: u64) -> Settled {
        let (until, from) = (now_ns.saturating_sub(UNSEEN_NS), now_ns.saturating_add(UNSEEN_NS));
        Settled { until: Stamp(until), from: Stamp(from) }
    }

    fn has(self, stamp: Stamp) -> bool {
        stamp <= self.until || stamp >= self.from
    }
}

/// The next head: the oldest one, if all taps have one or none can deliver an older one.
fn next(heads: impl Iterator<Item = (Option<Stamp>, usize)>, settled: Settled) -> Option<usize> {
    let mut is_complete = true;
    let mut oldest: Option<(Stamp, usize)> = None;
    for (head, at) in heads {
        match head {
            Some(stamp) if oldest.is_none_or(|(old, _)| stamp < old) => oldest = Some((stamp, at)),
            Some(_) => {}
            None => is_complete = false,
        }
    }
    oldest.filter(|(stamp, _)| is_complete || settled.has(*stamp)).map(|(_, at)| at)
}

/// Now, on the clock of the stamps.
pub(crate) fn system_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_comes_first_unless_an_older_one_may_come() {
        let check = |heads: [Option<u64>; 3], settled, expected| {
            let heads = heads.into_iter().zip(0..).map(|(head, at)| (head.map(Stamp), at));
            assert_eq!(next(heads, Settled::at(settled + UNSEEN_NS)), expected);
        };
        check([Some(5), Some(3), Some(4)], 0, Some(1));
        check([Some(5), None, Some(4)], 3, None);
        check([Some(5), None, Some(4)], 4, Some(2));
        check([Some(4), Some(4), Some(4)], 0, Some(0));
        check([None, None, None], 1 << 60, None);
        let hour = 3_600_000_000_000;
        check([Some(hour), None, None], 5, Some(0));
        check([Some(hour), Some(3), None], 5, Some(1));
    }
}
