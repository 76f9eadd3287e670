//! A queue that serves its owners in turn, by the bytes of their items: an owner that queues thousands
//! waits for itself and not for others.
//!
//! Start-time fair queueing: each owner has a line and a number of bytes at which its next item begins; the
//! lowest comes first. An owner without a line begins where the one being served began, so it is next but for
//! those that are as far, and no idleness is saved up. Unlike deficit round robin this needs no quantum, and
//! one step finds the next item whatever the sizes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// Least cost of an item: looking at it is worth moving so many bytes.
const COST_MIN_BYTES: u64 = 16 << 10;
/// Empty lines that are kept for the next owner, so that nothing is allocated for each item.
const SPARE_MAX: usize = 64;

/// Hash of owners' numbers, which this process chooses itself: every item has a lookup or two.
pub(super) type OwnerHash = BuildHasherDefault<OwnerHasher>;

/// Hasher of one number: its product with an odd constant, whose upper bits depend on all of it (Knuth, "The Art of
/// Computer Programming", section 6.4).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct OwnerHasher(u64);

impl Hasher for OwnerHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0.rotate_left(8) ^ u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        // A table takes its place from the lower bits.
        self.0 ^ (self.0 >> 32)
    }
}

/// Items of many owners.
#[derive(Debug)]
pub struct FairQueue<T> {
    lines: HashMap<u64, VecDeque<Item<T>>, OwnerHash>,
    /// Owners with a line, by the bytes at which the first item of it begins; an empty line begins where its last
    /// item ended, and is there until its turn has come.
    order: BinaryHeap<Reverse<(u64, u64)>>,
    queued: usize,
    /// Begin of the item that was taken last.
    now_bytes: u64,
    spare: Vec<VecDeque<Item<T>>>,
}

#[derive(Debug)]
struct Item<T> {
    item: T,
    cost_bytes: u64,
}

impl<T> FairQueue<T> {
    /// An empty queue.
    pub fn new() -> FairQueue<T> {
        FairQueue {
            lines: HashMap::default(),
            order: BinaryHeap::new(),
            queued: 0,
            now_bytes: 0,
            spare: Vec::new(),
        }
    }

    /// Returns true if nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.queued == 0
    }

    /// Returns true if an owner that may have an item now has one.
    pub fn has_any_of(&self, may: impl Fn(u64) -> bool) -> bool {
        self.queued > 0 && self.lines.iter().any(|(owner, line)| !line.is_empty() && may(*owner))
    }

    /// Queues an item of `bytes` behind those of the same owner. The caller limits their number.
    pub fn push(&mut self, owner: u64, bytes: u64, item: T) {
        let item = Item { item, cost_bytes: bytes.max(COST_MIN_BYTES) };
        self.queued += 1;
        if let Some(line) = self.lines.get_mut(&owner) {
            line.push_back(item);
            return;
        }
        let mut line = self.spare.pop().unwrap_or_default();
        line.push_back(item);
        self.lines.insert(owner, line);
        self.order.push(Reverse((self.now_bytes, owner)));
    }

    /// Queues the rest of an item before the others of the same owner.
    pub fn push_front(&mut self, owner: u64, bytes: u64, item: T) {
        match self.lines.get_mut(&owner) {
            None => self.push(owner, bytes, item),
            Some(line) => {
                line.push_front(Item { item, cost_bytes: bytes.max(COST_MIN_BYTES) });
                self.queued += 1;
            }
        }
    }

    /// Takes all items of an owner that `is_wanted` selects, at any position in its queue.
    pub fn take_of(&mut self, owner: u64, mut is_wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        let Some(line) = self.lines.get_mut(&owner) else { return Vec::new() };
        let taken = take_from(line, &mut is_wanted);
        self.queued -= taken.len();
        taken
    }

    /// Takes all items that `is_wanted` selects, of all owners.
    pub fn take_all(&mut self, mut is_wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        let lines = self.lines.values_mut();
        let taken: Vec<T> = lines.flat_map(|line| take_from(line, &mut is_wanted)).collect();
        self.queued -= taken.len();
        taken
    }

    /// Takes the next item.
    pub fn pop(&mut self) -> Option<T> {
        self.pop_of(|_| true).map(|(_, item, _)| item)
    }

    /// Takes the next item of those owners that may have one now, with its owner and its cost in bytes.
    pub fn pop_of(&mut self, may: impl Fn(u64) -> bool) -> Option<(u64, T, u64)> {
        let mut aside = Vec::new();
        let found = self.next_of(may, &mut aside);
        self.order.extend(aside);
        found
    }

    fn next_of(
        &mut self,
        may: impl Fn(u64) -> bool,
        aside: &mut Vec<Reverse<(u64, u64)>>,
    ) -> Option<(u64, T, u64)> {
        loop {
            let Reverse((at_bytes, owner)) = self.order.pop()?;
            let Some(line) = self.lines.get_mut(&owner) else {
                unreachable!("each one in the order has a queue")
            };
            if !line.is_empty() && !may(owner) {
                aside.push(Reverse((at_bytes, owner)));
                continue;
            }
            self.now_bytes = self.now_bytes.max(at_bytes);
            if let Some(Item { item, cost_bytes }) = line.pop_front() {
                self.queued -= 1;
                // Its next item begins where this one ends, even if it comes later: an owner of one item
                // at a time, again and again, is not ahead of the others for that.
                self.order.push(Reverse((at_bytes + cost_bytes, owner)));
                return Some((owner, item, cost_bytes));
            }
            if let Some(line) = self.lines.remove(&owner)
                && self.spare.len() < SPARE_MAX
            {
                self.spare.push(line);
            }
        }
    }
}

