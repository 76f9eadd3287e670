//! A pool of threads for calls that block (file I/O): jobs in, results out, and a descriptor that turns
//! readable when there are results. Each job belongs to an owner and is for a store: stores take turns by bytes, at each
//! of them its owners do ([`FairQueue`]), and results come as they come.
//!
//! Two things besides keep one from holding up another: a job may be done in pieces, between which others have their turn,
//! and neither an owner whose calls are slow nor a store that is slow ever holds all threads.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use net::Wake;

use crate::fair::FairQueue;

/// What came of a job, or of a piece of it.
#[derive(Debug)]
pub enum Step<J, R> {
    /// It is over.
    Done(R),
    /// There is more to do, of which the next piece moves `bytes`; others come first whose turn it is.
    More {
        /// What the next piece costs.
        bytes: u64,
        /// The rest.
        job: J,
    },
}

/// A pool of threads that turn jobs into results.
#[derive(Debug)]
pub struct Workers<J, R> {
    shared: Arc<Shared<J, R>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<J, R> {
    queues: Mutex<Queues<J, R>>,
    has_jobs: Condvar,
    wake: Wake,
}

#[derive(Debug)]
struct Queues<J, R> {
    /// By their numbers; those that were never used have no jobs.
    stores: Vec<Store<J>>,
    /// Stores that had a job at some time.
    used: usize,
    queued: usize,
    /// Where the turn of the store began that had the last one.
    now_bytes: u64,
    results: Vec<R>,
    threads: usize,
    /// Of them those that are at work, and how many each owner holds.
    busy: usize,
    held: HashMap<u64, usize>,
    is_closed: bool,
}

/// What is asked of one store.
#[derive(Debug)]
struct Store<J> {
    jobs: FairQueue<J>,
    is_used: bool,
    /// Where its next turn begins, in bytes that stores have moved.
    at_bytes: u64,
    /// Threads that are at work on it.
    held: usize,
}

/// Whose a job is, and what for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Who has it done.
    pub owner: u64,
    /// Number of the store that it is for, from 0 on.
    pub store: u16,
}

impl<J: Send + 'static, R: Send + 'static> Workers<J, R> {
    /// Starts `threads` threads, each of which calls `work` for one job, or piece of one, after another.
    pub fn start(
        threads: usize,
        work: impl Fn(J) -> Step<J, R> + Send + Clone + 'static,
    ) -> io::Result<Workers<J, R>> {
        let shared = Arc::new(Shared {
            queues: Mutex::new(Queues::new(threads)),
            has_jobs: Condvar::new(),
            wake: Wake::new()?,
        });
        // Threads that were started are ended, should one be refused.
        let mut workers = Workers { shared, threads: Vec::with_capacity(threads) };
        for index in 0..threads {
            let (shared, work) = (Arc::clone(&workers.shared), work.clone());
            let thread = std::thread::Builder::new().name(format!("worker-{index}"));
            workers.threads.push(thread.spawn(move || shared.run(work))?);
        }
        Ok(workers)
    }

    /// Queues a job that moves `bytes`. The caller bounds how many are under way.
    pub fn submit(&self, claim: Claim, bytes: u64, job: J) {
        let mut queues = self.shared.lock();
        queues.push(claim, bytes, job);
        let has_turn = queues.has_turn();
        drop(queues);
        if has_turn {
            self.shared.has_jobs.notify_one();
        }
    }

    /// Takes back the jobs of an owner of which `is_over` says so. What a worker is at is not among them, but the rest of it
    /// is, if it is between two pieces.
    pub fn take_back(&self, owner: u64, mut is_over: impl FnMut(&J) -> bool) -> Vec<J> {
        let mut queues = self.shared.lock();
        let stores = queues.stores.iter_mut();
        let jobs: Vec<J> = stores.flat_map(|store| store.jobs.take_of(owner, &mut is_over)).collect();
        queues.queued -= jobs.len();
        jobs
    }

    /// Jobs that are queued or being done.
    pub fn pending(&self) -> usize {
        let queues = self.shared.lock();
        queues.queued + queues.busy
    }

    /// Waits for nothing, as a drop does: who is at work goes on with it for as long as the process lives.
    pub fn abandon(mut self) {
        self.threads.clear();
    }

    /// Takes the results that have come since the last call.
    pub fn results(&self) -> Vec<R> {
        self.shared.wake.clear();
        std::mem::take(&mut self.shared.lock().results)
    }
}

impl<J, R> Queues<J, R> {
    fn new(threads: usize) -> Queues<J, R> {
        Queues {
            stores: Vec::new(),
            used: 0,
            queued: 0,
            now_bytes: 0,
            results: Vec::new(),
            threads,
            busy: 0,
            held: HashMap::new(),
            is_closed: false,
        }
    }

