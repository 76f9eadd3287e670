//! The commands of one connection that have no status yet: found by their task tag, and in the order they were sent.

use std::collections::{HashMap, VecDeque};

use super::budget::Budget;
use super::stream::Tag;

/// Commands of one connection that are followed at once; more are counted and no more.
const OPEN_MAX: usize = 1 << 16;
/// Commands that there is room for once there is one.
const OPEN_LEAST: usize = 28;
/// Commands that are looked at to find one that waits.
const LOOKED_AT: usize = 64;
/// Commands that stand for all when it is asked who is waited for.
const WAITING_LOOKED_AT: usize = 4;

/// Whose turn it is to say something of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Turn {
    /// The target's: data, an R2T or the status.
    #[default]
    Target,
    /// The initiator's: data.
    Initiator,
}

/// A command without its status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) cmd_sn: Option<u32>,
    pub(super) operation: Option<u8>,
    /// As it stands in the header.
    pub(super) lun: Option<(u32, u32)>,
    /// Bytes it moves.
    pub(super) bytes: u32,
    pub(super) read: bool,
    pub(super) write: bool,
    /// The packet that completed it.
    pub(super) request: Tag,
    pub(super) r2ts: u32,
    /// The target has said something about it.
    pub(super) answered: bool,
    /// An R2T whose data has not begun.
    pub(super) r2t_ns: Option<u64>,
    pub(super) data_in: u64,
    pub(super) data_out: u64,
    /// Bytes that R2Ts have asked for, and immediate ones.
    pub(super) asked: u64,
    pub(super) last_out_ns: Option<u64>,
    /// When all data of a read had come.
    pub(super) read_ns: Option<u64>,
    pub(super) turn: Turn,
    /// Since when it is that one's turn.
    pub(super) turn_ns: u64,
    /// Commands that had ended when it was sent.
    pub(super) completed: u64,
    /// Something of it was hidden and follows from what was there.
    pub(super) inferred: bool,
}

impl Open {
    /// A write whose data has not all been asked for, and all that was has been sent.
    pub(super) fn waits_for_r2t(&self) -> bool {
        self.write && self.turn == Turn::Target && self.data_out < u64::from(self.bytes)
    }

    /// A read of which all data has come.
    pub(super) fn is_read_to_the_end(&self) -> bool {
        self.read && self.data_in >= u64::from(self.bytes)
    }
}

/// There is no room for one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// The table.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenTable {
    open: HashMap<u32, Open>,
    /// Task tags and packets of requests, oldest first; some are over.
    order: VecDeque<(u32, u64)>,
    /// Commands that the table was made for. Its own word for that, `capacity`, is less by what removed ones still take.
    places: usize,
    /// Bytes taken from the budget.
    held: usize,
}

impl OpenTable {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn of(&self, itt: u32) -> Option<&Open> {
        self.open.get(&itt)
    }

    pub(super) fn of_mut(&mut self, itt: u32) -> Option<&mut Open> {
        self.open.get_mut(&itt)
    }

