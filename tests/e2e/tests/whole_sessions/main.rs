//! Whole sessions at random on our target's port: operations of all kinds by several initiators at once, in pieces of
//! any length, with logins, aborts, resets, rude ends and nonsense in between, against a model of what the LUNs hold.
//!
//! What is checked: every request has exactly one answer unless it was aborted, the numbers of every PDU, the data,
//! that memory is bounded, and that nothing panics. `FARLUN_SEED=N` repeats a run; `FARLUN_LONG=1` makes it half an
//! hour with one seed after the other, and `FARLUN_MINUTES` says how many instead.

mod dice;
mod disk;
#[path = "../pdu/mod.rs"]
mod pdu;
mod peer;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use e2e::ours::Target;
use tempfile::NamedTempFile;
use wire::iscsi::{
    LogoutRequest, Lun, NopOut, Pdu, RESERVED_TAG, SnackRequest, TextRequest, logout_reason, task_function,
    task_response,
};
use wire::scsi::{BlockForm, ByteCheck, Cdb, SenseKey, UnmapRange, emit_unmap};

use dice::Dice;
use disk::{BLOCK, BLOCKS, Disk};
use peer::{Effect, Expect, Peer, Task};

const PEERS: usize = 4;
/// LUN 0 is memory, LUN 1 a file; there is no third.
const LUNS: usize = 2;
const MEMORY: usize = 0;
/// Rounds of one seed in a usual run, and between new targets in a long one.
const ROUNDS: usize = 150;
/// What the target may hold beyond what it held at first.
const GROWTH_MAX_BYTES: u64 = 64 << 20;

struct World {
    target: Target,
    dice: Dice,
    disks: [Disk; LUNS],
    peers: Vec<Peer>,
    logins: u32,
    _file: NamedTempFile,
}

#[test]
fn whole_sessions_at_random() {
    let asked = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let minutes = asked("FARLUN_MINUTES").or(asked("FARLUN_LONG").map(|_| 30));
    let (began, mut seed) = (Instant::now(), asked("FARLUN_SEED").unwrap_or(1));
    loop {
        // Shown when a seed fails.
        println!("FARLUN_SEED={seed}");
        World::new(seed).run();
        seed += 1;
        if minutes.is_none_or(|minutes| began.elapsed() > Duration::from_secs(60 * minutes)) {
            break;
        }
    }
}

impl World {
    fn new(seed: u64) -> World {
        let file = NamedTempFile::with_prefix("farlun-sessions-").expect("a temporary file");
        file.as_file().set_len((BLOCKS * BLOCK) as u64).expect("room for the file");
        let memory = format!("memory:{}KiB", BLOCKS * BLOCK / 1024);
        let target = Target::serve(&[&memory, &format!("file:{}", file.path().display())]);
        let (dice, disks) = (Dice::new(seed), [Disk::zeroed(), Disk::zeroed()]);
        World { target, dice, disks, peers: Vec::new(), logins: 0, _file: file }
    }

    fn run(mut self) {
        for _ in 0..PEERS {
            let peer = self.log_in();
            self.peers.push(peer);
        }
        let before_bytes = self.target.service.resident_bytes();
        for _ in 0..ROUNDS {
            self.round();
            if self.dice.chance(5) {
                self.reset();
            }
            for number in 0..PEERS {
                if self.dice.chance(5) {
                    self.leave(number);
                    self.peers[number] = self.log_in();
                }
            }
        }
        self.look_at_everything();
        let grown_bytes = self.target.service.resident_bytes().saturating_sub(before_bytes);
        assert!(grown_bytes < GROWTH_MAX_BYTES, "{grown_bytes} bytes more than at first");
        self.peers.clear();
        assert_eq!(self.target.service.terminate(), 0, "{}", self.target.service.stderr());
        let said = self.target.service.stderr();
        assert!(!said.contains("panicked"), "{said}");
    }

    fn log_in(&mut self) -> Peer {
        self.logins += 1;
        Peer::log_in(&mut self.target, &mut self.dice, self.logins)
    }

    /// Some operations of everybody, sent in pieces that alternate, then all answers.
    fn round(&mut self) {
        self.disks.iter_mut().for_each(Disk::begin_round);
        for number in 0..PEERS {
            for _ in 0..self.dice.below(9) {
                self.operation(number);
            }
            let peer = &mut self.peers[number];
            let late = std::mem::take(&mut peer.late);
            peer.queued.extend(late);
        }
        self.deliver();
        let (dice, disks) = (&mut self.dice, &mut self.disks);
        for peer in &mut self.peers {
            peer.collect(dice, |task| match &task.effect {
                Effect::Nothing => {}
                Effect::Reads { lba } => disks[task.lun].expect(*lba, &task.received),
                Effect::Writes { lba, data } => disks[task.lun].write(*lba, data),
            });
        }
        // Nothing comes that nobody asked for.
        for number in 0..PEERS {
            self.ping(number, true);
        }
        self.deliver();
        for peer in &mut self.peers {
            peer.collect(&mut self.dice, |_| {});
        }
    }

