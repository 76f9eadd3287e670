//! The device that all connections share, and its requests under way.
//!
//! A connection that is lost leaves requests behind. They are withdrawn; those that the device has begun end in their own
//! time. Until then requests of others to the same blocks are held back, so that an unanswered write never overwrites a
//! later one.

use std::collections::HashMap;
use std::rc::Rc;

use block::{
    BlockCompletion, BlockDevice, BlockOp, BlockRequest, ByteRange, CompositeAction, Lent, Owner, Pool,
    Profile, Select, Token,
};
use event::Instant;

/// The device.
#[derive(Debug)]
pub(super) struct SharedDevice {
    device: Box<dyn BlockDevice>,
    /// Requests that the device has.
    jobs: HashMap<(Owner, Token), Job>,
    /// Changes of lost connections among them.
    orphans: usize,
    /// Requests that wait for these.
    held: Vec<BlockRequest>,
    /// Bytes of completed changes that only a flush makes durable.
    changed_bytes: u64,
    /// Changed bytes that a flush has covered.
    flushed_bytes: u64,
}

/// A request that the device has.
#[derive(Clone, Copy, Debug)]
struct Job {
    effect: Effect,
    is_orphan: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    /// Looks at the device.
    Look,
    /// Changes a range, durable at once or not.
    Change { range: ByteRange, is_durable: bool },
    /// Makes durable this many changed bytes.
    Flush { changed_bytes: u64 },
}

impl SharedDevice {
    pub(super) fn new(device: Box<dyn BlockDevice>) -> SharedDevice {
        let (jobs, held) = (HashMap::new(), Vec::new());
        SharedDevice { device, jobs, orphans: 0, held, changed_bytes: 0, flushed_bytes: 0 }
    }

    pub(super) fn profile(&self) -> &Profile {
        self.device.profile()
    }

    /// The device itself, for the poll set of the loop.
    pub(super) fn device(&self) -> &dyn BlockDevice {
        &*self.device
    }

    /// Bytes that the device lends, for data that are placed already.
    pub(super) fn lent(&mut self) -> Option<&mut Lent> {
        self.device.lent()
    }

    /// Returns true if a range can be read and written by its bytes in memory now.
    pub(super) fn is_direct(&mut self, range: ByteRange) -> bool {
        !self.is_behind_orphan(range) && self.device.lent().is_some()
    }

    /// Passes a request on, or holds it back.
    pub(super) fn submit(&mut self, request: BlockRequest, now: Instant) {
        let waits = touched(&request.op).is_some_and(|range| self.is_behind_orphan(range));
        if waits { self.held.push(request) } else { self.pass_on(request, now) }
    }

    /// The next completion.
    pub(super) fn poll(&mut self, now: Instant) -> Option<BlockCompletion> {
        let done = self.device.poll(now)?;
        let Some(job) = self.jobs.remove(&(done.owner, done.id)) else { return Some(done) };
        match job.effect {
            Effect::Change { range, is_durable: false } => self.changed_bytes += range.len_bytes,
            Effect::Flush { changed_bytes } if done.result.is_ok() => {
                self.flushed_bytes = self.flushed_bytes.max(changed_bytes);
            }
            _ => {}
        }
        if job.is_orphan {
            self.orphans -= 1;
            for request in std::mem::take(&mut self.held) {
                self.submit(request, now);
            }
        }
        Some(done)
    }

    /// Withdraws the requests of a lost connection.
    pub(super) fn leave(&mut self, owner: Owner, now: Instant) {
        self.held.retain(|request| request.owner != owner);
        let mut has_any = false;
        for ((_, _), job) in self.jobs.iter_mut().filter(|((of, _), _)| *of == owner) {
            has_any = true;
            if matches!(job.effect, Effect::Change { .. }) && !job.is_orphan {
                job.is_orphan = true;
                self.orphans += 1;
            }
        }
        if has_any {
            self.device.cancel(Select::Owner(owner), now);
        }
    }

    /// Requests that have not completed.
    pub(super) fn outstanding(&self) -> usize {
        self.jobs.len() + self.held.len()
    }

    /// Bytes that were written and that no flush has covered. 0 for a device without a write cache.
    pub(super) fn unflushed_bytes(&self) -> u64 {
        let has_cache = self.device.profile().can.write_cache;
        if has_cache { self.changed_bytes - self.flushed_bytes } else { 0 }
    }

    /// Ends the device. Calls of its workers that are under way are waited for only if nothing is outstanding.
    pub(super) fn end(self, pool: Option<Rc<Pool>>) {
        let is_idle = self.outstanding() == 0;
        drop(self.device);
        match pool {
            Some(pool) if !is_idle => Pool::abandon(pool),
            pool => drop(pool),
        }
    }

    fn pass_on(&mut self, request: BlockRequest, now: Instant) {
        let effect = match &request.op {
            BlockOp::Flush => Effect::Flush { changed_bytes: self.changed_bytes },
            op => changed(op).map_or(Effect::Look, |range| Effect::Change { range, is_durable: request.fua }),
        };
        self.jobs.insert((request.owner, request.id), Job { effect, is_orphan: false });
        self.device.submit(request, now);
    }

    fn is_behind_orphan(&self, range: ByteRange) -> bool {
        let overlaps = |other: ByteRange| {
            range.offset_bytes < other.offset_bytes + other.len_bytes
                && other.offset_bytes < range.offset_bytes + range.len_bytes
        };
        self.orphans > 0
            && self.jobs.values().any(|job| match job.effect {
                Effect::Change { range, .. } => job.is_orphan && overlaps(range),
                Effect::Look | Effect::Flush { .. } => false,
            })
    }
}

/// Range that an operation changes.
fn changed(op: &BlockOp) -> Option<ByteRange> {
    match op {
        BlockOp::Write { offset_bytes, data } => {
            Some(ByteRange { offset_bytes: *offset_bytes, len_bytes: data.len() as u64 })
        }
        BlockOp::Composite(CompositeAction::Fill { span, .. }) => Some(*span),
        // The face unmaps one range at a time.
        BlockOp::Composite(CompositeAction::Unmap(spans)) => spans.first().copied(),
        BlockOp::Read { .. } | BlockOp::Flush | BlockOp::Extents { .. } | BlockOp::Composite(_) => None,
    }
}

/// Range whose contents an operation depends on or changes.
fn touched(op: &BlockOp) -> Option<ByteRange> {
    match op {
        BlockOp::Read { offset_bytes, into } => {
            Some(ByteRange { offset_bytes: *offset_bytes, len_bytes: into.len() as u64 })
        }
        BlockOp::Extents { range, .. } => Some(*range),
        op => changed(op),
    }
}

#[cfg(test)]
mod tests;
