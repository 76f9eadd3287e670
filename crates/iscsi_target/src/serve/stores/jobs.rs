//! Jobs of the pool of workers: calls of a LUN's store, and reservations to keep.

use std::sync::Arc;

use block::{
    BlockError, BlockingStore, Buffer, Called, Claim, FLUSH_COST_BYTES, OperationError, Step, StoreCall,
};
use event::Instant;
use net::clock;

use crate::lun::{Nexus, Save};

/// Nexus of jobs of the target itself: no session has this number.
const OWN: Nexus = Nexus(0);

/// A call for a task, or the rest of it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) store: Arc<dyn BlockingStore>,
    /// Number of the LUN that it is behind.
    pub(crate) lun: u16,
    pub(crate) call: Call,
    pub(crate) side: usize,
    pub(crate) nexus: Nexus,
    pub(crate) token: u64,
    /// The time of its end is wanted.
    pub(crate) is_timed: bool,
}

/// Kind of a job.
#[derive(Debug)]
pub(crate) enum Call {
    /// A call of the store.
    Store(StoreCall),
    /// Puts reservations on stable storage.
    Keep(Save),
}

impl From<StoreCall> for Call {
    fn from(call: StoreCall) -> Call {
        Call::Store(call)
    }
}

impl Job {
    /// Puts reservations on stable storage for no command of a session.
    pub(crate) fn keep(store: Arc<dyn BlockingStore>, lun: u16, save: Save) -> Job {
        Job { store, lun, call: Call::Keep(save), side: usize::MAX, nexus: OWN, token: 0, is_timed: false }
    }

    /// Cost of the next piece in the session's turn among the workers, in bytes that it moves.
    pub(crate) fn cost_bytes(&self) -> u64 {
        match &self.call {
            Call::Store(call) => call.cost_bytes(&*self.store),
            Call::Keep(_) => FLUSH_COST_BYTES,
        }
    }

    /// Result of a job that is not carried out.
    pub(crate) fn given_up(self) -> Done {
        let Job { side, nexus, token, .. } = self;
        Done { side, nexus, token, result: Ok(()), read: None, kept: None, ended: None }
    }

    /// Owner and store of the job, for the workers.
    pub(crate) fn claim(&self) -> Claim {
        Claim { owner: self.nexus.0, store: self.lun }
    }
}

/// Result of a job.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) side: usize,
    pub(crate) nexus: Nexus,
    pub(crate) token: u64,
    pub(crate) result: Result<(), OperationError>,
    /// The data of a read.
    pub(crate) read: Option<Buffer>,
    /// Reservations that were to be kept, and the number of their LUN.
    pub(crate) kept: Option<(u16, Save)>,
    /// End of the call in the store, if it is wanted.
    pub(crate) ended: Option<Instant>,
}

impl Done {
    /// Error of a job of the target itself, which is reported to no session.
    pub(crate) fn own_error(&self) -> Option<&BlockError> {
        self.result.as_ref().err().filter(|_| self.nexus == OWN)?.device_error()
    }
}

/// Runs a job, or the next piece of it; called on a worker.
pub(crate) fn run(job: Job) -> Step<Job, Done> {
    let Job { store, lun, call, side, nexus, token, is_timed } = job;
    let (result, read, kept) = match call {
        Call::Store(call) => match call.step(&*store) {
            Step::More { bytes, job: call } => {
                let call = Call::Store(call);
                return Step::More { bytes, job: Job { store, lun, call, side, nexus, token, is_timed } };
            }
            Step::Done(Called { result, read, .. }) => (result, read, None),
        },
        Call::Keep(save) => (save.write().map_err(OperationError::Write), None, Some((lun, save))),
    };
    let ended = is_timed.then(clock::now);
    Step::Done(Done { side, nexus, token, result, read, kept, ended })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use block::{Buffers, FileStore, OpenAs, Workers};
    use net::{Events, Interest, Poll};

    use super::*;

    #[test]
    fn a_piece_and_the_end_of_a_job_have_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let store: Arc<dyn BlockingStore> =
            Arc::new(FileStore::open_file(&path, OpenAs::default(), 512).unwrap());
        let buffer = Buffers::new(0).take(100_352);
        let call = StoreCall::Read { offset_bytes: 0, buffer, fua: false, done_bytes: 0 }.into();
        let job = Job { store, lun: 2, call, side: 3, nexus: Nexus(5), token: 9, is_timed: true };
        let Step::More { bytes, job } = run(job) else { panic!("it takes more than a piece") };
        assert_eq!((bytes, job.claim()), (job.cost_bytes(), Claim { owner: 5, store: 2 }));
        let Step::Done(done) = run(job) else { panic!("it takes two pieces") };
        assert!(done.result.is_ok() && done.ended.is_some() && done.read.unwrap()[..] == [0; 100_352]);
        assert_eq!((done.side, done.nexus, done.token), (3, Nexus(5), 9));
    }

    /// Sixteen sessions write to a store that hangs. Reads of another store are answered, also for one of these
    /// sessions.
    #[test]
    fn a_store_that_hangs_leaves_threads_to_another() {
        let dir = tempfile::tempdir().unwrap();
        let [hangs, other]: [Arc<dyn BlockingStore>; 2] = ["hangs", "other"].map(|name| {
            let path = dir.path().join(name);
            std::fs::write(&path, vec![0; 1 << 20]).unwrap();
            Arc::new(FileStore::open_file(&path, OpenAs::default(), 512).unwrap()) as _
        });
        let buffers = Buffers::new(0);
        let workers = Workers::start(crate::serve::service::target::WORKERS, run).unwrap();
        let (poll, mut events) = (Poll::new().unwrap(), Events::new());
        poll.add(workers.as_fd(), 0, Interest::READ).unwrap();
        let submit = |store: &Arc<dyn BlockingStore>, lun, nexus, token, call| {
            let (store, side, is_timed) = (Arc::clone(store), 0, false);
            let job = Job { store, lun, call, side, nexus: Nexus(nexus), token, is_timed };
            workers.submit(job.claim(), job.cost_bytes(), job);
        };
        let mut read = |nexus, token| {
            let buffer = buffers.take(4096);
            let call = StoreCall::Read { offset_bytes: 0, buffer, fua: false, done_bytes: 0 }.into();
            submit(&other, 1, nexus, token, call);
            poll.wait(&mut events, None).unwrap();
            let done: Vec<_> = workers.results().iter().map(|done| done.token).collect();
            assert_eq!(done, [token]);
        };
        read(90, 1000);
        let gate = hangs.gate().write().unwrap();
        for token in 0..96 {
            let buffer = buffers.take(4096);
            let call = StoreCall::Write { offset_bytes: 0, buffer, fua: false, done_bytes: 0 }.into();
            submit(&hangs, 0, token % 16, token, call);
        }
        read(91, 1001);
        read(3, 1002);
        drop(gate);
    }
}
