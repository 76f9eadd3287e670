//! Admission of requests to the memory for data.
//!
//! All buffers of the process have one budget. A request is admitted if its connection holds no more with it than is
//! free: a dynamic threshold (Choudhury and Hahne, 1998). One busy connection has half of the budget, two have a third
//! each, and one that comes later always finds some. Connections that hold nothing and want much come first, in their
//! order: a stream of small requests never keeps a large one waiting for ever.

use std::collections::VecDeque;

use block::{Buffer, Buffers, Owner};

/// Memory for data of all connections. Two requests of the greatest length fit beside three busy connections.
pub(super) const BUDGET_BYTES: usize = 256 << 20;
/// Free buffers that are kept for reuse.
const KEEP_BYTES: usize = 64 << 20;
/// Requests up to this length overtake those that wait.
const SMALL_BYTES: usize = 256 << 10;

/// Memory of the process for data.
#[derive(Debug)]
pub(super) struct Memory {
    all: Buffers,
    /// Connections that hold nothing and wait.
    waiting: VecDeque<Owner>,
}

impl Memory {
    pub(super) fn new() -> Memory {
        Memory { all: Buffers::new(KEEP_BYTES), waiting: VecDeque::new() }
    }

    /// The count of one connection.
    pub(super) fn part(&self) -> Buffers {
        self.all.part()
    }

    /// Returns true if a request is admitted now.
    pub(super) fn has_room(&self, part: &Buffers, owner: Owner, len: usize) -> bool {
        let counts_bytes = Buffers::counts_for(len);
        let free_bytes = BUDGET_BYTES.saturating_sub(self.all.held_bytes());
        let is_next = self.waiting.front().is_none_or(|first| *first == owner);
        part.part_bytes() + counts_bytes <= free_bytes && (is_next || counts_bytes <= SMALL_BYTES)
    }

    /// A buffer for a request, or `None` if the connection has to wait.
    pub(super) fn admit(&mut self, part: &Buffers, owner: Owner, len: usize) -> Option<Buffer> {
        if self.has_room(part, owner, len) {
            self.leave(owner);
            return Some(part.take(len));
        }
        if part.part_bytes() == 0 && !self.waiting.contains(&owner) {
            self.waiting.push_back(owner);
        }
        None
    }

    /// A connection waits no more.
    pub(super) fn leave(&mut self, owner: Owner) {
        if !self.waiting.is_empty() {
            self.waiting.retain(|waiting| *waiting != owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Takes requests of a length until no more are admitted.
    fn fill(memory: &mut Memory, part: &Buffers, owner: u64, len: usize) -> Vec<Buffer> {
        std::iter::from_fn(|| memory.admit(part, Owner(owner), len)).collect()
    }

    #[test]
    fn a_connection_takes_no_more_than_is_left_for_others() {
        let mut memory = Memory::new();
        let parts: Vec<Buffers> = (0..4).map(|_| memory.part()).collect();
        let first = fill(&mut memory, &parts[0], 0, MIB);
        assert_eq!(first.len(), 128, "half of the budget");
        let second = fill(&mut memory, &parts[1], 1, MIB);
        assert_eq!(second.len(), 64);
        let third = fill(&mut memory, &parts[2], 2, MIB);
        assert_eq!(third.len(), 32);
        assert!(memory.admit(&parts[3], Owner(3), 32 * MIB).is_some(), "the longest request is admitted");
        assert!(memory.admit(&parts[0], Owner(0), 4096).is_none());
        drop((first, second, third));
        assert_eq!(memory.all.held_bytes(), 0);
        assert!(memory.admit(&parts[0], Owner(0), 4096).is_some());
    }

    #[test]
    fn a_large_request_is_not_overtaken_by_others() {
        let mut memory = Memory::new();
        let parts: Vec<Buffers> = (0..8).map(|_| memory.part()).collect();
        let held: Vec<_> =
            (0..6).map(|owner| fill(&mut memory, &parts[owner as usize], owner, 2 * MIB)).collect();
        let free_bytes = BUDGET_BYTES - memory.all.held_bytes();
        assert!(free_bytes < 32 * MIB, "{free_bytes}");
        assert!(memory.admit(&parts[6], Owner(6), 32 * MIB).is_none());
        assert!(memory.admit(&parts[7], Owner(7), MIB).is_none(), "it comes behind");
        assert!(memory.admit(&parts[7], Owner(7), 4096).is_some(), "little passes");
        let mut held = held.into_iter();
        drop(held.next());
        assert!(memory.admit(&parts[7], Owner(7), MIB).is_none());
        assert!(memory.admit(&parts[6], Owner(6), 32 * MIB).is_some());
        assert!(memory.admit(&parts[7], Owner(7), MIB).is_some());
    }

    #[test]
    fn a_connection_that_is_closed_while_it_waits_holds_nobody_up() {
        let mut memory = Memory::new();
        let [hog, first, second] = [(); 3].map(|()| memory.part());
        let _held: Vec<Buffer> = (0..15).map(|_| hog.take(16 * MIB)).collect();
        assert!(memory.admit(&first, Owner(1), 32 * MIB).is_none());
        assert!(memory.admit(&second, Owner(2), 4 * MIB).is_none());
        memory.leave(Owner(1));
        assert!(memory.admit(&second, Owner(2), 4 * MIB).is_some());
    }
}
