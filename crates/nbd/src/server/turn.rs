//! Limits of a connection's turn: bytes, requests and time.

use std::time::Duration;

use event::Instant;

/// Bytes in each direction of a turn while no other connection has work.
const ALONE_BYTES: usize = 4 << 20;
/// Bytes in each direction of a turn beside others.
const SHARED_BYTES: usize = 256 << 10;
/// Requests of a turn beside others.
const SHARED_REQUESTS: usize = 128;
/// Time from which on a turn with costly requests begins no more.
const COSTLY: Duration = Duration::from_micros(200);
/// Time of a round over all connections from which on the rest waits for the next.
pub(super) const ROUND: Duration = Duration::from_millis(5);

/// Rest of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnLimit {
    pub(super) receive_bytes: usize,
    pub(super) send_bytes: usize,
    requests: usize,
    begin: Instant,
    is_over: bool,
}

impl TurnLimit {
    /// A turn that begins at `begin`.
    pub(super) fn new(begin: Instant, is_alone: bool) -> TurnLimit {
        let bytes = if is_alone { ALONE_BYTES } else { SHARED_BYTES };
        let requests = if is_alone { usize::MAX } else { SHARED_REQUESTS };
        TurnLimit { receive_bytes: bytes, send_bytes: bytes, requests, begin, is_over: false }
    }

    /// Counts a message.
    pub(super) fn count(&mut self) {
        self.requests -= 1;
        self.is_over |= self.requests == 0;
    }

    /// A request was begun that may have cost time: the clock is read.
    pub(super) fn look(&mut self, now: Instant) {
        self.is_over |= now.since(self.begin) >= COSTLY;
    }

    /// Returns true if no more messages are taken in this turn.
    pub(super) fn is_over(&self) -> bool {
        self.is_over || self.receive_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_by_requests_bytes_and_time() {
        let begin = Instant::from_nanos(1_000_000);
        let mut shared = TurnLimit::new(begin, false);
        (1..SHARED_REQUESTS).for_each(|_| shared.count());
        assert!(!shared.is_over());
        shared.count();
        assert!(shared.is_over());
        let mut costly = TurnLimit::new(begin, true);
        costly.look(begin + COSTLY - Duration::from_nanos(1));
        assert!(!costly.is_over());
        costly.look(begin + COSTLY);
        assert!(costly.is_over());
        let mut long = TurnLimit::new(begin, true);
        long.receive_bytes -= ALONE_BYTES;
        assert!(long.is_over());
    }
}
