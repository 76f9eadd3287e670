//! What may be held in memory while a capture is read, over all its connections together.

use std::cell::Cell;

/// Room that is left, in bytes. Whoever grows with what a file says asks here first.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    left: Cell<usize>,
}

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        Self { left: Cell::new(bytes) }
    }

    /// Takes room if it is there.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let rest = self.left.get().checked_sub(bytes);
        if let Some(rest) = rest {
            self.left.set(rest);
        }
        rest.is_some()
    }

    /// Gives back what was taken.
    pub(super) fn give(&self, bytes: usize) {
        self.left.set(self.left.get() + bytes);
    }

    /// Has `now` bytes taken where `before` were; false, and nothing changed, without room for it.
    pub(super) fn settle(&self, before: &mut usize, now: usize) -> bool {
        let room = now <= *before || self.take(now - *before);
        if room {
            self.give(before.saturating_sub(now));
            *before = now;
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let budget = Budget::new(10);
        let mut held = 0;
        assert!(budget.settle(&mut held, 8) && !budget.take(3));
        assert!(!budget.settle(&mut held, 11) && held == 8);
        assert!(budget.settle(&mut held, 1) && budget.take(9) && !budget.take(1));
    }
}
