//! Resets and the ends of sessions, by the rules or not, while nothing else is under way.

use wire::iscsi::{LogoutRequest, Lun, RESERVED_TAG, SnackRequest, logout_reason, task_function};
use wire::scsi::{BlockForm, Cdb};

use super::disk::BLOCK;
use super::task::{Effect, Expect, Task};
use super::{LUNS, MEMORY, PEERS, World};

impl World {
    /// Somebody resets a unit: all have something to be told then.
    pub(crate) fn reset(&mut self) {
        let (number, lun) = (self.dice.below(PEERS), self.dice.below(LUNS));
        let line = self.any_line(number);
        let peer = &mut self.peers[number];
        let itt = peer.next_itt();
        let function = task_function::LOGICAL_UNIT_RESET;
        let reset = peer.management(function, lun, (itt, true), (RESERVED_TAG, peer.cmd_sn));
        peer.queue(line, reset, &[], Task::new(lun, Expect::Managed));
        self.exchange();
        self.reservations[lun].let_go(None);
        self.peers.iter_mut().for_each(|peer| peer.attention[lun] = true);
    }

    /// A session ends, by the rules or not; nothing is under way but what is begun here.
    pub(crate) fn leave(&mut self, number: usize) {
        let blocks = self.disks[MEMORY].choose(&mut self.dice, true);
        let peer = &mut self.peers[number];
        let kind = self.dice.below(9);
        if let (3.., Some((lba, blocks))) = (kind, blocks) {
            // A write that may or may not come to its end.
            let task = Task::sending(MEMORY, vec![0x77; blocks * BLOCK], Effect::Nothing);
            self.disks[MEMORY].forget(lba, blocks);
            let (form, lba, blocks) = (BlockForm::Ten, lba as u64, blocks as u32);
            let cdb = Cdb::Write { form, lba, blocks, dpo: false, fua: false };
            peer.command(&mut self.dice, cdb.emit(), task);
        }
        let at = peer.lines.iter().position(|line| !line.queued.is_empty()).unwrap_or(0);
        let mut line = peer.lines.swap_remove(at);
        let mut bytes = std::mem::take(&mut line.queued).concat();
        let mut last: Vec<u8> = match kind {
            0..3 => {
                let logout = LogoutRequest {
                    immediate: true,
                    reason: logout_reason::CLOSE_SESSION,
                    itt: 0x7777,
                    cid: 0,
                    cmd_sn: peer.cmd_sn,
                    exp_stat_sn: 0,
                };
                line.seal(logout, &[])
            }
            3 => Vec::new(),
            4 => self.dice.bytes(500),
            // The same tag again, a segment without end, data beyond all bounds.
            5 => bytes[..48.min(bytes.len())].to_vec(),
            6 => vec![0x41, 0x80, 0, 0, 0, 0xff, 0xff, 0xff],
            7 => {
                let mut nonsense = vec![0x05, 0x80, 0, 0, 0, 0, 2, 0];
                nonsense.extend(self.dice.bytes(40 + 512));
                nonsense
            }
            _ => line.seal(SNACK, &[]),
        };
        // Additional header segments that say nothing sensible, or a digest that is wrong.
        if last.len() >= 48 && self.dice.chance(20) && kind >= 3 {
            let at = if line.header_digest { 7 } else { 4 };
            last[at] ^= 1 + self.dice.below(255) as u8;
        }
        bytes.extend(last);
        let cut = if kind == 3 { self.dice.below(bytes.len() + 1) } else { bytes.len() };
        // The target may have closed before it has taken all.
        line.send_anyway(&bytes[..cut]);
        line.end_sending();
        line.drain();
        for mut line in std::mem::take(&mut peer.lines) {
            line.end_sending();
            line.drain();
        }
    }
}

/// A request to send again, which nobody may make without error recovery.
const SNACK: SnackRequest = SnackRequest {
    kind: 0,
    lun: Lun(0),
    itt: 1,
    ttt: RESERVED_TAG,
    exp_stat_sn: 0,
    beg_run: 0,
    run_length: 0,
};
