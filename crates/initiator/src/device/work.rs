//! Requests of a device as the workload of a session: each becomes one command, or several where a limit of the target
//! is less than the request.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use block::{
    BlockCompletion, BlockError, BlockOp, BlockRequest, Buffers, ByteRange, CompositeAction, ErrorKind,
    OperationError, Owner, Select, Token,
};
use event::Instant;

use super::error::of_command;
use crate::disk::{Geometry, UnmapLimits};
use crate::error::Error;
use crate::request::{Body, Completed, Request, Workload};

/// Maximum number of outstanding commands. The frontend submits no more than its memory permits, and the command window
/// limits the commands at the target.
const OUTSTANDING_MAX: usize = 1 << 15;

/// Limits of the target for operations without data.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeLimits {
    pub(super) unmap: Option<UnmapLimits>,
    /// Blocks of the longest WRITE SAME.
    pub(super) write_same_blocks: u32,
}

/// Requests of a device.
pub(super) struct Work {
    geometry: Geometry,
    limits: RangeLimits,
    buffers: Buffers,
    /// Commands that were not issued.
    waiting: VecDeque<Request>,
    /// Requests by the tag of their commands.
    open: HashMap<u64, Open>,
    tags: u64,
    pub(super) done: VecDeque<BlockCompletion>,
}

/// A request with commands outstanding.
struct Open {
    id: Token,
    owner: Owner,
    is_timed: bool,
    is_read: bool,
    /// Commands that have not ended.
    left: usize,
    /// First error of a command.
    error: Option<BlockError>,
}

impl Work {
    pub(super) fn new(geometry: Geometry, limits: RangeLimits, buffers: Buffers) -> Work {
        let (waiting, open, done) = (VecDeque::new(), HashMap::new(), VecDeque::new());
        Work { geometry, limits, buffers, waiting, open, tags: 0, done }
    }

    /// Takes a request that was checked.
    pub(super) fn submit(&mut self, request: BlockRequest) {
        let BlockRequest { id, owner, op, fua, is_timed } = request;
        let is_read = matches!(&op, BlockOp::Read { .. });
        let commands = match op {
            BlockOp::Read { offset_bytes, into } => vec![self.geometry.read_with(offset_bytes, into, fua)],
            BlockOp::Write { offset_bytes, data } => {
                vec![self.geometry.write_with(offset_bytes, Arc::new(data), fua)]
            }
            BlockOp::Flush => vec![self.geometry.flush()],
            BlockOp::Composite(CompositeAction::Unmap(ranges)) => {
                ranges.into_iter().flat_map(|range| self.unmaps(range)).collect()
            }
            BlockOp::Composite(CompositeAction::Fill { span, pattern }) => self.write_sames(span, &pattern),
            BlockOp::Composite(_) | BlockOp::Extents { .. } => unreachable!("the profile of the device refuses it"),
        };
        self.tags += 1;
        let open = Open { id, owner, is_timed, is_read, left: commands.len(), error: None };
        if commands.is_empty() {
            return self.done.push_back(open.completion(None, Instant::ZERO));
        }
        self.open.insert(self.tags, open);
        self.waiting.extend(commands.into_iter().map(|command| Request { tag: self.tags, ..command }));
    }

    /// Withdraws requests of which no command was issued.
    pub(super) fn cancel(&mut self, select: Select) {
        let mut waiting: HashMap<u64, usize> = HashMap::new();
        self.waiting.iter().for_each(|request| *waiting.entry(request.tag).or_default() += 1);
        let is_withdrawn = |request: &Request| {
            let open = self.open.get(&request.tag);
            let is_selected = open.is_some_and(|open| select.has(open.owner, open.id));
            is_selected && open.map(|open| open.left) == waiting.get(&request.tag).copied()
        };
        let all = std::mem::take(&mut self.waiting);
        let (withdrawn, left): (VecDeque<_>, VecDeque<_>) = all.into_iter().partition(is_withdrawn);
        self.waiting = left;
        for Request { tag, body, .. } in withdrawn {
            // The first of several commands completes the request.
            if let Some(mut found) = self.open.remove(&tag) {
                found.error = Some(BlockError::new(ErrorKind::Cancelled, "its request was withdrawn"));
                let read = if let Body::Read(buffer) = body { Some(buffer) } else { None };
                self.done.push_back(found.completion(read, Instant::ZERO));
            }
        }
    }

