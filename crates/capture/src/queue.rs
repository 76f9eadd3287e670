//! Batches between the thread that sees packets and the thread that keeps them: a few, and never more.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::batch::Batch;

/// Limit on the bytes of waiting batches: those of a second of 400 000 headers each.
const WAITING_BYTES_MAX: usize = 48 << 20;

/// Shared by both threads.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Batches that may wait.
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Batch>,
    /// Empty ones, to be filled again.
    spare: Vec<Batch>,
    /// Closed for input.
    is_closed: bool,
    /// Closed for output.
    is_abandoned: bool,
}

/// Next item for the keeping thread.
pub(crate) enum Taken {
    Batch(Batch),
    /// No batch arrived in time.
    Nothing,
    /// The queue is empty and closed.
    Closed,
}

impl Queue {
    /// For batches of so many bytes.
    pub(crate) fn new(batch_bytes: usize) -> Queue {
        let most = (WAITING_BYTES_MAX / batch_bytes).max(1);
        Queue { state: Mutex::default(), changed: Condvar::new(), most }
    }

    /// Puts a batch in; returns it if the queue is full or closed for output.
    pub(crate) fn offer(&self, batch: Batch) -> Result<(), Batch> {
        let mut state = self.state();
        if state.is_abandoned || state.waiting.len() >= self.most {
            return Err(batch);
        }
        state.waiting.push_back(batch);
        self.changed.notify_all();
        Ok(())
    }

    /// Puts a batch in, waiting while the queue is full.
    pub(crate) fn put(&self, batch: Batch) -> Result<(), Batch> {
        let mut state = self.state();
        while !state.is_abandoned && state.waiting.len() >= self.most {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.offer(batch)
    }

    /// An empty batch, if one was given back.
    pub(crate) fn spare(&self) -> Option<Batch> {
        self.state().spare.pop()
    }

    /// Takes the next batch out; waits for one at most so long.
    pub(crate) fn take(&self, patience: Duration) -> Taken {
        let mut state = self.state();
        if state.waiting.is_empty() && !state.is_closed {
            let waited = self.changed.wait_timeout(state, patience);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        match state.waiting.pop_front() {
            Some(batch) => {
                self.changed.notify_all();
                Taken::Batch(batch)
            }
            None if state.is_closed => Taken::Closed,
            None => Taken::Nothing,
        }
    }

    /// Returns a batch that is not needed any more.
    pub(crate) fn give_back(&self, batch: Batch) {
        let mut state = self.state();
        if state.spare.len() < self.most {
            state.spare.push(batch);
        }
    }

    /// Closes the queue for input.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Closes the queue for output.
    pub(crate) fn abandon(&self) {
        self.state().is_abandoned = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Batch {
        Batch::new(1, 1)
    }

    #[test]
    fn it_holds_so_many_and_no_more() {
        let queue = Queue::new(WAITING_BYTES_MAX / 3);
        for _ in 0..3 {
            queue.offer(batch()).expect("room");
        }
        let back = queue.offer(batch()).expect_err("no room");
        assert!(matches!(queue.take(Duration::ZERO), Taken::Batch(_)));
        queue.offer(back).expect("room again");
        queue.abandon();
        assert!(queue.put(batch()).is_err(), "nobody waits for what will not come");
    }

    #[test]
    fn what_was_put_in_is_taken_out_before_the_end() {
        let queue = Queue::new(1);
        assert!(matches!(queue.take(Duration::ZERO), Taken::Nothing));
        let mut batch = batch();
        batch.begin(7);
        queue.put(batch).expect("room");
        queue.close();
        match queue.take(Duration::ZERO) {
            Taken::Batch(batch) => {
                assert_eq!(batch.first, 7);
                queue.give_back(batch);
            }
            _ => panic!("a batch waits"),
        }
        assert!(matches!(queue.take(Duration::ZERO), Taken::Closed));
        assert!(queue.spare().is_some() && queue.spare().is_none());
    }
}
