//! Calls into stores that block: what a worker is asked, and what it answers. Long calls are cut: between two pieces
//! others have their turn.

use std::sync::{Arc, PoisonError};

use engine::{Buffer, Claim, Step};
use event::Instant;
use net::clock;

use super::transfer::Halt;
use crate::backend::{BackendError, BlockStore};
use crate::lun::{Nexus, Save};
use crate::scsi::{Failure, Order};

/// A sync moves nothing and may take as long as what it waits for.
const SYNC_COST_BYTES: u64 = 1 << 20;

/// Nexus of jobs of the target itself: no session has this number.
const OWN: Nexus = Nexus(0);

/// One call, or a few that belong together.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) store: Arc<dyn BlockStore>,
    /// Number of the LUN that it is behind.
    pub(super) lun: u16,
    pub(super) call: Call,
    pub(super) side: usize,
    pub(super) nexus: Nexus,
    pub(super) token: u64,
    /// Somebody wants to know when it was done.
    pub(super) is_timed: bool,
}

/// What to do.
#[derive(Debug)]
pub(super) enum Call {
    /// Fill the buffer, of which `done_bytes` are filled already; first sync if the medium is meant.
    Read { offset_bytes: u64, buffer: Buffer, fua: bool, done_bytes: usize },
    /// Store the buffer, of which `done_bytes` are stored already; then sync if the medium is meant.
    Write { offset_bytes: u64, buffer: Buffer, fua: bool, done_bytes: usize },
    /// Make everything written so far durable.
    Sync,
    /// Put reservations on stable storage.
    Keep(Save),
    /// More than moving bytes, of which `done_bytes` are done already; with what the bytes count for that it came with.
    Order { order: Order, done_bytes: u64, halt: Halt, _counted: Option<Buffer> },
}

impl Job {
    /// Puts reservations on stable storage for no command of a session.
    pub(super) fn keep(store: Arc<dyn BlockStore>, lun: u16, save: Save) -> Job {
        Job { store, lun, call: Call::Keep(save), side: usize::MAX, nexus: OWN, token: 0, is_timed: false }
    }

    /// What its session's turn among the workers is counted by: what its next piece moves.
    pub(super) fn cost_bytes(&self) -> u64 {
        match &self.call {
            Call::Write { buffer, fua: true, .. } => buffer.len() as u64,
            Call::Read { buffer, done_bytes, .. } | Call::Write { buffer, done_bytes, .. } => {
                (buffer.len() - done_bytes).min(self.store.piece_bytes()) as u64
            }
            Call::Sync | Call::Keep(_) => SYNC_COST_BYTES,
            Call::Order { order, done_bytes, .. } => order.cost_bytes(&*self.store, *done_bytes),
        }
    }

    /// What comes of it if it is not carried out.
    pub(super) fn given_up(self) -> Done {
        let Job { side, nexus, token, .. } = self;
        Done { side, nexus, token, result: Ok(()), read: None, kept: None, ended: None }
    }

    /// Whose it is among the workers, and what for.
    pub(super) fn claim(&self) -> Claim {
        Claim { owner: self.nexus.0, store: self.lun }
    }
}

impl Call {
    /// What it moves.
    pub(super) fn len_bytes(&self) -> u64 {
        match self {
            Call::Read { buffer, .. } | Call::Write { buffer, .. } => buffer.len() as u64,
            Call::Order { order, .. } => order.moved_bytes(),
            Call::Sync | Call::Keep(_) => 0,
        }
    }

    /// Whether what it has written may be in a cache alone when it is done.
    pub(super) fn leaves_cached(&self) -> bool {
        match self {
            Call::Write { fua, .. } => !fua,
            Call::Order { order, .. } => !order.fua && !order.is_read(),
            Call::Read { .. } | Call::Sync | Call::Keep(_) => false,
        }
    }

