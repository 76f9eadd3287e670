//! Outstanding commands of a connection, by task tag and in the order of their requests.

use std::collections::{HashMap, VecDeque};

use wire::iscsi::Opcode;

use crate::budget::MemoryBudget;
use crate::packets::packet_ref::PacketRef;

/// Limit of outstanding commands per connection; further ones are only counted.
const COMMANDS_MAX: usize = 1 << 16;
/// Initial capacity, in commands.
const CAPACITY_MIN: usize = 28;
/// Limit of commands that a search examines: each packet makes one, which would cost the square of the depth otherwise.
const SEARCHED_MAX: usize = 64;
/// Oldest commands that determine whose turn it is. One alone may be a command whose answer the capture lacks.
const TURNS_MAX: usize = 4;

/// Queues of outstanding commands that end before one in them does, from which on that one is no longer waited for.
const QUEUES_BEFORE: u64 = 4;

/// Peer that must send next for a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The target: data, an R2T or the status.
    #[default]
    Target,
    /// The initiator: data.
    Initiator,
}

/// Request of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandRequest {
    pub(crate) cmd_sn: Option<u32>,
    /// Operation code of the CDB.
    pub(crate) operation: Option<u8>,
    /// LUN field of the header, as two words.
    pub(crate) lun: Option<(u32, u32)>,
    /// Expected data transfer length in bytes.
    pub(crate) bytes: u32,
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// Packet that completes the command PDU.
    pub(crate) packet: PacketRef,
    /// Its header is inferred.
    pub(crate) inferred: bool,
    /// The time of its end is known.
    pub(crate) timed: bool,
}

impl CommandRequest {
    /// True for READ and WRITE of 6 to 16 bytes (SBC-4), and for a CDB that is hidden.
    pub(crate) fn moves_blocks(&self) -> bool {
        let is_block_io = |code| matches!(code, 0x08 | 0x28 | 0xa8 | 0x88 | 0x0a | 0x2a | 0xaa | 0x8a);
        self.operation.is_none_or(is_block_io)
    }
}

/// Data transfer of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) r2ts: u32,
    /// Time of an R2T whose data has not begun, in ns.
    pub(crate) r2t_ns: Option<u64>,
    pub(crate) data_in: u64,
    pub(crate) data_out: u64,
    /// Bytes that the initiator may send so far: unsolicited and solicited ones.
    pub(crate) permitted: u64,
    /// An R2T of it had a hidden length, so no Data-Out is known to be the last one: the target's turn never ends.
    pub(crate) is_open: bool,
    /// Time of the last Data-Out or immediate data, in ns.
    pub(crate) last_out_ns: Option<u64>,
    /// Time at which the data of a read was complete, in ns.
    pub(crate) read_ns: Option<u64>,
}

/// A command without its status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutstandingCommand {
    pub(crate) request: CommandRequest,
    pub(crate) transfer: Transfer,
    /// The target has sent a PDU for it.
    pub(crate) answered: bool,
    /// Time in ns from the request to the first answer, if both headers are visible.
    pub(crate) first_answer_ns: Option<u64>,
    pub(crate) turn: Turn,
    /// Begin of that turn, in ns.
    pub(crate) turn_ns: u64,
    /// Commands completed before the request.
    pub(crate) completed_before: u64,
    /// Commands completed between its request and its own status.
    pub(crate) overtaken: u64,
    /// A header of it is inferred.
    pub(crate) inferred: bool,
}

impl OutstandingCommand {
    /// True if a PDU of this opcode can belong to it.
    pub(crate) fn suits(&self, opcode: Opcode) -> bool {
        match opcode {
            Opcode::DataIn => self.request.read || self.request.inferred,
            Opcode::DataOut | Opcode::R2t => self.request.write || self.request.inferred,
            Opcode::ScsiResponse => true,
            _ => false,
        }
    }

    /// True for a write that has sent all permitted data and needs an R2T for more.
    pub(crate) fn waits_for_r2t(&self) -> bool {
        self.request.write
            && self.turn == Turn::Target
            && self.transfer.data_out < u64::from(self.request.bytes)
    }

    /// True for a write that has not sent all permitted data.
    pub(crate) fn owes_data(&self) -> bool {
        self.request.write && self.transfer.data_out < self.transfer.permitted
    }

    /// True for a read with all its data.
    pub(crate) fn is_read_complete(&self) -> bool {
        self.request.read && self.transfer.data_in >= u64::from(self.request.bytes)
    }
}

/// Error of a table without room for another command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableFull;

/// Table of outstanding commands.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandTable {
    commands: HashMap<u32, OutstandingCommand>,
    /// Task tags and packet numbers of requests, oldest first; some are completed.
    order: VecDeque<(u32, u64)>,
    /// Capacity of the map when it was last resized. `HashMap::capacity` is lower while removed entries leave marks.
    places: usize,
    /// Bytes reserved of the budget.
    held: usize,
}

