//! Requests of a device as the workload of a session: each becomes one command, or several where a limit of the target
//! is less than the request, or where the target needs a flush of its own for FUA.
//!
//! A command is made when the session has room for it. Requests wait for that by their owners in turn.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{
    BlockCompletion, BlockError, BlockOp, BlockRequest, Buffer, Buffers, CompositeAction, ErrorKind,
    FLUSH_COST_BYTES, FairQueue, OperationError, Owner, Select, Token,
};
use event::Instant;
use slab::Slab;

use super::error::of_command;
use super::ranges::{RangeLimits, Ranges};
use super::unflushed::Unflushed;
use crate::disk::Geometry;
use crate::error::{Error, Failure};
use crate::request::{Body, Completed, Request, Workload};

/// Maximum number of outstanding commands of one range. Several hide the round trip if the target limits a command to a
/// few MiB; the number is small because a target executes all of them at once.
const RANGE_COMMANDS: usize = 8;

/// Cache of the LUN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cache {
    /// Acknowledged writes may be in a volatile cache alone (WCE).
    pub(super) is_volatile: bool,
    /// READ and WRITE have the FUA bit (DPOFUA).
    pub(super) has_fua: bool,
}

/// Requests of a device.
pub(super) struct Work {
    geometry: Geometry,
    limits: RangeLimits,
    cache: Cache,
    buffers: Buffers,
    /// Maximum number of outstanding commands.
    depth: usize,
    /// Requests with a command to issue.
    waiting: FairQueue<usize>,
    open: Slab<Open>,
    unflushed: Unflushed,
    pub(super) done: VecDeque<BlockCompletion>,
}

/// A request that has not completed.
struct Open {
    id: Token,
    owner: Owner,
    is_timed: bool,
    /// Force unit access.
    fua: bool,
    op: Op,
    stages: Stages,
    stage: Stage,
    /// All commands of the stage are issued.
    is_issued: bool,
    /// It is in the queue of waiting requests.
    is_waiting: bool,
    /// Commands that have not ended.
    outstanding: usize,
    /// Last write that its flush covers, once that is issued.
    covered: u64,
    error: Option<BlockError>,
}

enum Op {
    /// The buffer is away while its command is outstanding.
    Read {
        offset_bytes: u64,
        into: Option<Buffer>,
    },
    Write {
        offset_bytes: u64,
        data: Arc<Buffer>,
    },
    Ranges(Ranges),
    Flush,
}

/// Order of the commands of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stages {
    Body,
    Flush,
    /// A read with FUA from a LUN without DPOFUA.
    FlushThenBody,
    /// FUA of a range, and of a write to a LUN without DPOFUA.
    BodyThenFlush,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Body,
    Flush,
}

impl Stages {
    /// Stages of a change of ranges.
    fn of_change(fua: bool) -> Stages {
        if fua { Stages::BodyThenFlush } else { Stages::Body }
    }

    fn first(self) -> Stage {
        match self {
            Stages::Body | Stages::BodyThenFlush => Stage::Body,
            Stages::Flush | Stages::FlushThenBody => Stage::Flush,
        }
    }

    fn after(self, stage: Stage) -> Option<Stage> {
        match (self, stage) {
            (Stages::FlushThenBody, Stage::Flush) => Some(Stage::Body),
            (Stages::BodyThenFlush, Stage::Body) => Some(Stage::Flush),
            _ => None,
        }
    }
}

impl Work {
    pub(super) fn new(geometry: Geometry, limits: RangeLimits, cache: Cache, buffers: Buffers) -> Work {
        Work {
            geometry,
            limits,
            cache,
            buffers,
            depth: 1,
            waiting: FairQueue::new(),
            open: Slab::new(),
            unflushed: Unflushed::default(),
            done: VecDeque::new(),
        }
    }

    /// Sets the maximum number of outstanding commands.
    pub(super) fn set_depth(&mut self, commands: usize) {
        self.depth = commands.max(1);
    }

