//! Bursts of ended tasks whose data may still be in flight: the data is received and discarded.

use std::collections::{BTreeMap, VecDeque};

use super::connection::ConnectionId;

/// Bursts that are remembered; data of older bursts is rejected, like data for unknown tasks.
const MAX: usize = 4096;

/// Bursts by initiator and target transfer tag.
#[derive(Clone, Debug, Default)]
pub(super) struct Forgotten {
    /// Sequence number and connection of each burst.
    bursts: BTreeMap<(u32, u32), (u64, ConnectionId)>,
    /// Bursts in the order of insertion, including those already removed from `bursts`.
    order: VecDeque<(u64, (u32, u32))>,
    added: u64,
}

impl Forgotten {
    pub(super) fn add(&mut self, connection: ConnectionId, itt: u32, ttt: u32) {
        self.bursts.insert((itt, ttt), (self.added, connection));
        self.order.push_back((self.added, (itt, ttt)));
        self.added += 1;
        if self.order.len() > MAX
            && let Some((number, oldest)) = self.order.pop_front()
            && self.bursts.get(&oldest).is_some_and(|(added, _)| *added == number)
        {
            self.bursts.remove(&oldest);
        }
    }

    /// Number of remembered bursts.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns true for data of a remembered burst on its own connection (RFC 7143 section 4.2.5).
    pub(super) fn has(&self, connection: ConnectionId, itt: u32, ttt: u32) -> bool {
        self.bursts.get(&(itt, ttt)).is_some_and(|(_, own)| *own == connection)
    }

    /// Removes the bursts of a reused task tag: its data now belongs to another task.
    pub(super) fn take_out(&mut self, itt: u32) {
        while let Some((&burst, _)) = self.bursts.range((itt, 0)..=(itt, u32::MAX)).next() {
            self.bursts.remove(&burst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: ConnectionId = ConnectionId::LEADING;

    #[test]
    fn until_its_tag_is_used_again_or_many_have_come() {
        let mut forgotten = Forgotten::default();
        [(1, 7), (1, u32::MAX), (2, 7)].into_iter().for_each(|(itt, ttt)| forgotten.add(FIRST, itt, ttt));
        assert!(
            forgotten.has(FIRST, 1, 7)
                && forgotten.has(FIRST, 1, u32::MAX)
                && !forgotten.has(FIRST, 2, u32::MAX)
        );
        assert!(!forgotten.has(ConnectionId(1), 1, 7), "it belongs to another connection");
        forgotten.take_out(1);
        assert!(
            !forgotten.has(FIRST, 1, 7) && !forgotten.has(FIRST, 1, u32::MAX) && forgotten.has(FIRST, 2, 7)
        );
        (0..MAX as u32).for_each(|ttt| forgotten.add(FIRST, 3, ttt));
        assert!(!forgotten.has(FIRST, 2, 7) && forgotten.has(FIRST, 3, 0));
        assert_eq!((forgotten.bursts.len(), forgotten.order.len()), (MAX, MAX));
    }

    #[test]
    fn one_that_came_again_is_as_young_as_its_last_coming() {
        let mut forgotten = Forgotten::default();
        forgotten.add(FIRST, 1, u32::MAX);
        forgotten.take_out(1);
        (1..MAX as u32).for_each(|ttt| forgotten.add(FIRST, 3, ttt));
        forgotten.add(FIRST, 1, u32::MAX);
        assert!(forgotten.has(FIRST, 1, u32::MAX), "what left was its first coming");
    }
}
