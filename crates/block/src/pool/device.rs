//! A blocking store behind the device interface: a pool of workers makes its calls.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;

use event::Instant;
use net::clock;
use slab::Slab;

use super::call::{Called, Halt, StoreCall};
use super::workers::{Claim, Step, Workers};
use crate::composite::Composite;
use crate::device::{
    BlockCompletion, BlockDevice, BlockOp, BlockRequest, BlockSizes, Capabilities, Limits, Owner, Profile,
    Select, Token, check,
};
use crate::error::OperationError;
use crate::store::{BlockingStore, RANGE_MAX_BYTES, TRANSFER_MAX_BYTES, WRITTEN_RANGE_MAX_BYTES};

/// Threads that make the calls of the blocking stores of a loop.
#[derive(Debug)]
pub struct Pool {
    workers: Workers<Job, Ended>,
    inboxes: RefCell<Slab<Inbox>>,
    /// Devices that there were.
    devices: Cell<u64>,
}

/// Completions of a device that were not polled yet.
#[derive(Debug)]
struct Inbox {
    device: u64,
    completions: VecDeque<BlockCompletion>,
}

/// A call of a store for a request.
#[derive(Debug)]
struct Job {
    store: Arc<dyn BlockingStore>,
    call: StoreCall,
    claim: Claim,
    route: Route,
}

/// Way of a completion to its request.
#[derive(Clone, Copy, Debug)]
struct Route {
    /// Number of the device, which is not used again.
    device: u64,
    /// Number of its inbox.
    inbox: usize,
    id: Token,
    owner: Owner,
    is_timed: bool,
}

#[derive(Debug)]
struct Ended {
    route: Route,
    called: Called,
    ended_at: Option<Instant>,
}

impl Pool {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system refused a thread.
    pub fn start(threads: usize) -> io::Result<Rc<Pool>> {
        let workers = Workers::start(threads, run)?;
        Ok(Rc::new(Pool { workers, inboxes: RefCell::default(), devices: Cell::new(0) }))
    }

    /// Hands the results of the workers to their devices, to be polled. The loop calls it when the pool's descriptor is
    /// readable.
    pub fn collect(&self) {
        let mut inboxes = self.inboxes.borrow_mut();
        for Ended { route, called, ended_at } in self.workers.results() {
            // A device that was dropped has no inbox; its buffers are given back.
            if let Some(inbox) = inboxes.get_mut(route.inbox).filter(|inbox| inbox.device == route.device) {
                let Route { id, owner, .. } = route;
                let Called { result, read, extents } = called;
                inbox.completions.push_back(BlockCompletion { id, owner, result, read, extents, ended_at });
            }
        }
    }

    /// Ends without waiting for the calls that are under way, unlike a drop. Devices of the pool are dropped before.
    pub fn abandon(pool: Rc<Pool>) {
        if let Some(pool) = Rc::into_inner(pool) {
            pool.workers.abandon();
        }
    }
}

impl AsFd for Pool {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.workers.as_fd()
    }
}

/// Makes a call, or the next piece of it; called on a worker.
fn run(job: Job) -> Step<Job, Ended> {
    let Job { store, call, claim, route } = job;
    match call.step(&*store) {
        Step::More { bytes, job: call } => Step::More { bytes, job: Job { store, call, claim, route } },
        Step::Done(called) => Step::Done(Ended { route, called, ended_at: route.is_timed.then(clock::now) }),
    }
}

/// A [`BlockingStore`] as a [`BlockDevice`]. Its completions come by [`Pool::collect`].
#[derive(Debug)]
pub struct PooledDevice {
    pool: Rc<Pool>,
    store: Arc<dyn BlockingStore>,
    profile: Profile,
    number: u64,
    /// Number of its inbox, and of its store among the workers.
    inbox: usize,
    /// Composites that are outstanding.
    halts: HashMap<(Owner, Token), Halt>,
    /// Completions without a call.
    done: VecDeque<BlockCompletion>,
}

impl PooledDevice {
    /// A device on a store, whose calls the pool makes.
    pub fn new(store: Arc<dyn BlockingStore>, profile: Profile, pool: &Rc<Pool>) -> PooledDevice {
        let number = pool.devices.get();
        pool.devices.set(number + 1);
        let inbox = pool.inboxes.borrow_mut().insert(Inbox { device: number, completions: VecDeque::new() });
        let (halts, done) = (HashMap::new(), VecDeque::new());
        PooledDevice { pool: Rc::clone(pool), store, profile, number, inbox, halts, done }
    }

    /// A device on a store in blocks of `block_bytes`, with everything that the store can do.
    pub fn from_store(
        store: Arc<dyn BlockingStore>,
        block_bytes: u32,
        read_only: bool,
        pool: &Rc<Pool>,
    ) -> PooledDevice {
        let profile = profile(&*store, block_bytes, read_only);
        PooledDevice::new(store, profile, pool)
    }