    fn push(&mut self, claim: Claim, bytes: u64, job: J) {
        self.store(claim.store).jobs.push(claim.owner, bytes, job);
        self.queued += 1;
    }

    /// The rest of a job that was taken.
    fn push_front(&mut self, claim: Claim, bytes: u64, job: J) {
        self.store(claim.store).jobs.push_front(claim.owner, bytes, job);
        self.queued += 1;
    }

    /// A store about to have a job more. One that had none does not make up for the turns it did not need.
    fn store(&mut self, number: u16) -> &mut Store<J> {
        let place = usize::from(number);
        if self.stores.len() <= place {
            let none = || Store { jobs: FairQueue::new(), is_used: false, at_bytes: 0, held: 0 };
            self.stores.resize_with(place + 1, none);
        }
        let store = &mut self.stores[place];
        self.used += usize::from(!std::mem::replace(&mut store.is_used, true));
        if store.jobs.is_empty() {
            store.at_bytes = store.at_bytes.max(self.now_bytes);
        }
        store
    }

    /// The next job, of an owner and for a store that hold fewer threads than are free: one alone has half of them, `n`
    /// have an `n+1`th each, and whoever comes next finds some. A store that is the only one has nobody to leave threads
    /// to. Whoever is passed over here holds a thread, which looks again when it is released.
    fn take(&mut self) -> Option<(Claim, J)> {
        let (held, free, is_only) = (&self.held, self.threads - self.busy, self.used == 1);
        let may = |owner| held.get(&owner).is_none_or(|held| *held < free);
        // One whose owners have all been passed over leaves its turn to the next.
        let mut least_bytes = None;
        loop {
            let key = |(place, store): (usize, &Store<J>)| {
                let has_turn = !store.jobs.is_empty() && (is_only || store.held < free);
                (has_turn && Some((store.at_bytes, place)) > least_bytes).then_some((store.at_bytes, place))
            };
            let next = self.stores.iter().enumerate().filter_map(key).min()?;
            let store = &mut self.stores[next.1];
            if let Some((owner, job, cost_bytes)) = store.jobs.pop_of(may) {
                // One that was slow, and behind for it, does not catch up at the expense of others.
                self.now_bytes = self.now_bytes.max(store.at_bytes);
                store.at_bytes = self.now_bytes + cost_bytes;
                store.held += 1;
                self.queued -= 1;
                self.busy += 1;
                *self.held.entry(owner).or_default() += 1;
                return Some((Claim { owner, store: next.1 as u16 }, job));
            }
            least_bytes = Some(next);
        }
    }

    /// Whether there is a job that another thread may take now. One that may not have it would be woken for nothing, and
    /// with a session at its share of threads that would be so for each piece of each job.
    fn has_turn(&self) -> bool {
        let free = self.threads - self.busy;
        let may = |owner| self.held.get(&owner).is_none_or(|held| *held < free);
        let is_its_turn =
            |store: &Store<J>| (self.used == 1 || store.held < free) && store.jobs.has_any_of(may);
        self.queued > 0 && free > 0 && self.stores.iter().any(is_its_turn)
    }

    fn release(&mut self, Claim { owner, store }: Claim) {
        self.busy -= 1;
        self.stores[usize::from(store)].held -= 1;
        if let Some(held) = self.held.get_mut(&owner) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&owner);
            }
        }
    }
}

impl<J, R> Shared<J, R> {
    fn lock(&self) -> MutexGuard<'_, Queues<J, R>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, work: impl Fn(J) -> Step<J, R>) {
        let mut queues = self.lock();
        loop {
            if let Some((claim, job)) = queues.take() {
                // A job that was passed over for want of free threads may run now that one was released.
                let has_turn = queues.has_turn();
                // Nobody is woken under the lock: the loop would wait for that too.
                drop(queues);
                if has_turn {
                    self.has_jobs.notify_one();
                }
                let step = or_abort(|| work(job));
                queues = self.lock();
                queues.release(claim);
                match step {
                    Step::Done(result) => {
                        queues.results.push(result);
                        if queues.results.len() == 1 {
                            drop(queues);
                            self.wake.wake();
                            queues = self.lock();
                        }
                    }
                    Step::More { bytes, job } => queues.push_front(claim, bytes, job),
                }
            } else if queues.is_closed {
                return;
            } else {
                queues = self.has_jobs.wait(queues).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// A job that panics would never have a result, and what waits for it would wait for ever: rather nothing is served, which
/// is seen, and begun again by who supervises.
fn or_abort<T>(work: impl FnOnce() -> T) -> T {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::process::abort();
        }
    }
    let bomb = Bomb;
    let done = work();
    std::mem::forget(bomb);
    done
}

impl<J, R> AsFd for Workers<J, R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }
}