    /// Takes a request that was checked.
    pub(super) fn submit(&mut self, request: BlockRequest) {
        let BlockRequest { id, owner, op, fua, is_timed } = request;
        // Without a volatile cache all is on the medium.
        let fua = fua && self.cache.is_volatile;
        let needs_flush = fua && !self.cache.has_fua;
        let (op, stages) = match op {
            BlockOp::Read { offset_bytes, into } => {
                let stages = if needs_flush { Stages::FlushThenBody } else { Stages::Body };
                (Op::Read { offset_bytes, into: Some(into) }, stages)
            }
            BlockOp::Write { offset_bytes, data } => {
                let stages = if needs_flush { Stages::BodyThenFlush } else { Stages::Body };
                (Op::Write { offset_bytes, data: Arc::new(data) }, stages)
            }
            BlockOp::Flush => (Op::Flush, Stages::Flush),
            BlockOp::Composite(CompositeAction::Unmap(ranges)) => {
                let block_bytes = self.geometry.block_len_bytes();
                let Some(ranges) = self.limits.unmap(ranges, block_bytes, &self.buffers) else {
                    unreachable!("the profile of the device refuses it")
                };
                (Op::Ranges(ranges), Stages::of_change(fua))
            }
            BlockOp::Composite(CompositeAction::Fill { span, pattern }) => {
                (Op::Ranges(self.limits.fill(span, &pattern, &self.buffers)), Stages::of_change(fua))
            }
            BlockOp::Composite(_) | BlockOp::Extents { .. } => {
                unreachable!("the profile of the device refuses it")
            }
        };
        let is_empty = matches!(&op, Op::Ranges(ranges) if ranges.is_over());
        let is_lost = matches!(op, Op::Flush) && self.unflushed.take_loss(owner);
        let open = Open {
            id,
            owner,
            is_timed,
            fua,
            op,
            stages,
            stage: stages.first(),
            is_issued: false,
            is_waiting: false,
            outstanding: 0,
            covered: 0,
            error: is_lost.then(lost),
        };
        if is_empty || is_lost {
            return self.done.push_back(open.completion(Instant::ZERO));
        }
        let key = self.open.insert(open);
        self.wait(key);
    }

    /// Withdraws requests: those that were not begun, and the rest of those that take several commands. Issued commands
    /// are not aborted.
    pub(super) fn cancel(&mut self, select: Select) {
        let owner = match select {
            Select::One(owner, _) | Select::Owner(owner) => owner,
        };
        let open = &self.open;
        let is_selected = |open: &Open| select.has(open.owner, open.id);
        let mut keys = self.waiting.take_of(owner.0, |key| is_selected(&open[*key]));
        let goes_on = |open: &Open| !open.is_waiting && open.has_more();
        let begun = open.iter().filter(|(_, open)| is_selected(open) && goes_on(open));
        keys.extend(begun.map(|(key, _)| key));
        for key in keys {
            self.open[key].is_waiting = false;
            let error = BlockError::new(ErrorKind::Cancelled, "its request was withdrawn");
            self.stop(key, error, Instant::ZERO);
        }
    }

    /// Completes all requests with the error that ended the session.
    pub(super) fn fail(&mut self, error: &BlockError) {
        self.waiting = FairQueue::new();
        let done = self.open.drain().map(|mut open| {
            open.error.get_or_insert_with(|| error.clone());
            open.completion(Instant::ZERO)
        });
        self.done.extend(done);
    }

    /// Queues a request with a command to issue.
    fn wait(&mut self, key: usize) {
        let open = &mut self.open[key];
        if !std::mem::replace(&mut open.is_waiting, true) {
            self.waiting.push(open.owner.0, open.cost_bytes(), key);
        }
    }

    /// Issues no more commands of a request, which completes with an error when those outstanding have ended.
    fn stop(&mut self, key: usize, error: BlockError, ended_at: Instant) {
        let open = &mut self.open[key];
        // A request that was withdrawn may still fail.
        if open.error.as_ref().is_none_or(|found| found.kind == ErrorKind::Cancelled) {
            open.error = Some(error);
        }
        open.is_issued = true;
        if std::mem::take(&mut open.is_waiting) {
            self.waiting.take_of(open.owner.0, |waiting| *waiting == key);
        }
        if open.outstanding == 0 {
            self.complete(key, ended_at);
        }
    }

    /// Goes on with a request of which a command has ended.
    fn go_on(&mut self, key: usize, ended_at: Instant) {
        let open = &mut self.open[key];
        if !open.is_issued {
            return self.wait(key);
        }
        if open.outstanding > 0 {
            return;
        }
        match open.stages.after(open.stage) {
            Some(stage) if open.error.is_none() => {
                (open.stage, open.is_issued) = (stage, false);
                self.wait(key);
            }
            _ => self.complete(key, ended_at),
        }
    }

    fn complete(&mut self, key: usize, ended_at: Instant) {
        let open = self.open.remove(key);
        if self.cache.is_volatile && open.is_change() && !open.fua && open.error.is_none() {
            self.unflushed.wrote(open.owner);
        }
        self.done.push_back(open.completion(ended_at));
    }

    /// The target may have lost its cache. Open flushes fail if acknowledged writes are lost; requests of which a part
    /// was executed begin again.
    fn lose(&mut self) {
        if !self.cache.is_volatile {
            return;
        }
        let is_lost = self.unflushed.lose();
        let mut again = Vec::new();
        for (key, open) in &mut self.open {
            if open.error.is_some() {
                continue;
            }
            if let Op::Ranges(ranges) = &mut open.op {
                ranges.restart();
            }
            match (&open.op, open.stage) {
                (Op::Flush, _) if is_lost => {
                    let covered = if open.is_issued { open.covered } else { self.unflushed.last() };
                    self.unflushed.reported(open.owner, covered);
                    open.error = Some(lost());
                }
                (Op::Ranges(_), _) | (Op::Write { .. }, Stage::Flush) => {
                    (open.stage, open.is_issued) = (Stage::Body, false);
                    if open.outstanding < RANGE_COMMANDS {
                        again.push(key);
                    }
                }
                _ => {}
            }
        }
        again.into_iter().for_each(|key| self.wait(key));
    }
}

