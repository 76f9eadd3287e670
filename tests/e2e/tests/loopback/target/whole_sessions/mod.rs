//! Whole sessions at random on our target's port: operations of all kinds by several initiators at once, each over one
//! connection or several, with digests and without, in pieces of any length; with logins, aborts, resets, reservations,
//! lost connections, rude ends and nonsense in between, against a model of what the LUNs hold and who may use them.
//!
//! What is checked: every request has exactly one answer unless it was ended, the numbers of every PDU, the data, who is
//! refused what, that memory is bounded, and that nothing panics. `FARLUN_SEED=N` repeats a run, as far as what it does
//! is concerned: who comes first is the machine's. `FARLUN_LONG=1` makes it half an hour with one seed after the other,
//! and `FARLUN_MINUTES` says how many instead.

mod answers;
mod dice;
mod disk;
mod ends;
mod incidents;
mod line;
mod peer;
mod requests;
mod reservations;
mod reserving;
mod task;

use std::fs::File;
use std::time::{Duration, Instant};

use e2e::ours::Target;
use tempfile::TempDir;
use wire::scsi::{BlockForm, Cdb};

use dice::Dice;
use disk::{BLOCK, BLOCKS, Disk};
use incidents::Incident;
use peer::{Peer, Seen};
use reservations::Reservations;
use task::{Effect, Expect, Task};

const PEERS: usize = 4;
/// LUN 0 is memory, LUN 1 a file, LUN 2 memory that takes its time; there is no other.
const LUNS: usize = 3;
const MEMORY: usize = 0;
const FILE: usize = 1;
/// Rounds of one seed in a usual run, and between new targets in a long one.
const ROUNDS: usize = 2000;
/// What the target may hold beyond what it held at first.
const GROWTH_MAX_BYTES: u64 = 64 << 20;

