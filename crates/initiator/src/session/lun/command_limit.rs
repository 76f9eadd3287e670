//! Command limit of a LUN, learned from TASK SET FULL (SAM-5 section 5.3.1). A refused write has transferred its data
//! in vain, so the limit falls to the number of commands that the LUN had accepted. From time to time it rises by a
//! fourth, since the LUN may have room again.

/// Completed commands between two increases of the limit, in multiples of the limit.
const ENDED_PER_ATTEMPT: usize = 8;
/// Divisor of an increase: the limit grows by a fourth, but at least by one.
const MORE: usize = 4;

/// Limit of outstanding commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CommandLimit {
    commands: usize,
    /// Commands completed since the limit changed.
    ended: usize,
}

impl CommandLimit {
    /// No limit, before the first refusal.
    pub(crate) const OPEN: CommandLimit = CommandLimit { commands: usize::MAX, ended: 0 };

    /// Maximum number of outstanding commands.
    pub(crate) fn commands(self) -> usize {
        self.commands
    }

    /// Sets the limit after a refusal with `others` further commands outstanding, some of which may be refused too.
    pub(crate) fn refused(&mut self, others: usize) {
        *self = CommandLimit { commands: self.commands.min(others.max(1)), ended: 0 };
    }

    /// Counts a completed command, and raises the limit when enough have completed.
    pub(crate) fn ended(&mut self) {
        if self.commands == CommandLimit::OPEN.commands {
            return;
        }
        self.ended += 1;
        if self.ended >= self.commands * ENDED_PER_ATTEMPT {
            *self = CommandLimit { commands: self.commands + (self.commands / MORE).max(1), ended: 0 };
        }
    }
}

/// Minimum number of outstanding requests when latency matters; keeps the queue of the target's device filled.
const LONE_REQUESTS_LEAST: u64 = 32;

/// Outstanding bytes of requests whose latency matters: twice the bandwidth-delay product, so that growth of the
/// product is detected, and at least a few requests on a path with a small product.
pub(crate) fn lone_outstanding_bytes(product_bytes: u64, request_bytes: u64) -> u64 {
    product_bytes.saturating_mul(2).max(LONE_REQUESTS_LEAST * request_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs rounds of commands against a LUN that accepts `most`; returns the numbers of refusals and completions.
    fn run(room: &mut CommandLimit, wanted: usize, most: usize, rounds: usize) -> (usize, usize) {
        let (mut refusals, mut ends) = (0, 0);
        for _ in 0..rounds {
            let out = wanted.min(room.commands());
            (most..out).rev().for_each(|others| room.refused(others));
            refusals += out.saturating_sub(most);
            (0..out.min(most)).for_each(|_| room.ended());
            ends += out.min(most);
        }
        (refusals, ends)
    }

    #[test]
    fn what_was_refused_once_is_seldom_asked_for_again() {
        let mut room = CommandLimit::OPEN;
        assert_eq!(run(&mut room, 256, 8, 1), (248, 8));
        assert_eq!(room.commands(), 8);
        let (refusals, ends) = run(&mut room, 256, 8, 1000);
        assert!((ends / 40..=ends / 28).contains(&refusals), "{refusals} of {ends}");
    }

    #[test]
    fn a_lun_that_has_room_again_gets_more() {
        let mut room = CommandLimit::OPEN;
        run(&mut room, 64, 2, 1);
        // Eight rounds for each step: the effect of a neighbour that filled the queue for a moment is soon gone.
        run(&mut room, 64, 64, 200);
        assert!(room.commands() >= 64, "{room:?}");
    }

    #[test]
    fn one_may_always_be_out() {
        let mut room = CommandLimit::OPEN;
        room.refused(0);
        assert_eq!(room.commands(), 1);
    }

    #[test]
    fn who_refuses_nothing_is_never_held() {
        let mut room = CommandLimit::OPEN;
        (0..1000).for_each(|_| room.ended());
        assert_eq!(room, CommandLimit::OPEN);
    }

    #[test]
    fn lone_requests_follow_the_path() {
        let depth = |product_bytes| lone_outstanding_bytes(product_bytes, 4096) / 4096;
        // Loopback at 1.4 GB/s and 30 us, and 1 Gb/s over 100 ms.
        assert_eq!([0, 42_000, 11_700_000].map(depth), [32, 32, 5712]);
    }
}
