//! A pool of threads for calls that block (file I/O): jobs in, results out, and a descriptor that turns
//! readable when there are results. Jobs are taken fairly by owner ([`FairQueue`]), results come as they come.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use net::Wake;

use crate::fair::FairQueue;

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
    is_closed: bool,
}

impl<J: Send + 'static, R: Send + 'static> Workers<J, R> {
    /// Starts `threads` threads, each of which calls `work` for one job after another.
    pub fn start(
        threads: usize,
        work: impl Fn(J) -> R + Send + Clone + 'static,
    ) -> io::Result<Workers<J, R>> {
        let shared = Arc::new(Shared {
            queues: Mutex::new(Queues { jobs: FairQueue::new(), results: Vec::new(), is_closed: false }),
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

impl<J, R> Shared<J, R> {
    fn lock(&self) -> MutexGuard<'_, Queues<J, R>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, work: impl Fn(J) -> R) {
        let mut queues = self.lock();
        loop {
            if let Some(job) = queues.jobs.pop() {
                drop(queues);
                let result = work(job);
                queues = self.lock();
                queues.results.push(result);
                if queues.results.len() == 1 {
                    self.wake.wake();
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
        let workers = Workers::start(3, |n: u64| n * n).unwrap();
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
}