    /// Completes all requests with the error that ended the session.
    pub(super) fn fail(&mut self, error: &BlockError) {
        self.waiting.clear();
        let done = self.open.drain().map(|(_, mut open)| {
            open.error.get_or_insert_with(|| error.clone());
            open.completion(None, Instant::ZERO)
        });
        self.done.extend(done);
    }

    fn unmaps(&self, range: ByteRange) -> Vec<Request> {
        let Some(limits) = self.limits.unmap else { return Vec::new() };
        let block = u64::from(limits.block_len_bytes);
        let (mut lba, end_lba) = (range.offset_bytes / block, (range.offset_bytes + range.len_bytes) / block);
        let mut commands = Vec::new();
        while lba < end_lba {
            let blocks = limits.blocks_at(lba, end_lba);
            commands.push(self.geometry.unmap(lba * block, blocks, &self.buffers));
            lba += u64::from(blocks);
        }
        commands
    }

    /// Pattern of one block for the whole range, at most the limit a command.
    fn write_sames(&self, range: ByteRange, pattern: &[u8]) -> Vec<Request> {
        let block_bytes = self.geometry.block_len_bytes() as usize;
        let mut block = self.buffers.take(block_bytes);
        block.copy_from_slice(pattern);
        let block = Arc::new(block);
        let most_bytes = u64::from(self.limits.write_same_blocks) * block_bytes as u64;
        let mut commands = Vec::new();
        let mut done_bytes = 0;
        while done_bytes < range.len_bytes {
            let len_bytes = (range.len_bytes - done_bytes).min(most_bytes);
            let blocks = (len_bytes / block_bytes as u64) as u32;
            let offset_bytes = range.offset_bytes + done_bytes;
            commands.push(self.geometry.write_same(offset_bytes, blocks, Arc::clone(&block)));
            done_bytes += len_bytes;
        }
        commands
    }
}

impl Open {
    fn completion(self, read: Option<block::Buffer>, ended_at: Instant) -> BlockCompletion {
        let Open { id, owner, is_timed, is_read, error, .. } = self;
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
        Some(OUTSTANDING_MAX)
    }

    fn next(&mut self, _now: Instant) -> Option<Request> {
        self.waiting.pop_front()
    }

    fn done(&mut self, completed: Completed) -> Result<(), Error> {
        let name = completed.request.name();
        let Completed { request: Request { tag, body, .. }, result, completed: ended_at, .. } = completed;
        let Some(open) = self.open.get_mut(&tag) else { return Ok(()) };
        if let Err(failure) = result {
            open.error.get_or_insert_with(|| of_command(name, &failure));
        }
        open.left -= 1;
        if open.left == 0
            && let Some(open) = self.open.remove(&tag)
        {
            let read = if let Body::Read(buffer) = body { Some(buffer) } else { None };
            self.done.push_back(open.completion(read, ended_at));
        }
        Ok(())
    }

    /// A device waits for requests for as long as it lives.
    fn is_over(&self, _now: Instant) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use block::Buffer;
    use wire::scsi::{BlockForm, Cdb, Sense, Status, parse_unmap};

    use super::*;
    use crate::error::Failure;

    fn work() -> Work {
        let unmap = UnmapLimits {
            block_len_bytes: 512,
            blocks_max: 1000,
            granularity_blocks: 8,
            alignment_blocks: 0,
        };
        let limits = RangeLimits { unmap: Some(unmap), write_same_blocks: 4000 };
        Work::new(Geometry::of(512, BlockForm::Sixteen), limits, Buffers::new(1 << 20))
    }

    fn submit(work: &mut Work, owner: u64, id: u64, op: BlockOp) {
        work.submit(BlockRequest { id: Token(id), owner: Owner(owner), op, fua: false, is_timed: true });
    }

    fn buffer(len: usize) -> Buffer {
        Buffers::new(0).take(len)
    }

    /// Issues all commands and ends them; the one with this number fails.
    fn run(work: &mut Work, failing: Option<usize>) -> Vec<Cdb> {
        let mut found = Vec::new();
        while let Some(request) = work.next(Instant::ZERO) {
            found.push(request.cdb);
            let failure = Failure {
                status: Status::CHECK_CONDITION,
                response: 0,
                sense: Some(Sense::WRITE_ERROR),
                short_bytes: None,
                overflow_bytes: None,
            };
            let result = if failing == Some(found.len()) { Err(failure) } else { Ok(()) };
            let at = Instant::from_nanos(found.len() as u64);
            let completed = Completed { request, issued: at, completed: at, transferred_bytes: 0, result };
            work.done(completed).unwrap();
        }
        found
    }

