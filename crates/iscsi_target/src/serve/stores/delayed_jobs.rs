//! Jobs that wait for their time on a delayed LUN. A waiting job occupies an entry of a heap, and no thread.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use event::Instant;

/// Things with a time each, to be had back in the order of those.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    pushed: u64,
}

#[derive(Debug)]
struct Entry<T> {
    due: Instant,
    /// Order of entries with the same time.
    nth: u64,
    thing: T,
}

impl<T> Waiting<T> {
    /// Keeps `thing` until `due`.
    pub(crate) fn push(&mut self, due: Instant, thing: T) {
        self.heap.push(Reverse(Entry { due, nth: self.pushed, thing }));
        self.pushed += 1;
    }

    /// Takes the next entry that is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<T> {
        if self.next_due() > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry.thing)
    }

    /// Takes all entries for which `is_wanted` is true, due or not.
    pub(crate) fn take(&mut self, mut is_wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        let all = std::mem::take(&mut self.heap).into_iter();
        let (taken, left): (Vec<_>, Vec<_>) = all.partition(|Reverse(entry)| is_wanted(&entry.thing));
        self.heap = left.into();
        taken.into_iter().map(|Reverse(entry)| entry.thing).collect()
    }

    /// Time at which the next entry is due.
    pub(crate) fn next_due(&self) -> Instant {
        self.heap.peek().map_or(Instant::FAR_FUTURE, |Reverse(entry)| entry.due)
    }
}

impl<T> Default for Waiting<T> {
    fn default() -> Waiting<T> {
        Waiting { heap: BinaryHeap::new(), pushed: 0 }
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Entry<T>) -> Ordering {
        (self.due, self.nth).cmp(&(other.due, other.nth))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Entry<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Entry<T>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn come_back_in_the_order_of_their_times() {
        let mut waiting = Waiting::default();
        for (due, thing) in [(30, 'd'), (10, 'a'), (20, 'b'), (20, 'c')] {
            waiting.push(Instant::from_nanos(due), thing);
        }
        assert_eq!(
            (waiting.pop_due(Instant::from_nanos(9)), waiting.next_due()),
            (None, Instant::from_nanos(10))
        );
        assert_eq!(waiting.pop_due(Instant::from_nanos(10)), Some('a'));
        waiting.push(Instant::from_nanos(15), 'x');
        assert_eq!(waiting.take(|thing| *thing == 'x'), ['x']);
        assert_eq!(waiting.pop_due(Instant::from_nanos(25)), Some('b'));
        assert_eq!(waiting.pop_due(Instant::from_nanos(25)), Some('c'));
        assert_eq!(
            (waiting.pop_due(Instant::from_nanos(25)), waiting.next_due()),
            (None, Instant::from_nanos(30))
        );
    }
}
