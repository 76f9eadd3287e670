//! Destination of events. A sink neither blocks nor fails: it counts the events that it cannot take.

use crate::Instant;

/// Takes events of one kind.
pub trait Sink<E> {
    /// Takes one event.
    fn record(&mut self, event: &E);

    /// No event is waiting: a sink that batches may pass on events that are old enough.
    fn idle(&mut self, _now: Instant) {}
}

impl<E: Clone> Sink<E> for Vec<E> {
    fn record(&mut self, event: &E) {
        self.push(event.clone());
    }
}