impl CommandTable {
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    /// The command with a task tag.
    pub(crate) fn get(&self, itt: u32) -> Option<&OutstandingCommand> {
        self.commands.get(&itt)
    }

    /// The command with a task tag, to be changed.
    pub(crate) fn get_mut(&mut self, itt: u32) -> Option<&mut OutstandingCommand> {
        self.commands.get_mut(&itt)
    }

    /// Adds a command; returns the one that had the same tag.
    ///
    /// # Errors
    /// [`TableFull`] without room for it.
    pub(crate) fn add(
        &mut self,
        itt: u32,
        command: OutstandingCommand,
        budget: &MemoryBudget,
    ) -> Result<Option<OutstandingCommand>, TableFull> {
        let known = self.commands.contains_key(&itt);
        if !known && (self.commands.len() >= COMMANDS_MAX || !self.make_room(budget)) {
            return Err(TableFull);
        }
        if self.order.len() >= 2 * self.commands.len() + CAPACITY_MIN {
            let commands = &self.commands;
            self.order.retain(|(itt, packet)| current(commands, *itt, *packet).is_some());
        }
        self.order.push_back((itt, command.request.packet.number));
        Ok(self.commands.insert(itt, command))
    }

    pub(crate) fn remove(&mut self, itt: u32, budget: &MemoryBudget) -> Option<OutstandingCommand> {
        let removed = self.commands.remove(&itt);
        while let Some((itt, packet)) = self.order.front() {
            if current(&self.commands, *itt, *packet).is_some() {
                break;
            }
            self.order.pop_front();
        }
        if self.places > 8 * CAPACITY_MIN && self.commands.len() < self.places / 8 {
            self.commands.shrink_to(self.places / 4);
            self.order.shrink_to(self.places / 4);
            self.places = self.commands.capacity();
            budget.resize(&mut self.held, held_of(self.places));
        }
        removed
    }

    /// The oldest command, unless its tag is in use again.
    pub(crate) fn first(&self) -> Option<(u32, &OutstandingCommand)> {
        let (itt, packet) = self.order.front()?;
        current(&self.commands, *itt, *packet).map(|command| (*itt, command))
    }

    /// Task tags of the commands for which `wanted` holds.
    pub(crate) fn tags(&self, wanted: impl Fn(&OutstandingCommand) -> bool) -> Vec<u32> {
        self.commands.iter().filter(|(_, command)| wanted(command)).map(|(itt, _)| *itt).collect()
    }

    /// The oldest command for which `wanted` holds, among the oldest [`SEARCHED_MAX`].
    pub(crate) fn oldest(
        &self,
        wanted: impl Fn(&OutstandingCommand) -> bool,
    ) -> Option<(u32, &OutstandingCommand)> {
        self.order.iter().take(SEARCHED_MAX).find_map(|(itt, packet)| {
            let command = current(&self.commands, *itt, *packet)?;
            wanted(command).then_some((*itt, command))
        })
    }

    /// Begin of the target's turn, and of the initiator's, in ns, by the oldest [`TURNS_MAX`] commands. `ended` commands
    /// have ended, at most `queue` of them in the time of one. A command that several queues have overtaken is not the
    /// one that the others wait for, and may have been answered unseen.
    pub(crate) fn turns_since_ns(&self, ended: u64, queue: u64) -> [Option<u64>; 2] {
        let overtaken = (queue + 1) * QUEUES_BEFORE;
        let mut turns = [None; 2];
        let known = self.order.iter().filter_map(|(itt, packet)| current(&self.commands, *itt, *packet));
        let counts =
            |command: &&OutstandingCommand| ended.saturating_sub(command.completed_before) <= overtaken;
        for command in known.take(SEARCHED_MAX).filter(counts).take(TURNS_MAX) {
            let since: &mut Option<u64> = &mut turns[usize::from(command.turn == Turn::Initiator)];
            *since = Some(since.map_or(command.turn_ns, |ns| ns.min(command.turn_ns)));
        }
        turns
    }

    /// Makes the times of all outstanding commands unknown.
    pub(crate) fn lose_times(&mut self) {
        for command in self.commands.values_mut() {
            command.request.timed = false;
            let Transfer { r2t_ns, last_out_ns, read_ns, .. } = &mut command.transfer;
            (*r2t_ns, *last_out_ns, *read_ns) = (None, None, None);
        }
    }

