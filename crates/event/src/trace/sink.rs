//! Where events go. A sink must not block and must not fail: what it cannot take it counts.

use crate::Instant;

/// Takes events of one kind.
pub trait Sink<E> {
    /// Takes one event.
    fn record(&mut self, event: &E);

    /// There is nothing to take now: whoever gathers events may hand on what has waited for long enough.
    fn idle(&mut self, _now: Instant) {}
}

impl<E: Clone> Sink<E> for Vec<E> {
    fn record(&mut self, event: &E) {
        self.push(event.clone());
    }
}