    #[test]
    fn a_range_takes_as_many_commands_as_the_limits_want_and_completes_once() {
        let mut work = work();
        let span = ByteRange { offset_bytes: 512, len_bytes: 9000 * 512 };
        submit(&mut work, 1, 1, BlockOp::Composite(CompositeAction::Fill { span, pattern: vec![7; 512] }));
        let same = |lba, blocks| Cdb::WriteSame {
            form: BlockForm::Sixteen,
            lba,
            blocks,
            unmap: false,
            no_data: false,
        };
        assert_eq!(run(&mut work, None), [same(1, 4000), same(4001, 4000), same(8001, 1000)]);
        let done = work.done.pop_front().unwrap();
        assert_eq!((done.id, done.result), (Token(1), Ok(())));
        assert_eq!((done.ended_at, work.done.len()), (Some(Instant::from_nanos(3)), 0));

        let span = ByteRange { offset_bytes: 512, len_bytes: 2000 * 512 };
        submit(&mut work, 1, 2, BlockOp::Composite(CompositeAction::Unmap(vec![span])));
        let mut lists = Vec::new();
        for request in &work.waiting {
            let Body::Write(list) = &request.body else { panic!("no parameter list") };
            lists.extend(parse_unmap(list).unwrap().iter().map(|range| (range.lba, range.blocks)));
        }
        assert_eq!(lists, [(1, 999), (1000, 1000), (2000, 1)]);
        run(&mut work, Some(2));
        let done = work.done.pop_front().unwrap();
        let Err(OperationError::Write(error)) = done.result else { panic!("{done:?}") };
        assert_eq!((error.kind, work.done.len()), (ErrorKind::Medium, 0));
    }

    #[test]
    fn nothing_to_unmap_is_done_at_once() {
        let mut work = work();
        submit(&mut work, 1, 1, BlockOp::Composite(CompositeAction::Unmap(Vec::new())));
        assert_eq!(work.done.pop_front().map(|done| done.result), Some(Ok(())));
    }

    #[test]
    fn requests_without_an_issued_command_are_withdrawn() {
        let mut work = work();
        let span = ByteRange { offset_bytes: 0, len_bytes: 9000 * 512 };
        let fill = || BlockOp::Composite(CompositeAction::Fill { span, pattern: vec![7; 512] });
        submit(&mut work, 1, 1, fill());
        submit(&mut work, 1, 2, fill());
        submit(&mut work, 1, 3, BlockOp::Read { offset_bytes: 0, into: buffer(512) });
        submit(&mut work, 2, 1, BlockOp::Write { offset_bytes: 0, data: buffer(512) });
        let begun = work.next(Instant::ZERO).unwrap();
        work.cancel(Select::Owner(Owner(1)));
        let mut withdrawn: Vec<_> =
            work.done.drain(..).map(|done| (done.id.0, done.read.is_some(), done.result)).collect();
        withdrawn.sort_by_key(|(id, ..)| *id);
        let cancelled = |result: &Result<(), OperationError>| matches!(result, Err(OperationError::Read(error) | OperationError::Write(error)) if error.kind == ErrorKind::Cancelled);
        assert!(withdrawn.iter().all(|(_, _, result)| cancelled(result)), "{withdrawn:?}");
        assert_eq!(
            withdrawn.iter().map(|(id, has_read, _)| (*id, *has_read)).collect::<Vec<_>>(),
            [(2, false), (3, true)]
        );
        assert_eq!(begun.tag, 1);
        assert_eq!(
            run(&mut work, None).len(),
            3,
            "the rest of the one that was begun, and the other owner's"
        );
    }

    #[test]
    fn the_end_of_the_session_completes_everything() {
        let mut work = work();
        submit(&mut work, 1, 1, BlockOp::Flush);
        submit(&mut work, 1, 2, BlockOp::Read { offset_bytes: 0, into: buffer(512) });
        let _issued = work.next(Instant::ZERO).unwrap();
        work.fail(&BlockError::new(ErrorKind::TimedOut, "gave up"));
        let kinds = work.done.iter().map(|done| match &done.result {
            Err(OperationError::Read(error)) => (true, error.kind),
            Err(OperationError::Write(error)) => (false, error.kind),
            other => panic!("{other:?}"),
        });
        let mut kinds: Vec<_> = kinds.collect();
        kinds.sort_by_key(|(is_read, _)| *is_read);
        assert_eq!(kinds, [(false, ErrorKind::TimedOut), (true, ErrorKind::TimedOut)]);
        assert!(work.next(Instant::ZERO).is_none());
    }
}
