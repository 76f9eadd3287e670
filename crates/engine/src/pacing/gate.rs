//! Token bucket that the connections behind one device share.
//!
//! Each connection also has a bucket for its own rate. But connections that wake up late have full buckets at the same
//! time, and their sum exceeds the device's ring. Bulk data use the shared tokens in order of arrival, since each
//! connection has its rate; bursts of lone requests have none and are sent one after the other.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use control::Order;
use event::Instant;

use super::token_bucket::TokenBucket;

/// Least time until a waiting connection tries again. The portions of those in front of it take longer.
const ASK_AGAIN: Duration = Duration::from_micros(100);

/// The bucket; each connection that sends through it has a clone.
#[derive(Debug)]
pub struct Gate {
    shared: Rc<Shared>,
    /// By which the order knows it.
    number: usize,
}

#[derive(Debug)]
struct Shared {
    bucket: RefCell<TokenBucket>,
    order: RefCell<Order>,
    clones: Cell<usize>,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate::open()
    }
}

impl Clone for Gate {
    fn clone(&self) -> Gate {
        let number = self.shared.clones.get() + 1;
        self.shared.clones.set(number);
        Gate { shared: Rc::clone(&self.shared), number }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Gate {
    /// A gate without a limit.
    pub fn open() -> Gate {
        let shared = Shared {
            bucket: RefCell::new(TokenBucket::new()),
            order: RefCell::default(),
            clones: Cell::new(0),
        };
        Gate { shared: Rc::new(shared), number: 0 }
    }

    /// Sets the rate and the burst limit `depth_bytes`; rate `None` is unlimited.
    pub fn set(&self, bytes_per_s: Option<u64>, depth_bytes: u64) {
        self.shared.bucket.borrow_mut().set(bytes_per_s, depth_bytes, 1);
    }

    /// True if a connection had to wait here since the last call.
    pub fn take_short(&self) -> bool {
        self.shared.bucket.borrow_mut().take_short()
    }

    /// True if a rate is set.
    pub(crate) fn is_shut(&self) -> bool {
        self.shared.bucket.borrow().is_on()
    }

    /// Bytes of the waiting data that may be sent at `now`.
    pub(crate) fn room(&self, now: Instant, waiting_bytes: usize) -> usize {
        self.shared.bucket.borrow_mut().room(now, waiting_bytes)
    }

    /// Bytes of a burst that may be sent at `now`; it also waits for its turn among the bursts.
    pub(crate) fn room_in_turn(&self, now: Instant, waiting_bytes: usize) -> usize {
        if !self.is_shut() || self.shared.order.borrow_mut().ask(self.number, now) {
            return self.room(now, waiting_bytes);
        }
        0
    }

    /// Counts bytes that were sent.
    pub(crate) fn take(&self, now: Instant, bytes: usize) {
        self.shared.bucket.borrow_mut().take(now, bytes);
        self.shared.order.borrow_mut().take(self.number, bytes as u64);
    }

    /// Time at which waiting data may be sent.
    pub(crate) fn resume_at(&self, waiting_bytes: usize) -> Instant {
        self.shared.bucket.borrow().resume_at(waiting_bytes)
    }

    /// Time of the next attempt of a burst that had to wait at `now`.
    pub(crate) fn resume_in_turn_at(&self, now: Instant, waiting_bytes: usize) -> Instant {
        self.resume_at(waiting_bytes).max(now + ASK_AGAIN)
    }

    /// Lets the next burst go first while this one waits for another reason.
    pub(crate) fn pause(&self) {
        self.shared.order.borrow_mut().pause(self.number);
    }

    /// Ends this connection's burst.
    pub(crate) fn leave(&self) {
        self.shared.order.borrow_mut().leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: usize = 1 << 20;

    fn us(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    #[test]
    fn what_one_lets_through_others_do_not_have() {
        let gate = Gate::open();
        let other = gate.clone();
        assert_eq!(gate.room(us(0), MANY), usize::MAX);
        // 100 bytes in a microsecond.
        gate.set(Some(100_000_000), 60_000);
        assert_eq!(gate.room(us(1_000), MANY), 60_000, "no more at one time, however long nobody sent");
        gate.take(us(1_000), 40_000);
        assert_eq!(other.room(us(1_000), MANY), 20_000);
        other.take(us(1_000), 20_000);
        assert_eq!(gate.room(us(1_000), MANY), 0);
        let resume_at = gate.resume_at(MANY);
        assert_eq!(resume_at, us(1_200) + Duration::from_nanos(1));
        assert!(gate.take_short() && !gate.take_short());
        assert_eq!(other.room(us(1_201), MANY), 20_100);
        gate.set(None, 0);
        assert_eq!(other.room(us(1_202), MANY), usize::MAX);
    }

    #[test]
    fn a_burst_waits_for_those_that_began_before_it_and_bulk_for_nobody() {
        let first = Gate::open();
        let second = first.clone();
        assert_eq!(second.room_in_turn(us(0), MANY), usize::MAX, "nobody waits at an open gate");
        first.set(Some(100_000_000), 60_000);
        assert_eq!(first.room_in_turn(us(1_000), MANY), 60_000);
        first.take(us(1_000), 30_000);
        assert_eq!((second.room_in_turn(us(1_000), MANY), second.room(us(1_000), MANY)), (0, 30_000));
        assert_eq!(
            second.resume_in_turn_at(us(1_000), MANY),
            us(1_100),
            "there is enough, and it is not its turn"
        );
        first.pause();
        assert_eq!(second.room_in_turn(us(1_000), MANY), 30_000);
        assert_eq!(first.room_in_turn(us(1_000), MANY), 30_000, "it has kept its place");
        assert_eq!(second.room_in_turn(us(1_000), MANY), 0);
        drop(first);
        assert_eq!(second.room_in_turn(us(1_000), MANY), 30_000, "it has gone");
    }
}