struct World {
    target: Target,
    dice: Dice,
    disks: [Disk; LUNS],
    reservations: [Reservations; LUNS],
    peers: Vec<Peer>,
    ports: u32,
    seen: Seen,
    /// How often each kind of incident happened.
    incidents: [usize; Incident::KINDS],
    /// What comes in between in this round.
    incident: Option<Incident>,
    _folder: TempDir,
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
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let file = File::create(&path).expect("a file for the disk");
        file.set_len((BLOCKS * BLOCK) as u64).expect("room for the file");
        let memory = format!("memory:{}KiB", BLOCKS * BLOCK / 1024);
        let slow = format!("{memory},delay=0ms..1ms");
        let luns = [&*memory, &format!("file:{}", path.display()), &slow];
        let target = Target::serve_with(&luns, &["--cold-reset", line::INITIATOR]);
        World {
            target,
            dice: Dice::new(seed),
            disks: std::array::from_fn(|_| Disk::zeroed()),
            reservations: Default::default(),
            peers: Vec::new(),
            ports: 0,
            seen: Seen::default(),
            incidents: [0; Incident::KINDS],
            incident: None,
            _folder: folder,
        }
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
            if self.dice.chance(15) {
                self.change_reservations();
            }
            for number in 0..PEERS {
                if self.peers[number].has_room() && self.dice.chance(30) {
                    self.peers[number].join(&self.target, &mut self.dice, None);
                }
                if self.dice.chance(3) {
                    self.leave(number);
                    self.log_in_again(number);
                }
            }
        }
        self.look_at_everything();
        for number in 0..PEERS {
            self.seen.add(self.peers[number].seen);
        }
        let least = self.incidents.iter().copied().min().unwrap_or(0);
        assert!(self.seen.least() > ROUNDS / 100, "not much has happened: {:?}", self.seen);
        assert!(least > ROUNDS / 1000, "not much has happened in between: {:?}", self.incidents);
        let grown_bytes = self.target.service.resident_bytes().saturating_sub(before_bytes);
        assert!(grown_bytes < GROWTH_MAX_BYTES, "{grown_bytes} bytes more than at first");
        self.peers.clear();
        assert_eq!(self.target.service.terminate(), 0, "{}", self.target.service.stderr());
        let said = self.target.service.stderr();
        assert!(!said.contains("panicked"), "{said}");
    }

    /// A session from a port of its own.
    fn log_in(&mut self) -> Peer {
        self.ports += 1;
        Peer::log_in(&self.target, &mut self.dice, self.ports)
    }

    /// Another session in the place of one that has ended.
    fn log_in_again(&mut self, number: usize) {
        let is_same_port = self.dice.chance(30);
        let port = self.peers[number].port;
        self.seen.add(self.peers[number].seen);
        self.peers[number] = match is_same_port {
            true => Peer::log_in(&self.target, &mut self.dice, port),
            false => self.log_in(),
        };
        self.reservations.iter_mut().for_each(|unit| unit.let_go(Some(port)));
    }

    /// Some operations of everybody, sent in pieces that alternate, something that comes in between, then all answers.
    fn round(&mut self) {
        self.disks.iter_mut().for_each(Disk::begin_round);
        let incident = if self.dice.chance(25) { self.choose_incident() } else { None };
        self.incident = incident;
        for number in 0..PEERS {
            let (before, after) = (self.dice.below(9), self.dice.below(4));
            self.operations(number, before);
            if let Some(incident) = incident.filter(|incident| incident.number == number) {
                self.queue_incident(incident);
                self.operations(number, after);
            }
            let peer = &mut self.peers[number];
            (0..peer.lines.len()).for_each(|line| peer.queue_late(line));
        }
        match incident {
            None => self.deliver(),
            Some(incident) => self.carry_out(incident),
        }
        for number in 0..PEERS {
            self.peers[number].collect(&mut self.dice);
        }
        for peer in &mut self.peers {
            peer.settle(&mut self.dice);
        }
        if let Some(incident) = incident {
            self.come_to_rest(incident);
        }
        // Nothing comes that nobody asked for.
        for number in 0..PEERS {
            for line in 0..self.peers[number].lines.len() {
                self.ping(number, line, true);
            }
        }
        self.exchange();
        self.peers.iter_mut().for_each(Peer::end_round);
    }

    fn operations(&mut self, number: usize, count: usize) {
        (0..count).for_each(|_| self.operation(number));
    }

    /// Sends what is queued and takes the answers.
    fn exchange(&mut self) {
        self.deliver();
        for number in 0..PEERS {
            self.peers[number].collect(&mut self.dice);
            self.peers[number].note_told();
            self.apply(number);
        }
    }

    /// Sends what is queued on all connections, in pieces that alternate.
    fn deliver(&mut self) {
        let mut waiting = self.waiting();
        self.send(&mut waiting, |line, piece| line.send(piece));
    }

    /// What waits to be sent: whose, on which of its connections, and the bytes.
    fn waiting(&mut self) -> Vec<Waiting> {
        let mut waiting = Vec::new();
        for (number, peer) in self.peers.iter_mut().enumerate() {
            for (line, found) in peer.lines.iter_mut().enumerate() {
                let bytes = std::mem::take(&mut found.queued).concat();
                waiting.push(Waiting { number, line, bytes });
            }
        }
        waiting
    }

    fn send(&mut self, waiting: &mut Vec<Waiting>, send: impl Fn(&mut line::Line, &[u8])) {
        waiting.retain(|waiting| !waiting.bytes.is_empty());
        while !waiting.is_empty() {
            let at = self.dice.below(waiting.len());
            let Waiting { number, line, bytes } = &mut waiting[at];
            let most = self.dice.pick(&[1, 20, 48, 100, 5000, 1 << 20]);
            let piece: Vec<u8> = bytes.drain(..most.min(bytes.len())).collect();
            send(&mut self.peers[*number].lines[*line], &piece);
            waiting.retain(|waiting| !waiting.bytes.is_empty());
        }
    }

    /// What a session's commands have done to the LUNs.
    fn apply(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        for task in peer.ended.drain(..) {
            match task.effect {
                Effect::Nothing | Effect::Tells { .. } => {}
                Effect::Reads { lba } => self.disks[task.lun].expect(lba, &task.received),
                Effect::Writes { lba, data } => self.disks[task.lun].write(lba, &data),
            }
        }
        for task in peer.lost.drain(..) {
            if let Effect::Writes { lba, data } = task.effect {
                self.disks[task.lun].forget(lba, data.len().div_ceil(BLOCK));
            }
        }
    }

    /// Every block, by somebody who has not been there before.
    fn look_at_everything(&mut self) {
        (0..LUNS).for_each(|lun| self.free(lun));
        self.leave(0);
        self.seen.add(self.peers[0].seen);
        self.peers[0] = self.log_in();
        self.disks.iter_mut().for_each(Disk::begin_round);
        for lun in 0..LUNS {
            self.hear_attentions(0, lun);
            let mut task = Task::new(lun, Expect::Good);
            task.effect = Effect::Reads { lba: 0 };
            (task.expected_bytes, task.actual_bytes) = (BLOCKS * BLOCK, BLOCKS * BLOCK);
            task.may_be_told = false;
            let (form, lba, blocks) = (BlockForm::Sixteen, 0, BLOCKS as u32);
            self.submit(0, Cdb::Read { form, lba, blocks, dpo: false, fua: false }, task);
        }
        self.exchange();
    }
}

/// What the target said belongs to a failure.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("in between: {:?}; the target said:", self.incident);
            println!("{}", self.target.service.stderr());
        }
    }
}

/// What waits to be sent on a connection.
struct Waiting {
    number: usize,
    line: usize,
    bytes: Vec<u8>,
}