/// Waits for the jobs that are queued: what was acknowledged is done.
impl<J, R> Drop for Workers<J, R> {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.has_jobs.notify_all();
        for thread in self.threads.drain(..) {
            // One that panicked has ended the process.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::{Events, Interest, Poll};

    #[test]
    fn every_job_has_its_result() {
        let workers = Workers::start(3, |n: u64| Step::Done(n * n)).unwrap();
        let (poll, mut events) = (Poll::new().unwrap(), Events::new());
        poll.add(workers.as_fd(), 0, Interest::READ).unwrap();
        (0..100).for_each(|n| workers.submit(claim(n % 7, (n % 3) as u16), n, n));
        let mut results = Vec::new();
        while results.len() < 100 {
            poll.wait(&mut events, None).unwrap();
            results.extend(workers.results());
        }
        assert_eq!(results.iter().sum::<u64>(), (0..100).map(|n| n * n).sum::<u64>());
    }

    /// One thread, held up by its first job, then two owners' jobs: the flood of the one does not come first.
    #[test]
    fn a_flood_does_not_hold_up_another_owner() {
        let gate = Arc::new(Mutex::new(()));
        let held = gate.lock().unwrap();
        let begun = Arc::new(Mutex::new(Vec::new()));
        let workers = Workers::start(1, {
            let (gate, begun) = (Arc::clone(&gate), Arc::clone(&begun));
            move |n: u64| {
                drop(gate.lock());
                begun.lock().unwrap().push(n);
                Step::Done(())
            }
        })
        .unwrap();
        (0..100).for_each(|n| workers.submit(claim(1, 0), 4096, n));
        workers.submit(claim(2, 0), 4096, 1000);
        drop(held);
        drop(workers);
        let place = begun.lock().unwrap().iter().position(|n| *n == 1000).unwrap();
        assert!(place <= 2, "it came after {place} others");
    }

    #[test]
    fn what_no_worker_has_begun_can_be_taken_back() {
        let gate = Arc::new(Mutex::new(()));
        let held = gate.lock().unwrap();
        let (began, begun) = std::sync::mpsc::channel();
        let workers = Workers::start(1, {
            let gate = Arc::clone(&gate);
            move |n: u64| {
                began.send(n).unwrap();
                drop(gate.lock());
                Step::Done(n)
            }
        })
        .unwrap();
        workers.submit(claim(1, 0), 4096, 0);
        assert_eq!(begun.recv(), Ok(0));
        (1..7).for_each(|n| workers.submit(claim(1 + n % 2, (n % 3) as u16), 4096, n));
        let mut taken = workers.take_back(1, |n| *n != 4);
        taken.sort_unstable();
        assert_eq!(taken, [2, 6], "those of another owner stay");
        drop(held);
        drop(workers);
        let mut done: Vec<_> = begun.iter().collect();
        done.sort_unstable();
        assert_eq!(done, [1, 3, 4, 5]);
    }

    /// Calls that are slow hold half of the threads at most; another owner's is served meanwhile.
    #[test]
    fn an_owner_whose_calls_are_slow_does_not_hold_all_threads() {
        let gate = Arc::new(Mutex::new(()));
        let held = gate.lock().unwrap();
        let work = {
            let gate = Arc::clone(&gate);
            move |n: u64| {
                if n < 100 {
                    drop(gate.lock());
                }
                Step::Done(n)
            }
        };
        let workers = Workers::start(4, work).unwrap();
        let (poll, mut events) = (Poll::new().unwrap(), Events::new());
        poll.add(workers.as_fd(), 0, Interest::READ).unwrap();
        (0..50).for_each(|n| workers.submit(claim(1, 0), 4096, n));
        workers.submit(claim(2, 0), 4096, 100);
        poll.wait(&mut events, None).unwrap();
        assert_eq!(workers.results(), [100]);
        drop(held);
        let mut results = 0;
        while results < 50 {
            poll.wait(&mut events, None).unwrap();
            results += workers.results().len();
        }
    }

    /// Sixteen owners that a slow store keeps waiting do not keep those waiting who want another one, theirs included.
    #[test]
    fn a_store_that_is_slow_does_not_hold_all_threads() {
        let gate = Arc::new(Mutex::new(()));
        let held = gate.lock().unwrap();
        let work = {
            let gate = Arc::clone(&gate);
            move |n: u64| {
                if n < 100 {
                    drop(gate.lock());
                }
                Step::Done(n)
            }
        };
        let workers = Workers::start(16, work).unwrap();
        let (poll, mut events) = (Poll::new().unwrap(), Events::new());
        poll.add(workers.as_fd(), 0, Interest::READ).unwrap();
        // Another store was used before, so there is somebody to leave threads to.
        workers.submit(claim(50, 1), 4096, 100);
        poll.wait(&mut events, None).unwrap();
        assert_eq!(workers.results(), [100]);
        (0..96).for_each(|n| workers.submit(claim(n % 16, 0), 4096, n));
        for (owner, n) in [(50, 101), (3, 102), (60, 103)] {
            workers.submit(claim(owner, 1), 4096, n);
            poll.wait(&mut events, None).unwrap();
            assert_eq!(workers.results(), [n]);
        }
        drop(held);
        let mut results = 0;
        while results < 96 {
            poll.wait(&mut events, None).unwrap();
            results += workers.results().len();
        }
    }

    #[test]
    fn nobody_is_woken_for_a_job_that_has_no_turn_yet() {
        let mut queues: Queues<u16, ()> = Queues::new(4);
        assert!(!queues.has_turn());
        for n in 0..4 {
            queues.push(claim(1, 0), 4096, n);
        }
        // One session has half of the threads, and the others are for whoever comes next.
        for expected in [true, false] {
            assert!(queues.has_turn() && queues.take().is_some());
            assert_eq!(queues.has_turn(), expected);
        }
        assert!(queues.take().is_none());
        queues.push(claim(2, 0), 4096, 9);
        assert!(queues.has_turn());
        assert_eq!(queues.take().map(|(claim, job)| (claim.owner, job)), Some((2, 9)));
        queues.release(claim(1, 0));
        assert!(queues.has_turn());
    }

    #[test]
    fn one_that_was_slow_does_not_catch_up_at_the_expense_of_others() {
        let mut queues = Queues::new(4);
        let take = |queues: &mut Queues<u16, ()>| queues.take().map(|(claim, _)| claim.store);
        queues.push(claim(1, 0), 1 << 20, 0);
        queues.push(claim(2, 1), 1 << 20, 1);
        assert_eq!((take(&mut queues), take(&mut queues)), (Some(0), Some(1)));
        // The first one hangs while the other moves a lot.
        queues.push(claim(1, 0), 1 << 20, 0);
        queues.busy += 2;
        for _ in 0..100 {
            queues.release(claim(2, 1));
            queues.push(claim(2, 1), 1 << 20, 1);
            assert_eq!(take(&mut queues), Some(1));
        }
        queues.busy -= 2;
        queues.release(claim(1, 0));
        queues.release(claim(2, 1));
        let mut served = Vec::new();
        for _ in 0..10 {
            (0..2).for_each(|store| queues.push(claim(u64::from(store) + 1, store), 1 << 20, store));
            let store = take(&mut queues).unwrap();
            queues.release(claim(u64::from(store) + 1, store));
            served.push(store);
        }
        let first = served.iter().filter(|store| **store == 0).count();
        assert!((5..=6).contains(&first), "{served:?}");
    }

    fn claim(owner: u64, store: u16) -> Claim {
        Claim { owner, store }
    }

    #[test]
    fn others_come_between_the_pieces_of_a_job() {
        let gate = Arc::new(Mutex::new(()));
        let held = gate.lock().unwrap();
        let done = Arc::new(Mutex::new(Vec::new()));
        let workers = Workers::start(1, {
            let (gate, done) = (Arc::clone(&gate), Arc::clone(&done));
            move |(owner, left): (u64, u32)| {
                drop(gate.lock());
                done.lock().unwrap().push((owner, left));
                match left {
                    0 => Step::Done(()),
                    _ => Step::More { bytes: 1 << 16, job: (owner, left - 1) },
                }
            }
        })
        .unwrap();
        workers.submit(claim(1, 0), 1 << 16, (1, 5));
        workers.submit(claim(1, 0), 1 << 16, (1, 0));
        workers.submit(claim(2, 0), 4096, (2, 0));
        drop(held);
        drop(workers);
        let done = done.lock().unwrap();
        let place = done.iter().position(|piece| *piece == (2, 0)).unwrap();
        assert!((1..=2).contains(&place), "{done:?}");
        let own: Vec<_> = done.iter().filter(|(owner, _)| *owner == 1).map(|(_, left)| *left).collect();
        assert_eq!(own, [5, 4, 3, 2, 1, 0, 0], "a job goes on before the next of its owner begins");
    }
}
