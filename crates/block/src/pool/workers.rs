//! A pool of threads for blocking calls (file I/O): jobs in, results out, and a descriptor that becomes readable with
//! results. Each job has an owner and a store. Stores take turns by bytes, and so do the owners of each store
//! ([`FairQueue`]); results come in order of completion.
//!
//! Two more rules keep jobs from delaying others: a job may be split into pieces, between which other jobs run, and
//! neither an owner nor a store with slow calls ever holds all threads.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use net::Wake;

use super::fair::{FairQueue, OwnerHash};

/// Result of a job, or of a piece of it.
#[derive(Debug)]
pub enum Step<J, R> {
    /// The job is done.
    Done(R),
    /// The next piece moves `bytes`; jobs of others may run before it.
    More {
        /// Cost of the next piece.
        bytes: u64,
        /// Rest of the job.
        job: J,
    },
}

/// A pool of threads that turn jobs into results.
#[derive(Debug)]
pub struct Workers<J, R> {
    shared: Arc<Shared<J, R>>,
    /// Threads that a drop waits for.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared<J, R> {
    queues: Mutex<Queues<J, R>>,
    has_jobs: Condvar,
    wake: Wake,
}

#[derive(Debug)]
struct Queues<J, R> {
    /// By their numbers; unused ones have no jobs.
    stores: Vec<Store<J>>,
    /// Stores that had a job and were not released since.
    used: usize,
    queued: usize,
    /// Begin of the last turn, in bytes that stores have moved.
    now_bytes: u64,
    results: Vec<R>,
    threads: usize,
    /// Busy threads; `held` counts them by owner.
    busy: usize,
    held: HashMap<u64, usize, OwnerHash>,
    is_closed: bool,
}

/// Jobs of one store.
#[derive(Debug)]
struct Store<J> {
    jobs: FairQueue<J>,
    is_used: bool,
    /// Begin of its next turn, in bytes that stores have moved.
    at_bytes: u64,
    /// Threads that are at work on it.
    held: usize,
}

/// Owner and store of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Number of the owner.
    pub owner: u64,
    /// Number of the store, from 0 on.
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
        let workers = Workers { shared, threads: Mutex::new(Vec::with_capacity(threads)) };
        for index in 0..threads {
            let (shared, work) = (Arc::clone(&workers.shared), work.clone());
            let thread = std::thread::Builder::new().name(format!("worker-{index}"));
            workers.threads().push(thread.spawn(move || shared.run(work))?);
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

    /// Takes back the jobs of an owner of which `is_over` says so. A piece that a worker is at is not among them, but its rest
    /// is, if it is between two pieces.
    pub fn take_back(&self, owner: u64, mut is_over: impl FnMut(&J) -> bool) -> Vec<J> {
        let mut queues = self.shared.lock();
        let stores = queues.stores.iter_mut();
        let jobs: Vec<J> = stores.flat_map(|store| store.jobs.take_of(owner, &mut is_over)).collect();
        queues.queued -= jobs.len();
        jobs
    }

    /// Takes back the jobs for a store of which `is_over` says so, of all owners.
    pub fn take_back_of_store(&self, store: u16, is_over: impl FnMut(&J) -> bool) -> Vec<J> {
        let mut queues = self.shared.lock();
        let jobs = queues.stores.get_mut(usize::from(store)).map(|store| store.jobs.take_all(is_over));
        let jobs = jobs.unwrap_or_default();
        queues.queued -= jobs.len();
        jobs
    }

    /// Releases a store that has no jobs and will have none under this number: no threads are kept free for others on
    /// its account.
    pub fn release_store(&self, store: u16) {
        self.shared.lock().release_store(store);
    }

    /// Jobs that are queued or being done.
    pub fn pending(&self) -> usize {
        let queues = self.shared.lock();
        queues.queued + queues.busy
    }

    /// Lets a drop end without waiting: threads at work go on for as long as the process lives.
    pub fn abandon(&self) {
        self.threads().clear();
    }

    /// Takes the results that have come since the last call.
    pub fn results(&self) -> Vec<R> {
        self.shared.wake.clear();
        std::mem::take(&mut self.shared.lock().results)
    }
}

impl<J, R> Workers<J, R> {
    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
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
            held: HashMap::default(),
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

    /// A store that is about to get a job. A store that was idle does not catch up on missed turns.
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

    fn release_store(&mut self, number: u16) {
        let released = self.stores.get_mut(usize::from(number)).filter(|store| store.is_used);
        if let Some(store) = released {
            debug_assert!(store.jobs.is_empty() && store.held == 0, "it has jobs");
            store.is_used = false;
            self.used -= 1;
        }
    }

    /// The next job, of an owner and for a store that hold fewer threads than are free: one alone has half of them, `n`
    /// have an `n+1`th each, and the next one finds some. A store that is the only one has all of them. An owner that is passed over here holds a thread, which looks again when it is released.
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

    /// Returns true if another thread may take a job now. One that may not have it would be woken for nothing, and
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
                // Wakes outside of the lock: the event loop would wait for it too.
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

/// Aborts the process if a job panics: it would never have a result, and its command would wait for ever. A supervisor
/// restarts the process.
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

/// Waits for the jobs that are queued: acknowledged work is done.
impl<J, R> Drop for Workers<J, R> {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.has_jobs.notify_all();
        for thread in self.threads().drain(..) {
            // One that panicked has ended the process.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
