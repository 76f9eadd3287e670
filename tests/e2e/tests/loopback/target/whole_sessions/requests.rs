//! What the sessions ask for, each request with what has to come of it.

use wire::iscsi::{Lun, RESERVED_TAG, TextRequest, task_function};
use wire::scsi::{BlockForm, ByteCheck, Cdb, SenseKey, UnmapRange, emit_unmap};

use super::disk::{BLOCK, BLOCKS};
use super::reservations::{Need, Reservations};
use super::task::{Effect, Expect, Task};
use super::{LUNS, World};

impl World {
    /// Something that somebody asks for.
    pub(crate) fn operation(&mut self, number: usize) {
        match self.dice.below(100) {
            0..25 => self.read(number),
            25..55 => self.write(number),
            55..60 => self.write_same(number),
            60..64 => self.unmap(number),
            64..69 => self.compare_and_write(number),
            69..73 => self.verify(number),
            73..82 => self.small(number),
            82..88 => self.refused(number),
            88..94 => {
                let immediate = self.dice.chance(50);
                let line = self.any_line(number);
                self.ping(number, line, immediate);
            }
            94..97 => self.text(number),
            _ => self.abort_of_nothing(number),
        }
    }

    fn form(&mut self) -> BlockForm {
        self.dice.pick(&[BlockForm::Six, BlockForm::Ten, BlockForm::Twelve, BlockForm::Sixteen])
    }

    /// Queues a command, which is refused if somebody else has reserved the unit.
    pub(crate) fn submit(&mut self, number: usize, cdb: Cdb, mut task: Task) {
        let peer = &mut self.peers[number];
        let is_refused = |unit: &Reservations| unit.refuses(peer.port, need(&cdb));
        if self.reservations.get(task.lun).is_some_and(is_refused) {
            (task.expect, task.effect) = (Expect::Conflict, Effect::Nothing);
        }
        peer.command(&mut self.dice, cdb.emit(), task);
    }

    fn read(&mut self, number: usize) {
        let lun = self.dice.below(LUNS);
        let Some((lba, blocks)) = self.disks[lun].choose(&mut self.dice, false) else { return };
        let mut task = Task::new(lun, Expect::Good);
        task.effect = Effect::Reads { lba };
        task.actual_bytes = blocks * BLOCK;
        task.expected_bytes = match self.dice.below(10) {
            0 => task.actual_bytes + self.dice.below(2000),
            1 => 1 + self.dice.below(task.actual_bytes),
            _ => task.actual_bytes,
        };
        let form = self.form();
        let (dpo, fua) = (false, form != BlockForm::Six && self.dice.chance(10));
        self.submit(number, Cdb::Read { form, lba: lba as u64, blocks: blocks as u32, dpo, fua }, task);
    }

    fn write(&mut self, number: usize) {
        let lun = self.dice.below(LUNS);
        let Some((lba, blocks)) = self.disks[lun].choose(&mut self.dice, true) else { return };
        let mut task = Task::new(lun, Expect::Good);
        task.actual_bytes = blocks * BLOCK;
        task.expected_bytes = match self.dice.below(10) {
            0 => task.actual_bytes + self.dice.below(2000),
            1 => (1 + self.dice.below(blocks)) * BLOCK,
            _ => task.actual_bytes,
        };
        task.out = self.dice.bytes(task.expected_bytes);
        let data = task.out[..task.actual_bytes.min(task.expected_bytes)].to_vec();
        task.effect = Effect::Writes { lba, data };
        task.to_abort = self.dice.chance(5);
        let form = self.form();
        let (dpo, fua) = (false, form != BlockForm::Six && self.dice.chance(10));
        self.submit(number, Cdb::Write { form, lba: lba as u64, blocks: blocks as u32, dpo, fua }, task);
    }

    fn write_same(&mut self, number: usize) {
        let lun = self.dice.below(LUNS);
        let Some((lba, blocks)) = self.disks[lun].choose(&mut self.dice, true) else { return };
        let unmap = self.dice.chance(50);
        let block = if unmap && self.dice.chance(70) { vec![0; BLOCK] } else { self.dice.bytes(BLOCK) };
        let task = Task::sending(lun, block.clone(), Effect::Writes { lba, data: block.repeat(blocks) });
        let (form, lba, blocks) = (BlockForm::Sixteen, lba as u64, blocks as u32);
        self.submit(number, Cdb::WriteSame { form, lba, blocks, unmap, no_data: false }, task);
    }

    fn unmap(&mut self, number: usize) {
        let lun = self.dice.below(LUNS);
        let Some((lba, blocks)) = self.disks[lun].choose(&mut self.dice, true) else { return };
        let ranges =
            [UnmapRange { lba: lba as u64, blocks: blocks as u32 }, UnmapRange { lba: 0, blocks: 0 }];
        let list = emit_unmap(&ranges);
        let list_len = list.len() as u16;
        let task = Task::sending(lun, list, Effect::Writes { lba, data: vec![0; blocks * BLOCK] });
        self.submit(number, Cdb::Unmap { list_len }, task);
    }

    fn compare_and_write(&mut self, number: usize) {
        let lun = self.dice.below(LUNS);
        let Some((lba, blocks)) = self.disks[lun].choose(&mut self.dice, true) else { return };
        let Some(there) = self.disks[lun].known(lba, blocks) else { return };
        let (mut expected, new) = (there.to_vec(), self.dice.bytes(blocks * BLOCK));
        let is_there = self.dice.chance(70);
        let mut task = if is_there {
            Task::sending(lun, Vec::new(), Effect::Writes { lba, data: new.clone() })
        } else {
            let at = self.dice.below(expected.len());
            expected[at] ^= 1;
            Task::new(lun, Expect::Check(SenseKey::Miscompare, 0x1d))
        };
        task.out = [expected, new].concat();
        (task.expected_bytes, task.actual_bytes) = (task.out.len(), task.out.len());
        let cdb = Cdb::CompareAndWrite { lba: lba as u64, blocks: blocks as u8, dpo: false, fua: false };
        self.submit(number, cdb, task);
    }