    fn execute(&mut self, request: BlockRequest) {
        let BlockRequest { id, owner, op, fua, is_timed } = request;
        let fua = fua && self.profile.can.write_cache;
        let call = match op {
            BlockOp::Read { offset_bytes, mut into } => {
                if !fua && self.store.read_cached(offset_bytes, &mut into) {
                    let ended_at = is_timed.then(clock::now);
                    let (result, read, extents) = (Ok(()), Some(into), Vec::new());
                    let done = BlockCompletion { id, owner, result, read, extents, ended_at };
                    return self.done.push_back(done);
                }
                StoreCall::Read { offset_bytes, buffer: into, fua, done_bytes: 0 }
            }
            BlockOp::Write { offset_bytes, data } => {
                StoreCall::Write { offset_bytes, buffer: data, fua, done_bytes: 0 }
            }
            BlockOp::Flush => StoreCall::Flush,
            BlockOp::Extents { range, extents_max } => StoreCall::Extents { range, extents_max },
            BlockOp::Composite(action) => {
                let halt = self.halts.entry((owner, id)).or_default().clone();
                StoreCall::Composite {
                    composite: Composite { action, fua },
                    done_bytes: 0,
                    halt,
                    counted: None,
                }
            }
        };
        let claim = Claim { owner: owner.0, store: self.inbox as u16 };
        let route = Route { device: self.number, inbox: self.inbox, id, owner, is_timed };
        let (store, bytes) = (Arc::clone(&self.store), call.cost_bytes(&*self.store));
        self.pool.workers.submit(claim, bytes, Job { store, call, claim, route });
    }
}

/// Profile of a store. Unmapping is announced where it gives space back.
fn profile(store: &dyn BlockingStore, block_bytes: u32, read_only: bool) -> Profile {
    let makes_zeros = store.makes_zeros();
    let physical_bytes = store.physical_block_bytes().max(block_bytes);
    Profile {
        len_bytes: store.len_bytes(),
        blocks: BlockSizes {
            logical_bytes: block_bytes,
            physical_bytes,
            preferred_bytes: store.granularity_bytes().max(physical_bytes),
        },
        limits: Limits {
            transfer_bytes: TRANSFER_MAX_BYTES,
            range_bytes: if makes_zeros { RANGE_MAX_BYTES } else { WRITTEN_RANGE_MAX_BYTES },
        },
        can: Capabilities {
            read_only,
            write_cache: store.has_write_cache(),
            fua: true,
            unmap: makes_zeros,
            unmapped_reads_zero: makes_zeros,
            fill: true,
            compare: true,
            extents: true,
        },
    }
}

impl BlockDevice for PooledDevice {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn submit(&mut self, request: BlockRequest, _now: Instant) {
        match check(&self.profile, &request) {
            Ok(()) => self.execute(request),
            Err(error) => self.done.push_back(request.refused(error)),
        }
    }

    fn poll(&mut self, _now: Instant) -> Option<BlockCompletion> {
        let done = self.done.pop_front();
        let done = done.or_else(|| self.pool.inboxes.borrow_mut()[self.inbox].completions.pop_front())?;
        self.halts.remove(&(done.owner, done.id));
        Some(done)
    }

    /// A call that a worker has begun is finished, but for the rest of an operation of several pieces.
    fn cancel(&mut self, select: Select, _now: Instant) {
        let owner = match select {
            Select::One(owner, _) | Select::Owner(owner) => owner,
        };
        let is_over = |job: &Job| {
            let is_begun = matches!(job.call, StoreCall::Write { done_bytes: 1.., .. });
            let Route { device, id, owner, .. } = job.route;
            !is_begun && device == self.number && select.has(owner, id)
        };
        for job in self.pool.workers.take_back(owner.0, is_over) {
            let Route { id, owner, .. } = job.route;
            let read = if let StoreCall::Read { buffer, .. } = job.call { Some(buffer) } else { None };
            let result = Err(OperationError::cancelled());
            let done = BlockCompletion { id, owner, result, read, extents: Vec::new(), ended_at: None };
            self.done.push_back(done);
        }
        for ((_, _), halt) in self.halts.iter().filter(|((owner, id), _)| select.has(*owner, *id)) {
            halt.set();
        }
    }

    fn next_at(&self) -> Instant {
        let has_one = !self.done.is_empty() || !self.pool.inboxes.borrow()[self.inbox].completions.is_empty();
        if has_one { Instant::ZERO } else { Instant::FAR_FUTURE }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Drop for PooledDevice {
    fn drop(&mut self) {
        self.pool.inboxes.borrow_mut().remove(self.inbox);
    }
}