/// Error of a flush after a loss of the target's cache.
fn lost() -> BlockError {
    let text = "the target lost its cache, with writes that it had acknowledged; write them again";
    BlockError::new(ErrorKind::Lost, text)
}

impl Open {
    /// Returns true if there is another command after those that are outstanding.
    fn has_more(&self) -> bool {
        !self.is_issued || self.stages.after(self.stage).is_some()
    }

    fn is_change(&self) -> bool {
        matches!(self.op, Op::Write { .. } | Op::Ranges(_))
    }

    /// Cost of the next command to other owners: the bytes that it moves. One that moves none may take as long as a
    /// flush.
    fn cost_bytes(&self) -> u64 {
        match (&self.op, self.stage) {
            (Op::Read { into: Some(into), .. }, Stage::Body) => into.len() as u64,
            (Op::Write { data, .. }, Stage::Body) => data.len() as u64,
            _ => FLUSH_COST_BYTES,
        }
    }

    /// Makes the next command.
    fn command(&mut self, geometry: Geometry, has_fua: bool, buffers: &Buffers) -> Option<Request> {
        self.is_issued = true;
        if self.stage == Stage::Flush {
            return Some(geometry.flush());
        }
        let fua = self.fua && has_fua;
        match &mut self.op {
            Op::Read { offset_bytes, into } => Some(geometry.read_with(*offset_bytes, into.take()?, fua)),
            Op::Write { offset_bytes, data } => {
                Some(geometry.write_with(*offset_bytes, Arc::clone(data), fua))
            }
            Op::Ranges(ranges) => {
                let request = ranges.next(geometry, buffers);
                self.is_issued = ranges.is_over();
                request
            }
            Op::Flush => None,
        }
    }

    fn completion(self, ended_at: Instant) -> BlockCompletion {
        let Open { id, owner, is_timed, op, error, .. } = self;
        let (is_read, read) = match op {
            Op::Read { into, .. } => (true, into),
            _ => (false, None),
        };
        let result = match error {
            None => Ok(()),
            Some(error) if is_read => Err(OperationError::Read(error)),
            Some(error) => Err(OperationError::Write(error)),
        };
        let ended_at = is_timed.then_some(ended_at).filter(|at| *at > Instant::ZERO);
        BlockCompletion { id, owner, result, read, extents: Vec::new(), ended_at }
    }
}

impl Workload for Work {
    type Error = Error;

    fn depth(&self) -> Option<usize> {
        Some(self.depth)
    }

    fn next(&mut self, _now: Instant) -> Option<Request> {
        while let Some(key) = self.waiting.pop() {
            let open = &mut self.open[key];
            open.is_waiting = false;
            if open.stage == Stage::Flush {
                open.covered = self.unflushed.last();
            }
            let request = open.command(self.geometry, self.cache.has_fua, &self.buffers);
            debug_assert!(request.is_some(), "only a request with a command waits");
            let Some(request) = request else { continue };
            open.outstanding += 1;
            if !open.is_issued && open.outstanding < RANGE_COMMANDS {
                open.is_waiting = true;
                self.waiting.push_front(open.owner.0, open.cost_bytes(), key);
            }
            return Some(Request { tag: key as u64, ..request });
        }
        None
    }

    fn done(&mut self, completed: Completed) -> Result<(), Error> {
        let (name, is_flush) = (completed.request.name(), completed.request.is_flush());
        let Completed { request: Request { tag, body, .. }, result, completed: ended_at, .. } = completed;
        let key = tag as usize;
        let Some(open) = self.open.get_mut(key) else { return Ok(()) };
        open.outstanding -= 1;
        if let (Op::Read { into, .. }, Body::Read(buffer)) = (&mut open.op, body) {
            *into = Some(buffer);
        }
        match result {
            Ok(()) => {
                if is_flush {
                    self.unflushed.flushed(open.covered);
                }
                self.go_on(key, ended_at);
            }
            Err(failure) => {
                let is_deferred = is_deferred(&failure);
                self.stop(key, of_command(name, &failure), ended_at);
                if is_deferred {
                    self.lose();
                }
            }
        }
        Ok(())
    }

    /// A device waits for requests for as long as it lives.
    fn is_over(&self, _now: Instant) -> bool {
        false
    }

    fn reconnected(&mut self) {
        self.lose();
    }
}

/// Returns true if the sense data are about an earlier command, which had been acknowledged (SPC-5 section 4.4.7).
fn is_deferred(failure: &Failure) -> bool {
    failure.sense.is_some_and(|sense| sense.deferred)
}

#[cfg(test)]
mod tests;
