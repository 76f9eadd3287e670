//! What several connections may hand over together, whose data go out through one device: one bucket for all of them.
//!
//! Each of them has a bucket of its own for its part. But those that wake up late are full at the same time, and what all
//! of them hand over then is more than the device's ring holds.

use std::cell::RefCell;
use std::rc::Rc;

use event::Instant;

use crate::spacing::Spacing;

/// The bucket, of which everybody who goes through it has a clone.
#[derive(Clone, Debug)]
pub struct Gate {
    spacing: Rc<RefCell<Spacing>>,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate::open()
    }
}

impl Gate {
    /// One that lets everything through.
    pub fn open() -> Gate {
        Gate { spacing: Rc::new(RefCell::new(Spacing::new())) }
    }

    /// From now on so much goes through it, and no more than `depth_bytes` at one time; everything if `None`.
    pub fn set(&self, bytes_per_s: Option<u64>, depth_bytes: u64) {
        self.spacing.borrow_mut().set(bytes_per_s, depth_bytes, 1);
    }

    pub(crate) fn room(&self, now: Instant, waiting_bytes: usize) -> usize {
        self.spacing.borrow_mut().room(now, waiting_bytes)
    }

    pub(crate) fn take(&self, now: Instant, bytes: usize) {
        self.spacing.borrow_mut().take(now, bytes);
    }

    pub(crate) fn resume_at(&self, waiting_bytes: usize) -> Instant {
        self.spacing.borrow().resume_at(waiting_bytes)
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
        assert_eq!(resume_at, us(1_200) + std::time::Duration::from_nanos(1));
        assert_eq!(other.room(us(1_201), MANY), 20_100);
        gate.set(None, 0);
        assert_eq!(other.room(us(1_202), MANY), usize::MAX);
    }
}