    /// Adds a command, and hands out one that had the same tag.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn add(&mut self, itt: u32, open: Open, budget: &Budget) -> Result<Option<Open>, Full> {
        let known = self.open.contains_key(&itt);
        if !known && (self.open.len() >= OPEN_MAX || !self.room(budget)) {
            return Err(Full);
        }
        if self.order.len() >= 2 * self.open.len() + OPEN_LEAST {
            let open = &self.open;
            self.order.retain(|(itt, packet)| open.get(itt).is_some_and(|of| of.request.packet == *packet));
        }
        self.order.push_back((itt, open.request.packet));
        Ok(self.open.insert(itt, open))
    }

    pub(super) fn remove(&mut self, itt: u32, budget: &Budget) -> Option<Open> {
        let removed = self.open.remove(&itt);
        while let Some((itt, packet)) = self.order.front() {
            if self.open.get(itt).is_some_and(|of| of.request.packet == *packet) {
                break;
            }
            self.order.pop_front();
        }
        if self.places > 8 * OPEN_LEAST && self.open.len() < self.places / 8 {
            self.open.shrink_to(self.places / 4);
            self.order.shrink_to(self.places / 4);
            self.places = self.open.capacity();
            budget.settle(&mut self.held, held_of(self.places));
        }
        removed
    }

    /// The oldest command, unless its tag has been used again.
    pub(super) fn first(&self) -> Option<(u32, &Open)> {
        let (itt, packet) = self.order.front()?;
        self.open.get(itt).filter(|open| open.request.packet == *packet).map(|open| (*itt, open))
    }

    /// The task tags of those that `wanted` holds for.
    pub(super) fn tags(&self, wanted: impl Fn(&Open) -> bool) -> Vec<u32> {
        self.open.iter().filter(|(_, open)| wanted(open)).map(|(itt, _)| *itt).collect()
    }

    /// The oldest command that `wanted` holds for.
    pub(super) fn oldest(&self, wanted: impl Fn(&Open) -> bool) -> Option<(u32, &Open)> {
        self.order.iter().take(LOOKED_AT).find_map(|(itt, packet)| {
            let open = self.open.get(itt)?;
            (open.request.packet == *packet && wanted(open)).then_some((*itt, open))
        })
    }

    /// Since when it is the target's turn, and the initiator's, as far as the oldest commands tell.
    pub(super) fn since(&self) -> [Option<u64>; 2] {
        let mut since = [None; 2];
        for (itt, packet) in self.order.iter().take(WAITING_LOOKED_AT) {
            let Some(open) = self.open.get(itt).filter(|open| open.request.packet == *packet) else {
                continue;
            };
            let since: &mut Option<u64> = &mut since[usize::from(open.turn == Turn::Initiator)];
            *since = Some(since.map_or(open.turn_ns, |ns| ns.min(open.turn_ns)));
        }
        since
    }

    fn room(&mut self, budget: &Budget) -> bool {
        if self.open.len() < self.open.capacity() {
            return true;
        }
        // One that is less than half full only has removed commands in its way, and clears them away where it is.
        let half = self.places / 2;
        let wanted = if self.open.len() < half { half } else { (self.places * 2).max(OPEN_LEAST) };
        let room = budget.settle(&mut self.held, held_of(wanted.max(self.places)));
        if room {
            self.open.reserve(wanted - self.open.len());
            self.places = self.open.capacity();
        }
        room
    }
}

/// What a table takes that has room for so many: a seventh of its places stays empty, and the order may be twice as
/// long and has room to grow.
fn held_of(capacity: usize) -> usize {
    capacity * 8 / 7 * (size_of::<(u32, Open)>() + 1) + 4 * capacity * size_of::<(u32, u64)>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(packet: u64) -> Open {
        Open { request: Tag { packet, t_ns: 0 }, ..Open::default() }
    }

    #[test]
    fn the_oldest_is_found_also_if_tags_are_used_again() {
        let (mut table, budget) = (OpenTable::default(), Budget::new(1 << 20));
        for packet in 1..1_000 {
            let itt = packet as u32 % 3;
            table.remove(itt, &budget);
            assert_eq!(table.add(itt, sent(packet), &budget).map(|old| old.is_some()), Ok(false));
            let oldest = table.oldest(|_| true).map(|(_, open)| open.request.packet);
            assert_eq!(oldest, Some(packet.saturating_sub(2).max(1)));
        }
        assert!(table.order.len() < 2 * OPEN_LEAST);
        assert_eq!(table.oldest(|open| open.read).map(|(itt, _)| itt), None);
    }

    #[test]
    fn without_room_a_command_is_not_followed_and_room_is_given_back() {
        let (mut table, budget) = (OpenTable::default(), Budget::new(held_of(1_000)));
        let taken = (0..10_000).filter(|itt| table.add(*itt, sent(1), &budget).is_ok()).count();
        assert!((500..=1_000).contains(&taken), "{taken}");
        assert_eq!((0..10_000).filter(|itt| table.remove(*itt, &budget).is_some()).count(), taken);
        assert!(budget.take(held_of(600)), "what is empty holds no room");
    }

    #[test]
    fn what_is_held_is_what_the_table_was_made_for() {
        let (mut table, budget) = (OpenTable::default(), Budget::new(1 << 30));
        // Few at a time, and many one after another: removed ones stay in the way until they are cleared away.
        for itt in 0..50_000 {
            assert!(table.add(itt, sent(itt.into()), &budget).is_ok());
            if let Some(old) = itt.checked_sub(400) {
                assert!(table.remove(old, &budget).is_some());
            }
            assert!(table.open.capacity() <= table.places && table.held == held_of(table.places), "{itt}");
        }
        assert!(table.places < 2_000, "{}", table.places);
    }
}
