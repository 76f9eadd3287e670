//! How many commands a LUN takes at a time. Only a refusal tells (TASK SET FULL, SAM-5 section 5.3.1), and a write that is
//! refused has sent its data for nothing, so no more are asked of it than it took then; a fourth more now and then, because it
//! may have room again.

/// Commands that end between one attempt and the next, in parts of those that are out.
const ENDED_PER_ATTEMPT: usize = 8;
/// How many more are attempted then, in parts of those that may be out; one at least.
const MORE: usize = 4;

/// The commands that may be out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    commands: usize,
    /// Commands that have ended since that number changed.
    ended: usize,
}

impl Room {
    /// Nothing has been refused.
    pub(crate) const OPEN: Room = Room { commands: usize::MAX, ended: 0 };

    /// How many may be out.
    pub(crate) fn commands(self) -> usize {
        self.commands
    }

    /// A command was refused while so many others were out, some of which may be refused as well.
    pub(crate) fn refused(&mut self, others: usize) {
        *self = Room { commands: self.commands.min(others.max(1)), ended: 0 };
    }

    /// A command was taken, and has ended.
    pub(crate) fn ended(&mut self) {
        if self.commands == Room::OPEN.commands {
            return;
        }
        self.ended += 1;
        if self.ended >= self.commands * ENDED_PER_ATTEMPT {
            *self = Room { commands: self.commands + (self.commands / MORE).max(1), ended: 0 };
        }
    }
}

/// Requests whose latency counts: so many keep the queue of a target's device filled.
const LONE_REQUESTS_LEAST: u64 = 32;

/// Bytes to keep outstanding of requests whose latency counts: twice the bandwidth-delay product, so that the product can
/// be seen to grow, and a few requests on a path where it is small.
pub(crate) fn lone_outstanding_bytes(product_bytes: u64, request_bytes: u64) -> u64 {
    product_bytes.saturating_mul(2).max(LONE_REQUESTS_LEAST * request_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A LUN with room for `most` gets as many as may be out, again and again: refusals, and commands that ended.
    fn run(room: &mut Room, wanted: usize, most: usize, rounds: usize) -> (usize, usize) {
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
        let mut room = Room::OPEN;
        assert_eq!(run(&mut room, 256, 8, 1), (248, 8));
        assert_eq!(room.commands(), 8);
        let (refusals, ends) = run(&mut room, 256, 8, 1000);
        assert!((ends / 40..=ends / 28).contains(&refusals), "{refusals} of {ends}");
    }

    #[test]
    fn a_lun_that_has_room_again_gets_more() {
        let mut room = Room::OPEN;
        run(&mut room, 64, 2, 1);
        // Eight rounds each: one neighbour that filled the queue for a moment is soon forgotten.
        run(&mut room, 64, 64, 200);
        assert!(room.commands() >= 64, "{room:?}");
    }

    #[test]
    fn one_may_always_be_out() {
        let mut room = Room::OPEN;
        room.refused(0);
        assert_eq!(room.commands(), 1);
    }

    #[test]
    fn who_refuses_nothing_is_never_held() {
        let mut room = Room::OPEN;
        (0..1000).for_each(|_| room.ended());
        assert_eq!(room, Room::OPEN);
    }

    #[test]
    fn lone_requests_follow_the_path() {
        let depth = |product_bytes| lone_outstanding_bytes(product_bytes, 4096) / 4096;
        // Loopback at 1.4 GB/s and 30 us, and 1 Gb/s over 100 ms.
        assert_eq!([0, 42_000, 11_700_000].map(depth), [32, 32, 5712]);
    }
}