    /// What it writes is to be on the medium when it is done.
    pub(super) fn reach_medium(&mut self) {
        match self {
            Call::Write { fua, .. } => *fua = true,
            Call::Order { order, .. } if !order.is_read() => order.fua = true,
            Call::Read { .. } | Call::Order { .. } | Call::Sync | Call::Keep(_) => {}
        }
    }

    /// Whether it only looks at the medium.
    pub(super) fn is_read(&self) -> bool {
        match self {
            Call::Read { .. } => true,
            Call::Order { order, .. } => order.is_read(),
            Call::Write { .. } | Call::Sync | Call::Keep(_) => false,
        }
    }
}

/// What came of a job.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) side: usize,
    pub(super) nexus: Nexus,
    pub(super) token: u64,
    pub(super) result: Result<(), Failure>,
    /// The data of a read.
    pub(super) read: Option<Buffer>,
    /// Reservations that were to be kept, and the number of their LUN.
    pub(super) kept: Option<(u16, Save)>,
    /// When the store had done it, if anybody wants to know.
    pub(super) ended: Option<Instant>,
}

impl Done {
    /// Error of a job of the target itself, which no session is told.
    pub(super) fn own_error(&self) -> Option<&BackendError> {
        self.result.as_ref().err().filter(|_| self.nexus == OWN)?.store_error()
    }
}