    fn make_room(&mut self, budget: &MemoryBudget) -> bool {
        if self.commands.len() < self.commands.capacity() {
            return true;
        }
        // A map less than half full is only blocked by marks of removed entries, and clears them in place.
        let half = self.places / 2;
        let wanted = if self.commands.len() < half { half } else { (self.places * 2).max(CAPACITY_MIN) };
        let fits = budget.resize(&mut self.held, held_of(wanted.max(self.places)));
        if fits {
            self.commands.reserve(wanted - self.commands.len());
            self.places = self.commands.capacity();
        }
        fits
    }
}

/// The command with this task tag, if its request is in this packet.
fn current(
    commands: &HashMap<u32, OutstandingCommand>,
    itt: u32,
    packet: u64,
) -> Option<&OutstandingCommand> {
    commands.get(&itt).filter(|command| command.request.packet.number == packet)
}

/// Memory in bytes of a table with this capacity. An eighth of the map stays empty; the order may be twice as long and
/// has spare capacity.
fn held_of(capacity: usize) -> usize {
    capacity * 8 / 7 * (size_of::<(u32, OutstandingCommand)>() + 1) + 4 * capacity * size_of::<(u32, u64)>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(packet: u64) -> OutstandingCommand {
        let request = CommandRequest {
            packet: PacketRef { number: packet, ..PacketRef::default() },
            ..Default::default()
        };
        OutstandingCommand { request, ..Default::default() }
    }

    #[test]
    fn the_oldest_is_found_although_tags_are_reused() {
        let (mut table, budget) = (CommandTable::default(), MemoryBudget::new(1 << 20));
        for packet in 1..1_000 {
            let itt = packet as u32 % 3;
            table.remove(itt, &budget);
            assert_eq!(table.add(itt, sent(packet), &budget).map(|old| old.is_some()), Ok(false));
            let oldest = table.oldest(|_| true).map(|(_, command)| command.request.packet.number);
            assert_eq!(oldest, Some(packet.saturating_sub(2).max(1)));
        }
        assert!(table.order.len() < 2 * CAPACITY_MIN);
        assert_eq!(table.oldest(|command| command.request.read).map(|(itt, _)| itt), None);
    }

    /// An answer that passed unseen leaves its command here for good. Others go on without it, so it is not the one that the
    /// connection waits for: not if four queues of them have ended since.
    #[test]
    fn an_overtaken_command_is_nobodys_turn() {
        let (mut table, budget) = (CommandTable::default(), MemoryBudget::new(1 << 20));
        let command = |packet, turn_ns, completed_before| OutstandingCommand {
            turn_ns,
            completed_before,
            ..sent(packet)
        };
        table.add(1, command(1, 10, 0), &budget).unwrap();
        assert_eq!(table.turns_since_ns(16, 3), [Some(10), None]);
        assert_eq!(table.turns_since_ns(17, 3), [None, None]);
        table.add(2, command(2, 500, 16), &budget).unwrap();
        assert_eq!(table.turns_since_ns(17, 3), [Some(500), None]);
    }

    /// The oldest command has just been answered in part; the one behind it waits for longer.
    #[test]
    fn the_oldest_turn_counts_not_the_oldest_command() {
        let (mut table, budget) = (CommandTable::default(), MemoryBudget::new(1 << 20));
        for (itt, turn, turn_ns) in [
            (1, Turn::Target, 900),
            (2, Turn::Initiator, 300),
            (3, Turn::Target, 200),
            (4, Turn::Target, 400),
        ] {
            let command = OutstandingCommand { turn, turn_ns, ..sent(u64::from(itt)) };
            table.add(itt, command, &budget).unwrap();
        }
        assert_eq!(table.turns_since_ns(0, 3), [Some(200), Some(300)]);
    }

    #[test]
    fn without_memory_a_command_is_refused_and_memory_is_released() {
        let (mut table, budget) = (CommandTable::default(), MemoryBudget::new(held_of(1_000)));
        let taken = (0..10_000).filter(|itt| table.add(*itt, sent(1), &budget).is_ok()).count();
        assert!((500..=1_000).contains(&taken), "{taken}");
        assert_eq!((0..10_000).filter(|itt| table.remove(*itt, &budget).is_some()).count(), taken);
        assert!(budget.reserve(held_of(600)), "what is empty holds no room");
    }

    #[test]
    fn the_reservation_follows_the_capacity() {
        let (mut table, budget) = (CommandTable::default(), MemoryBudget::new(1 << 30));
        // Few at a time, and many one after another: removed ones stay in the way until they are cleared away.
        for itt in 0..50_000 {
            assert!(table.add(itt, sent(itt.into()), &budget).is_ok());
            if let Some(old) = itt.checked_sub(400) {
                assert!(table.remove(old, &budget).is_some());
            }
            assert!(
                table.commands.capacity() <= table.places && table.held == held_of(table.places),
                "{itt}"
            );
        }
        assert!(table.places < 2_000, "{}", table.places);
    }
}
