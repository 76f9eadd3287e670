//! Back-off of an attempt that has failed of late: after each failure in a row twice as many chances are let pass.

use std::sync::atomic::{AtomicU32, Ordering};

/// The most that are let pass.
const PASS_MAX: u32 = 256;

/// Results of attempts. Threads may disagree by a few; nothing depends on it.
#[derive(Debug, Default)]
pub(super) struct Luck {
    /// Chances that are still to be let pass.
    left: AtomicU32,
    /// Chances that were let pass the last time.
    passed: AtomicU32,
}

impl Luck {
    /// Returns true if an attempt is due.
    pub(super) fn is_worth_it(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }

    /// Takes the result of the attempt.
    pub(super) fn was(&self, good: bool) {
        let passed = if good { 0 } else { (self.passed.load(Ordering::Relaxed) * 2).clamp(1, PASS_MAX) };
        self.passed.store(passed, Ordering::Relaxed);
        self.left.store(passed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_tried_ever_less_and_success_at_once() {
        let luck = Luck::default();
        let mut tried = Vec::new();
        for nth in 0..1000 {
            if luck.is_worth_it() {
                tried.push(nth);
                luck.was(false);
            }
        }
        assert_eq!(tried, [0, 2, 5, 10, 19, 36, 69, 134, 263, 520, 777]);
        luck.was(true);
        assert!((0..10).all(|_| luck.is_worth_it()));
    }
}