/// Runs a job, or the next piece of it; called on a worker.
pub(super) fn run(job: Job) -> Step<Job, Done> {
    let Job { store, lun, call, side, nexus, token, is_timed } = job;
    let (mut read, mut kept) = (None, None);
    let more = |call| {
        let rest = Job { store: Arc::clone(&store), lun, call, side, nexus, token, is_timed };
        Step::More { bytes: rest.cost_bytes(), job: rest }
    };
    // A store's own failures do not leave the gate half open: there is nothing behind it to be torn.
    let shared = || store.gate().read().unwrap_or_else(PoisonError::into_inner);
    let result = match call {
        Call::Read { offset_bytes, mut buffer, fua, done_bytes } => {
            let synced = if fua && done_bytes == 0 { store.sync() } else { Ok(()) };
            let end = buffer.len().min(done_bytes.saturating_add(store.piece_bytes()));
            let into = &mut buffer[done_bytes..end];
            let result = synced.and_then(|()| store.read_at(offset_bytes + done_bytes as u64, into));
            if result.is_ok() && end < buffer.len() {
                return more(Call::Read { offset_bytes, buffer, fua, done_bytes: end });
            }
            read = Some(buffer);
            result.map_err(Failure::Read)
        }
        Call::Write { offset_bytes, buffer, fua: false, done_bytes } => {
            let end = buffer.len().min(done_bytes.saturating_add(store.piece_bytes()));
            let result = {
                let _gate = shared();
                store.write_at(offset_bytes + done_bytes as u64, &buffer[done_bytes..end])
            };
            if result.is_ok() && end < buffer.len() {
                return more(Call::Write { offset_bytes, buffer, fua: false, done_bytes: end });
            }
            result.map_err(Failure::Write)
        }
        Call::Write { offset_bytes, buffer, fua: true, .. } => {
            let _gate = shared();
            store.write_through(offset_bytes, &buffer).map_err(Failure::Write)
        }
        Call::Sync => store.sync().map_err(Failure::Write),
        Call::Keep(save) => {
            let result = save.write().map_err(Failure::Write);
            kept = Some((lun, save));
            result
        }
        Call::Order { halt, .. } if halt.is_set() => Ok(()),
        Call::Order { order, mut done_bytes, halt, _counted } => {
            let alone =
                order.is_exclusive().then(|| store.gate().write().unwrap_or_else(PoisonError::into_inner));
            let beside = alone.is_none().then(shared);
            let step = order.in_store(&*store, &mut done_bytes);
            drop((alone, beside));
            if step == Ok(false) {
                return more(Call::Order { order, done_bytes, halt, _counted });
            }
            step.map(|_| ())
        }
    };
    let ended = is_timed.then(clock::now);
    Step::Done(Done { side, nexus, token, result, read, kept, ended })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use engine::{Buffers, Workers};
    use net::{Events, Interest, Poll};

    use super::*;
    use crate::backend::{Disk, FaultStore, OpenAs};
    use crate::scsi::{Action, Span};

    /// Runs a call to the end; how many steps it took, and what it has read.
    fn run_all(store: &Arc<dyn BlockStore>, call: Call) -> (usize, Option<Buffer>) {
        let (store, lun, side, nexus) = (Arc::clone(store), 2, 3, Nexus(5));
        let mut job = Job { store, lun, call, side, nexus, token: 9, is_timed: true };
        for steps in 1.. {
            match run(job) {
                Step::More { bytes, job: rest } => {
                    assert_eq!((bytes, rest.claim()), (rest.cost_bytes(), Claim { owner: 5, store: 2 }));
                    job = rest;
                }
                Step::Done(done) => {
                    assert!(done.result.is_ok() && done.ended.is_some());
                    assert_eq!((done.side, done.nexus, done.token), (3, Nexus(5), 9));
                    return (steps, done.read);
                }
            }
        }
        unreachable!("it ends")
    }

    #[test]
    fn long_copies_of_the_page_cache_are_cut_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let store: Arc<dyn BlockStore> = Arc::new(Disk::open_file(&path, OpenAs::default(), 512).unwrap());
        let buffers = Buffers::new(0);
        let cases = [(512, 1), (65536, 1), (65536 + 512, 2), (300_032, 5)];
        let cases = cases.into_iter().flat_map(|(len, steps)| [(len, steps, false), (len, steps, true)]);
        for (fill, (len, steps, fua)) in (1..).zip(cases) {
            let mut buffer = buffers.take(len);
            buffer.fill(fill);
            let (found, _) = run_all(&store, Call::Write { offset_bytes: 4096, buffer, fua, done_bytes: 0 });
            assert_eq!(found, if fua { 1 } else { steps }, "a write of {len} bytes, fua {fua}");
            let file = std::fs::read(&path).unwrap();
            assert!(file[4096..][..len].iter().all(|byte| *byte == fill) && file[4095] == 0, "{len} bytes");
            let buffer = buffers.take(len);
            let (found, read) =
                run_all(&store, Call::Read { offset_bytes: 4096, buffer, fua, done_bytes: 0 });
            assert_eq!(found, steps, "a read of {len} bytes, fua {fua}");
            assert!(read.unwrap()[..] == file[4096..][..len], "{len} bytes");
            // A rule for faults counts commands and not their pieces.
            let faulty: Arc<dyn BlockStore> = Arc::new(FaultStore::new(Arc::clone(&store), &[], 512, 0));
            let buffer = buffers.take(len);
            let read = Call::Read { offset_bytes: 4096, buffer, fua, done_bytes: 0 };
            assert_eq!(run_all(&faulty, read).0, 1, "{len} bytes with faults in front");
        }
    }

    #[test]
    fn what_is_written_without_fua_may_be_in_a_cache_alone() {
        let (buffers, span) = (Buffers::new(0), Span { offset_bytes: 0, len_bytes: 512 });
        let order = |action| Call::Order {
            order: Order { action, fua: false },
            done_bytes: 0,
            halt: Halt::default(),
            _counted: None,
        };
        let (buffer, pattern) = (|| buffers.take(512), vec![7; 512]);
        let new = pattern.clone();
        for (mut call, is_cached) in [
            (Call::Read { offset_bytes: 0, buffer: buffer(), fua: false, done_bytes: 0 }, false),
            (Call::Write { offset_bytes: 0, buffer: buffer(), fua: false, done_bytes: 0 }, true),
            (Call::Sync, false),
            (order(Action::Verify(span)), false),
            (order(Action::Compare { span, pattern: pattern.clone() }), false),
            (order(Action::Fill { span, pattern: pattern.clone() }), true),
            (order(Action::Unmap(vec![span])), true),
            (order(Action::Or { offset_bytes: 0, bits: pattern.clone() }), true),
            (order(Action::CompareAndWrite { offset_bytes: 0, expected: pattern, new }), true),
        ] {
            assert_eq!(call.leaves_cached(), is_cached, "{call:?}");
            call.reach_medium();
            assert!(!call.leaves_cached(), "it is on the medium: {call:?}");
        }
    }

    /// An UNMAP of sixty-four gigabytes holds up nobody: it is many pieces. One that was aborted ends after the piece that
    /// a worker is at.
    #[test]
    fn orders_are_cut_and_end_between_their_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::File::create(&path).unwrap().set_len(64 << 30).unwrap();
        let store: Arc<dyn BlockStore> = Arc::new(Disk::open_file(&path, OpenAs::default(), 512).unwrap());
        let halt = Halt::default();
        let order = |action| Call::Order {
            order: Order { action, fua: true },
            done_bytes: 0,
            halt: halt.clone(),
            _counted: None,
        };
        let whole = Span { offset_bytes: 0, len_bytes: 64 << 30 };
        assert_eq!(run_all(&store, order(Action::Unmap(vec![whole]))).0, 4096);
        let span = Span { offset_bytes: 4096, len_bytes: 1 << 20 };
        let fill = |value| order(Action::Fill { span, pattern: vec![value; 512] });
        assert_eq!(run_all(&store, fill(7)).0, 16);
        let (lun, side, nexus) = (2, 3, Nexus(5));
        let job =
            Job { store: Arc::clone(&store), lun, call: fill(9), side, nexus, token: 9, is_timed: false };
        let Step::More { job, .. } = run(job) else { panic!("it takes more than a piece") };
        halt.set();
        assert!(matches!(run(job), Step::Done(Done { token: 9, result: Ok(()), .. })));
        let mut found = vec![0; 1 << 20];
        store.read_at(4096, &mut found).unwrap();
        assert!(found[..64 << 10].iter().all(|byte| *byte == 9), "the piece that was begun");
        assert!(found[64 << 10..].iter().all(|byte| *byte == 7), "nothing after it");
    }

    /// Sixteen sessions write to a store that hangs. What is read from another one is answered, also to one of them.
    #[test]
    fn a_store_that_hangs_leaves_threads_to_another() {
        let dir = tempfile::tempdir().unwrap();
        let [hangs, other]: [Arc<dyn BlockStore>; 2] = ["hangs", "other"].map(|name| {
            let path = dir.path().join(name);
            std::fs::write(&path, vec![0; 1 << 20]).unwrap();
            Arc::new(Disk::open_file(&path, OpenAs::default(), 512).unwrap()) as _
        });
        let buffers = Buffers::new(0);
        let workers = Workers::start(super::super::WORKERS, run).unwrap();
        let (poll, mut events) = (Poll::new().unwrap(), Events::new());
        poll.add(workers.as_fd(), 0, Interest::READ).unwrap();
        let submit = |store: &Arc<dyn BlockStore>, lun, nexus, token, call| {
            let (store, side, is_timed) = (Arc::clone(store), 0, false);
            let job = Job { store, lun, call, side, nexus: Nexus(nexus), token, is_timed };
            workers.submit(job.claim(), job.cost_bytes(), job);
        };
        let mut read = |nexus, token| {
            let buffer = buffers.take(4096);
            let call = Call::Read { offset_bytes: 0, buffer, fua: false, done_bytes: 0 };
            submit(&other, 1, nexus, token, call);
            poll.wait(&mut events, None).unwrap();
            let done: Vec<_> = workers.results().iter().map(|done| done.token).collect();
            assert_eq!(done, [token]);
        };
        read(90, 1000);
        let gate = hangs.gate().write().unwrap();
        for token in 0..96 {
            let buffer = buffers.take(4096);
            let call = Call::Write { offset_bytes: 0, buffer, fua: false, done_bytes: 0 };
            submit(&hangs, 0, token % 16, token, call);
        }
        read(91, 1001);
        read(3, 1002);
        drop(gate);
    }
}