    fn verify(&mut self, number: usize) {
        let lun = self.dice.below(LUNS);
        let Some((lba, blocks)) = self.disks[lun].choose(&mut self.dice, false) else { return };
        let Some(there) = self.disks[lun].known(lba, blocks) else { return };
        let task = Task::sending(lun, there.to_vec(), Effect::Nothing);
        let (form, lba, blocks) = (BlockForm::Ten, lba as u64, blocks as u32);
        self.submit(number, Cdb::Verify { form, lba, blocks, dpo: false, check: ByteCheck::Blocks }, task);
    }

    fn small(&mut self, number: usize) {
        let lun = self.dice.below(LUNS);
        let form = BlockForm::Ten;
        let (cdb, expected_bytes, may_be_told) = match self.dice.below(6) {
            0 => (Cdb::TestUnitReady, 0, true),
            1 => (Cdb::Inquiry { page: None, allocation_len: 36 }, 36, false),
            2 => (Cdb::Inquiry { page: Some(0xb0), allocation_len: 255 }, 255, false),
            3 => (Cdb::ReadCapacity10, 8, true),
            4 => (Cdb::ReportLuns { select: 0, allocation_len: 64 }, 64, false),
            _ => (Cdb::SynchronizeCache { form, lba: 0, blocks: 0, immed: false }, 0, true),
        };
        let mut task = Task::new(lun, Expect::Anything);
        (task.expected_bytes, task.may_be_told) = (expected_bytes, may_be_told);
        self.submit(number, cdb, task);
    }

    /// What is checked and refused, with whatever data comes along.
    fn refused(&mut self, number: usize) {
        let form = BlockForm::Sixteen;
        let (dpo, fua) = (false, false);
        let illegal = SenseKey::IllegalRequest;
        let lun = self.dice.below(LUNS);
        let mut task = Task::new(lun, Expect::Check(illegal, 0x20));
        match self.dice.below(3) {
            0 => {
                (task.lun, task.expect, task.expected_bytes) = (7, Expect::Check(illegal, 0x25), 4096);
                self.submit(number, Cdb::Read { form, lba: 0, blocks: 8, dpo, fua }, task);
            }
            1 => {
                (task.out, task.expected_bytes) = (self.dice.bytes(4096), 4096);
                task.expect = Expect::Check(illegal, 0x21);
                self.submit(number, Cdb::Write { form, lba: BLOCKS as u64 - 7, blocks: 8, dpo, fua }, task);
            }
            _ => {
                (task.out, task.expected_bytes) = (self.dice.bytes(1000), 1000);
                // No command has this code, so it needs no reservation.
                let mut cdb = Cdb::TestUnitReady.emit();
                cdb[0] = 0xff;
                self.peers[number].command(&mut self.dice, cdb, task);
            }
        }
    }

    pub(crate) fn ping(&mut self, number: usize, line: usize, immediate: bool) {
        let data = self.dice.bytes(8).repeat(1 + self.dice.below(64));
        let peer = &mut self.peers[number];
        let cmd_sn = peer.take_cmd_sn(immediate);
        peer.ping(line, (immediate, cmd_sn), &data, Expect::Echo(data.clone()));
    }

    fn text(&mut self, number: usize) {
        let line = self.any_line(number);
        let peer = &mut self.peers[number];
        if peer.open.values().any(Task::is_text) {
            return; // One text negotiation at a time.
        }
        let request = TextRequest {
            immediate: false,
            is_final: true,
            is_continued: false,
            data_segment_len: 0,
            lun: Lun(0),
            itt: peer.next_itt(),
            ttt: RESERVED_TAG,
            cmd_sn: peer.take_cmd_sn(false),
            exp_stat_sn: 0,
        };
        peer.lines[line].numbers.push(request.cmd_sn);
        peer.queue(line, request, b"SendTargets=\0", Task::new(usize::MAX, Expect::Anything));
    }

    /// The abort of a task that is not there ends, somehow.
    fn abort_of_nothing(&mut self, number: usize) {
        let (line, lun) = (self.any_line(number), self.dice.below(LUNS));
        let peer = &mut self.peers[number];
        let itt = peer.next_itt();
        // What is still on its way over another connection is not meant: it would count as received.
        let distance = if peer.lines.len() == 1 { 1 } else { 1 << 20 };
        let nothing = (0xdead_beef, peer.cmd_sn.wrapping_sub(distance));
        let abort = peer.management(task_function::ABORT_TASK, lun, (itt, true), nothing);
        peer.queue(line, abort, &[], Task::new(lun, Expect::Anything));
    }

    /// One of the connections of a session.
    pub(crate) fn any_line(&mut self, number: usize) -> usize {
        self.dice.below(self.peers[number].lines.len())
    }
}

/// What a command needs of a reserved unit (SPC-2 table 10, SPC-4 table 66).
fn need(cdb: &Cdb) -> Need {
    match cdb {
        Cdb::Inquiry { .. } | Cdb::ReportLuns { .. } => Need::Nothing,
        Cdb::TestUnitReady | Cdb::ReadCapacity10 => Need::Presence,
        Cdb::Read { .. } | Cdb::Verify { .. } => Need::Read,
        _ => Need::Write,
    }
}