    fn deliver(&mut self) {
        let mut waiting: Vec<Vec<u8>> =
            self.peers.iter_mut().map(|peer| std::mem::take(&mut peer.queued).concat()).collect();
        while waiting.iter().any(|bytes| !bytes.is_empty()) {
            let number = self.dice.below(PEERS);
            let bytes = &mut waiting[number];
            let most = self.dice.pick(&[1, 20, 48, 100, 5000, 1 << 20]);
            let piece: Vec<u8> = bytes.drain(..most.min(bytes.len())).collect();
            self.peers[number].send(&piece);
        }
    }

    fn operation(&mut self, number: usize) {
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
                self.ping(number, immediate);
            }
            94..97 => self.text(number),
            _ => self.abort_of_nothing(number),
        }
    }

    fn form(&mut self) -> BlockForm {
        self.dice.pick(&[BlockForm::Six, BlockForm::Ten, BlockForm::Twelve, BlockForm::Sixteen])
    }

    fn submit(&mut self, number: usize, cdb: Cdb, task: Task) {
        self.peers[number].command(&mut self.dice, cdb.emit(), task);
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
        let task = out_task(lun, block.clone(), Effect::Writes { lba, data: block.repeat(blocks) });
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
        let task = out_task(lun, list, Effect::Writes { lba, data: vec![0; blocks * BLOCK] });
        self.submit(number, Cdb::Unmap { list_len }, task);
    }

    fn compare_and_write(&mut self, number: usize) {
        let lun = self.dice.below(LUNS);
        let Some((lba, blocks)) = self.disks[lun].choose(&mut self.dice, true) else { return };
        let Some(there) = self.disks[lun].known(lba, blocks) else { return };
        let (mut expected, new) = (there.to_vec(), self.dice.bytes(blocks * BLOCK));
        let is_there = self.dice.chance(70);
        let mut task = if is_there {
            out_task(lun, Vec::new(), Effect::Writes { lba, data: new.clone() })
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
        let task = out_task(lun, there.to_vec(), Effect::Nothing);
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
        let (mut cdb, mut task) = match self.dice.below(3) {
            0 => {
                let mut task = Task::new(7, Expect::Check(illegal, 0x25));
                task.expected_bytes = 4096;
                (Cdb::Read { form, lba: 0, blocks: 8, dpo, fua }.emit(), task)
            }
            1 => {
                let mut task = Task::new(lun, Expect::Check(illegal, 0x21));
                task.out = self.dice.bytes(4096);
                (Cdb::Write { form, lba: BLOCKS as u64 - 7, blocks: 8, dpo, fua }.emit(), task)
            }
            _ => {
                let mut task = Task::new(lun, Expect::Check(illegal, 0x20));
                task.out = self.dice.bytes(1000);
                (Cdb::TestUnitReady.emit(), task)
            }
        };
        if task.expect == Expect::Check(illegal, 0x20) {
            cdb[0] = 0xff;
        }
        task.expected_bytes = task.expected_bytes.max(task.out.len());
        self.peers[number].command(&mut self.dice, cdb, task);
    }

    fn ping(&mut self, number: usize, immediate: bool) {
        let data = self.dice.bytes(8).repeat(1 + self.dice.below(64));
        let peer = &mut self.peers[number];
        let itt = peer.next_itt();
        let cmd_sn = peer.cmd_sn;
        let nop = NopOut {
            immediate,
            data_segment_len: 0,
            lun: Lun(0),
            itt,
            ttt: RESERVED_TAG,
            cmd_sn,
            exp_stat_sn: 0,
        };
        peer.cmd_sn = cmd_sn.wrapping_add(u32::from(!immediate));
        peer.queued.push(pdu::bytes(nop, &data));
        peer.open.insert(itt, Task::new(MEMORY, Expect::Echo(data)));
    }

    fn text(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        if peer.open.values().any(|task| task.may_be_told && task.lun == usize::MAX) {
            return; // One text negotiation at a time.
        }
        let itt = peer.next_itt();
        let request = TextRequest {
            immediate: false,
            is_final: true,
            is_continued: false,
            data_segment_len: 0,
            lun: Lun(0),
            itt,
            ttt: RESERVED_TAG,
            cmd_sn: peer.cmd_sn,
            exp_stat_sn: 0,
        };
        peer.cmd_sn = peer.cmd_sn.wrapping_add(1);
        peer.queued.push(pdu::bytes(request, b"SendTargets=\0"));
        peer.open.insert(itt, Task::new(usize::MAX, Expect::Anything));
    }

    /// The abort of a task that is not there ends, somehow.
    fn abort_of_nothing(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        let (itt, lun) = (peer.next_itt(), self.dice.below(LUNS));
        let abort = peer.management(task_function::ABORT_TASK, lun, itt, 0xdead_beef);
        peer.queued.push(abort);
        peer.open.insert(itt, Task::new(lun, Expect::Anything));
    }

    /// While nothing else is under way, somebody resets a unit: all have something to be told then.
    fn reset(&mut self) {
        let (number, lun) = (self.dice.below(PEERS), self.dice.below(LUNS));
        let peer = &mut self.peers[number];
        let itt = peer.next_itt();
        let reset = peer.management(task_function::LOGICAL_UNIT_RESET, lun, itt, RESERVED_TAG);
        peer.send(&reset);
        let response = loop {
            match peer.receive().0 {
                Pdu::TaskManagementResponse(response) => break response.response,
                Pdu::AsyncMessage(_) => {}
                other => panic!("{other:?} in answer to a reset"),
            }
        };
        assert!([task_response::COMPLETE, task_response::NOT_SUPPORTED].contains(&response), "{response}");
        self.peers.iter_mut().for_each(|peer| peer.attention[lun] = true);
    }

    /// A session ends, by the rules or not; nothing is under way but what is begun here.
    fn leave(&mut self, number: usize) {
        let blocks = self.disks[MEMORY].choose(&mut self.dice, true);
        let peer = &mut self.peers[number];
        let kind = self.dice.below(9);
        if let (3.., Some((lba, blocks))) = (kind, blocks) {
            // A write that may or may not come to its end.
            let mut task = out_task(MEMORY, vec![0x77; blocks * BLOCK], Effect::Nothing);
            task.expected_bytes = task.out.len();
            self.disks[MEMORY].forget(lba, blocks);
            let (form, lba, blocks) = (BlockForm::Ten, lba as u64, blocks as u32);
            let cdb = Cdb::Write { form, lba, blocks, dpo: false, fua: false };
            peer.command(&mut self.dice, cdb.emit(), task);
        }
        let mut bytes = std::mem::take(&mut peer.queued).concat();
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
                pdu::bytes(logout, &[])
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
            _ => snack(),
        };
        // Additional header segments that say nothing sensible.
        if last.len() >= 48 && self.dice.chance(20) && kind >= 3 {
            last[4] = self.dice.below(256) as u8;
        }
        bytes.extend(last);
        let cut = if kind == 3 { self.dice.below(bytes.len() + 1) } else { bytes.len() };
        // The target may have closed before it has taken all.
        let _ = peer.stream.write_all(&bytes[..cut]);
        let _ = peer.stream.shutdown(Shutdown::Write);
        let mut rest = Vec::new();
        if let Err(error) = peer.stream.read_to_end(&mut rest) {
            assert!(pdu::is_end(&error), "the target does not close: {error}");
        }
    }

    /// Every block, by somebody who has not been there before.
    fn look_at_everything(&mut self) {
        self.peers[0] = self.log_in();
        self.disks.iter_mut().for_each(Disk::begin_round);
        for lun in 0..LUNS {
            // The first is told of the login.
            self.submit(0, Cdb::TestUnitReady, Task::new(lun, Expect::Good));
            let mut task = Task::new(lun, Expect::Good);
            task.effect = Effect::Reads { lba: 0 };
            (task.expected_bytes, task.actual_bytes) = (BLOCKS * BLOCK, BLOCKS * BLOCK);
            let (form, lba, blocks) = (BlockForm::Sixteen, 0, BLOCKS as u32);
            self.submit(0, Cdb::Read { form, lba, blocks, dpo: false, fua: false }, task);
        }
        self.deliver();
        let (disks, mut looked) = (&self.disks, 0);
        self.peers[0].collect(&mut self.dice, |task| {
            disks[task.lun].expect(0, &task.received);
            looked += usize::from(!task.received.is_empty());
        });
        assert_eq!(looked, LUNS, "every LUN is read");
    }
}

/// A task that sends `out`, all of which belongs to it.
fn out_task(lun: usize, out: Vec<u8>, effect: Effect) -> Task {
    let mut task = Task::new(lun, Expect::Good);
    (task.expected_bytes, task.actual_bytes) = (out.len(), out.len());
    (task.out, task.effect) = (out, effect);
    task
}

/// A request to send again, which nobody may make without error recovery.
fn snack() -> Vec<u8> {
    let snack = SnackRequest {
        kind: 0,
        lun: Lun(0),
        itt: 1,
        ttt: RESERVED_TAG,
        exp_stat_sn: 0,
        beg_run: 0,
        run_length: 0,
    };
    pdu::bytes(snack, &[])
}
