//! Bursts of tasks that were ended, whose data may still be on its way: it is taken and forgotten.

use std::collections::{BTreeMap, VecDeque};

/// Bursts that are remembered; those before are rejected, like data for unknown tasks.
const MAX: usize = 4096;

/// Bursts by the tags of their task and transfer.
#[derive(Clone, Debug, Default)]
pub(super) struct Forgotten {
    /// With how many came before.
    bursts: BTreeMap<(u32, u32), u64>,
    /// In the order in which they came, with those that are taken out already.
    order: VecDeque<(u64, (u32, u32))>,
    added: u64,
}

impl Forgotten {
    pub(super) fn add(&mut self, itt: u32, ttt: u32) {
        self.bursts.insert((itt, ttt), self.added);
        self.order.push_back((self.added, (itt, ttt)));
        self.added += 1;
        if self.order.len() > MAX
            && let Some((number, oldest)) = self.order.pop_front()
            && self.bursts.get(&oldest) == Some(&number)
        {
            self.bursts.remove(&oldest);
        }
    }

    pub(super) fn has(&self, itt: u32, ttt: u32) -> bool {
        self.bursts.contains_key(&(itt, ttt))
    }

    /// The task tag is in use again: what comes with it belongs to another task.
    pub(super) fn take_out(&mut self, itt: u32) {
        while let Some((&burst, _)) = self.bursts.range((itt, 0)..=(itt, u32::MAX)).next() {
            self.bursts.remove(&burst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn until_its_tag_is_used_again_or_many_have_come() {
        let mut forgotten = Forgotten::default();
        [(1, 7), (1, u32::MAX), (2, 7)].into_iter().for_each(|(itt, ttt)| forgotten.add(itt, ttt));
        assert!(forgotten.has(1, 7) && forgotten.has(1, u32::MAX) && !forgotten.has(2, u32::MAX));
        forgotten.take_out(1);
        assert!(!forgotten.has(1, 7) && !forgotten.has(1, u32::MAX) && forgotten.has(2, 7));
        (0..MAX as u32).for_each(|ttt| forgotten.add(3, ttt));
        assert!(!forgotten.has(2, 7) && forgotten.has(3, 0));
        assert_eq!((forgotten.bursts.len(), forgotten.order.len()), (MAX, MAX));
    }

    #[test]
    fn one_that_came_again_is_as_young_as_its_last_coming() {
        let mut forgotten = Forgotten::default();
        forgotten.add(1, u32::MAX);
        forgotten.take_out(1);
        (1..MAX as u32).for_each(|ttt| forgotten.add(3, ttt));
        forgotten.add(1, u32::MAX);
        assert!(forgotten.has(1, u32::MAX), "what left was its first coming");
    }
}