fn take_from<T>(line: &mut VecDeque<Item<T>>, mut is_wanted: impl FnMut(&T) -> bool) -> Vec<T> {
    let (taken, left) = line.drain(..).partition::<VecDeque<_>, _>(|item| is_wanted(&item.item));
    *line = left;
    taken.into_iter().map(|item| item.item).collect()
}

impl<T> Default for FairQueue<T> {
    fn default() -> FairQueue<T> {
        FairQueue::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn drain(queue: &mut FairQueue<(u64, u32)>, most: usize) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| queue.pop()).take(most).collect()
    }

    #[test]
    fn what_is_taken_out_of_a_line_leaves_the_rest_in_its_order() {
        let mut queue = FairQueue::new();
        (0..6).for_each(|n| queue.push(u64::from(n % 2), MIB, (0, n)));
        assert_eq!(queue.take_of(0, |(_, n)| *n != 2), [(0, 0), (0, 4)]);
        assert!(queue.take_of(5, |_| true).is_empty());
        assert_eq!(drain(&mut queue, 9).len(), 4);
        assert!(queue.is_empty());
        queue.push(0, MIB, (0, 7));
        assert_eq!((queue.take_of(0, |_| true).len(), queue.is_empty(), queue.pop()), (1, true, None));
    }

    #[test]
    fn one_owner_is_served_in_order() {
        let mut queue = FairQueue::new();
        (0..5).for_each(|n| queue.push(7, u64::from(n) * MIB, (7, n)));
        assert_eq!(drain(&mut queue, 9), (0..5).map(|n| (7, n)).collect::<Vec<_>>());
        assert!(queue.is_empty() && queue.lines.is_empty());
    }

    #[test]
    fn who_comes_late_does_not_wait_for_a_flood() {
        let mut queue = FairQueue::new();
        (0..1000).for_each(|n| queue.push(1, 4096, (1, n)));
        drain(&mut queue, 100);
        for n in 0..50 {
            queue.push(2, 4096, (2, n));
            assert!(drain(&mut queue, 2).contains(&(2, n)), "it waits for one of the others at most");
        }
    }

    #[test]
    fn turns_are_by_bytes() {
        let mut queue = FairQueue::new();
        (0..16).for_each(|n| queue.push(1, MIB, (1, n)));
        (0..256).for_each(|n| queue.push(2, MIB / 16, (2, n)));
        let first = drain(&mut queue, 17 * 8);
        let large = first.iter().filter(|(owner, _)| *owner == 1).count();
        assert!((8..=9).contains(&large), "{large} large ones among {} in all", first.len());
    }

    #[test]
    fn what_costs_nothing_still_has_its_turn_only() {
        let mut queue = FairQueue::new();
        for owner in [1, 2, 3] {
            (0..10).for_each(|n| queue.push(owner, 0, (owner, n)));
        }
        for round in drain(&mut queue, 30).chunks(3) {
            assert_eq!(round.iter().map(|(owner, _)| owner).sum::<u64>(), 6, "{round:?}");
        }
    }

    #[test]
    fn who_asks_for_one_thing_at_a_time_takes_turns_with_the_others() {
        let mut queue = FairQueue::new();
        let mut served = [0; 4];
        (0..4).for_each(|owner| queue.push(owner, 4096, owner));
        for _ in 0..400 {
            let owner = queue.pop().expect("four are queued");
            served[owner as usize] += 1;
            queue.push(owner, 4096, owner);
        }
        assert!(served.iter().all(|count| (99..=101).contains(count)), "{served:?}");
    }

    #[test]
    fn the_rest_of_an_item_comes_before_what_its_owner_queued_later() {
        let mut queue = FairQueue::new();
        (0..3).for_each(|n| queue.push(1, MIB, (1, n)));
        assert_eq!(queue.pop(), Some((1, 0)));
        queue.push_front(1, MIB, (1, 10));
        queue.push(2, 4096, (2, 0));
        assert_eq!(drain(&mut queue, 9), [(2, 0), (1, 10), (1, 1), (1, 2)]);
        queue.push_front(3, 4096, (3, 0));
        assert_eq!(drain(&mut queue, 9), [(3, 0)]);
    }

    #[test]
    fn who_may_not_have_one_now_keeps_its_place() {
        let mut queue = FairQueue::new();
        (0..3).for_each(|n| queue.push(1, 4096, (1, n)));
        queue.push(2, MIB, (2, 0));
        assert_eq!(queue.pop_of(|owner| owner != 1), Some((2, (2, 0), MIB)));
        assert_eq!(queue.pop_of(|owner| owner != 1), None);
        queue.push(2, MIB, (2, 1));
        assert_eq!(drain(&mut queue, 9), [(1, 0), (1, 1), (1, 2), (2, 1)]);
        assert!(queue.is_empty() && queue.lines.is_empty());
    }

    #[test]
    fn few_empty_lines_are_kept_for_owners_that_come() {
        let mut queue = FairQueue::new();
        let owners = 2 * SPARE_MAX as u64;
        (0..owners).for_each(|owner| queue.push(owner, 4096, (owner, 0)));
        assert_eq!(drain(&mut queue, usize::MAX).len(), 2 * SPARE_MAX);
        assert_eq!((queue.lines.len(), queue.spare.len()), (0, SPARE_MAX));
        let is_allocated = |line: &VecDeque<_>| line.capacity() > 0;
        assert!(queue.spare.iter().all(is_allocated));
        (0..owners).for_each(|owner| queue.push(owner, 4096, (owner, 1)));
        assert!(queue.spare.is_empty(), "the lines are in use again");
    }

    #[test]
    fn idleness_is_not_saved_up() {
        let mut queue = FairQueue::new();
        queue.push(1, 4096, (1, 0));
        (0..20).for_each(|n| queue.push(2, MIB, (2, n)));
        drain(&mut queue, 11);
        // The first owner has had far less, long ago, and gets no more than its half for that.
        (0..20).for_each(|n| queue.push(1, MIB, (1, n)));
        let next = drain(&mut queue, 10);
        let early = next.iter().filter(|(owner, _)| *owner == 1).count();
        assert!((5..=6).contains(&early), "{next:?}");
    }
}
