//! A pool of threads for calls that block (file I/O): jobs in, results out, and a descriptor that turns
//! readable when there are results. Jobs are taken fairly by owner ([`FairQueue`]), results come as they come.
//!
//! Two things besides keep one owner from holding up another: a job may be done in pieces, between which others have
//! their turn, and an owner whose calls are slow never holds all threads.

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
    jobs: FairQueue<J>,
    results: Vec<R>,
    threads: usize,
    /// Of them those that are at work, and how many each owner holds.
    busy: usize,
    held: HashMap<u64, usize>,
    is_closed: bool,
}

impl<J: Send + 'static, R: Send + 'static> Workers<J, R> {
    /// Starts `threads` threads, each of which calls `work` for one job, or piece of one, after another.
    pub fn start(
        threads: usize,
        work: impl Fn(J) -> Step<J, R> + Send + Clone + 'static,
    ) -> io::Result<Workers<J, R>> {
        let shared = Arc::new(Shared {
            queues: Mutex::new(Queues {
                jobs: FairQueue::new(),
                results: Vec::new(),
                threads,
                busy: 0,
                held: HashMap::new(),
                is_closed: false,
            }),
            has_jobs: Condvar::new(),
            wake: Wake::new()?,
        });
        let spawn = |index: usize| {
            let (shared, work) = (Arc::clone(&shared), work.clone());
            std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || shared.run(work))
        };
        let threads = (0..threads).map(spawn).collect::<io::Result<_>>()?;
        Ok(Workers { shared, threads })
    }

    /// Queues a job of `owner` that moves `bytes`. The caller bounds how many are under way.
    pub fn submit(&self, owner: u64, bytes: u64, job: J) {
        self.shared.lock().jobs.push(owner, bytes, job);
        self.shared.has_jobs.notify_one();
    }

    /// Takes the results that have come since the last call.
    pub fn results(&self) -> Vec<R> {
        self.shared.wake.clear();
        std::mem::take(&mut self.shared.lock().results)
    }
}

impl<J, R> Queues<J, R> {
    /// The next job, of an owner that holds fewer threads than are free: one owner alone has half of them, `n` have
    /// an `n+1`th each, and whoever comes next finds some. Whoever is passed over here holds a thread, which looks
    /// again when it is released.
    fn take(&mut self) -> Option<(u64, J)> {
        let (held, free) = (&self.held, self.threads - self.busy);
        let may = |owner| held.get(&owner).is_none_or(|held| *held < free);
        let (owner, job) = self.jobs.pop_of(may)?;
        *self.held.entry(owner).or_default() += 1;
        self.busy += 1;
        Some((owner, job))
    }

    fn release(&mut self, owner: u64) {
        self.busy -= 1;
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
            if let Some((owner, job)) = queues.take() {
                // A job that was passed over for want of free threads may run now that one was released.
                if !queues.jobs.is_empty() {
                    self.has_jobs.notify_one();
                }
                drop(queues);
                let step = work(job);
                queues = self.lock();
                queues.release(owner);
                match step {
                    Step::Done(result) => {
                        queues.results.push(result);
                        if queues.results.len() == 1 {
                            self.wake.wake();
                        }
                    }
                    Step::More { bytes, job } => queues.jobs.push_front(owner, bytes, job),
                }
            } else if queues.is_closed {
                return;
            } else {
                queues = self.has_jobs.wait(queues).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
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
            // A worker that panicked has said so on stderr; there is nothing to add here.
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
        (0..100).for_each(|n| workers.submit(n % 7, n, n));
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
        (0..100).for_each(|n| workers.submit(1, 4096, n));
        workers.submit(2, 4096, 1000);
        drop(held);
        drop(workers);
        let place = begun.lock().unwrap().iter().position(|n| *n == 1000).unwrap();
        assert!(place <= 2, "it came after {place} others");
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
        (0..50).for_each(|n| workers.submit(1, 4096, n));
        workers.submit(2, 4096, 100);
        poll.wait(&mut events, None).unwrap();
        assert_eq!(workers.results(), [100]);
        drop(held);
        let mut results = 0;
        while results < 50 {
            poll.wait(&mut events, None).unwrap();
            results += workers.results().len();
        }
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
        workers.submit(1, 1 << 16, (1, 5));
        workers.submit(1, 1 << 16, (1, 0));
        workers.submit(2, 4096, (2, 0));
        drop(held);
        drop(workers);
        let done = done.lock().unwrap();
        let place = done.iter().position(|piece| *piece == (2, 0)).unwrap();
        assert!((1..=2).contains(&place), "{done:?}");
        let own: Vec<_> = done.iter().filter(|(owner, _)| *owner == 1).map(|(_, left)| *left).collect();
        assert_eq!(own, [5, 4, 3, 2, 1, 0, 0], "a job goes on before the next of its owner begins");
    }
}
