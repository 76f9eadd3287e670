//! Who reserves what, one after the other, while nothing else is under way: what is refused meanwhile follows from the
//! model (`reservations`).

use wire::scsi::{Cdb, ModeForm, ReservationType, ReserveIn, ReserveOut, ReserveParameters};

use super::reservations::Change;
use super::task::{Effect, Expect, Task};
use super::{FILE, LUNS, PEERS, World};

/// The key of one who ends everything.
const LAST_KEY: u64 = 9;

impl World {
    /// Somebody reserves a unit, or lets go of it.
    pub(crate) fn change_reservations(&mut self) {
        let (number, lun) = (self.dice.below(PEERS), self.dice.below(LUNS));
        if self.dice.chance(40) {
            return self.free(lun);
        }
        let port = self.peers[number].port;
        let change = self.reservations[lun].choose(&mut self.dice, port, lun == FILE);
        self.change(number, lun, change);
        let other = self.dice.below(PEERS);
        for action in [ReserveIn::ReadKeys, ReserveIn::ReadReservation] {
            self.hear_attentions(other, lun);
            let data = self.reservations[lun].told(action);
            let is_refused = self.reservations[lun].is_reserved();
            let mut task = Task::new(lun, if is_refused { Expect::Conflict } else { Expect::Good });
            (task.expected_bytes, task.actual_bytes) = (data.len(), data.len());
            task.effect = if is_refused { Effect::Nothing } else { Effect::Tells { data } };
            task.may_be_told = false;
            let cdb = Cdb::PersistentReserveIn { action, allocation_len: task.expected_bytes as u16 };
            self.peers[other].command(&mut self.dice, cdb.emit(), task);
            self.exchange();
        }
    }

    /// Nobody reserves a unit any more.
    pub(crate) fn free(&mut self, lun: usize) {
        if let Some(number) = (0..PEERS).find(|n| self.reservations[lun].is_reserved_by(self.peers[*n].port))
        {
            self.change(number, lun, Change::Release(ModeForm::Six));
        }
        if !self.reservations[lun].is_free() {
            let number = self.dice.below(PEERS);
            let kind = ReservationType::WriteExclusive;
            let list =
                |key, action_key| ReserveParameters { key, action_key, ..ReserveParameters::default() };
            let register = (ReserveOut::RegisterAndIgnore, list(0, LAST_KEY));
            for (action, list) in [register, (ReserveOut::Clear, list(LAST_KEY, 0))] {
                self.change(number, lun, Change::Persistent { action, kind, list });
            }
        }
        assert!(self.reservations[lun].is_free());
    }

    /// Asks for a change and checks what comes of it.
    fn change(&mut self, number: usize, lun: usize, change: Change) {
        self.hear_attentions(number, lun);
        let peer = &mut self.peers[number];
        let expect = self.reservations[lun].change(peer.port, change);
        let (cdb, list) = match change {
            Change::Reserve(form) => (Cdb::Reserve { form }, Vec::new()),
            Change::Release(form) => (Cdb::Release { form }, Vec::new()),
            Change::Persistent { action, kind, list } => {
                let (list, kind) = (list.emit().to_vec(), kind as u8);
                (Cdb::PersistentReserveOut { action, scope: 0, kind, list_len: list.len() as u32 }, list)
            }
        };
        let mut task = Task::sending(lun, list, Effect::Nothing);
        (task.expect, task.may_be_told) = (expect, false);
        peer.command(&mut self.dice, cdb.emit(), task);
        for number in 0..PEERS {
            let peer = &mut self.peers[number];
            (0..peer.lines.len()).for_each(|line| peer.queue_late(line));
        }
        self.exchange();
        let others = self.peers.iter_mut().enumerate().filter(|(other, _)| *other != number);
        others.for_each(|(_, peer)| peer.attention[lun] = true);
    }

    /// A session hears everything that a unit has to tell it.
    pub(crate) fn hear_attentions(&mut self, number: usize, lun: usize) {
        loop {
            let told = self.peers[number].seen.told;
            self.submit(number, Cdb::TestUnitReady, Task::new(lun, Expect::Good));
            self.exchange();
            if self.peers[number].seen.told == told {
                return;
            }
        }
    }
}
