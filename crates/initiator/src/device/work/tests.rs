//! Commands of a device's requests: order, limits, FUA, errors, and the loss of the target's cache.

use block::ByteRange;
use wire::scsi::{BlockForm, Cdb, Sense, Status, parse_unmap};

use super::*;
use crate::disk::UnmapLimits;

const WRITE_BACK: Cache = Cache { is_volatile: true, has_fua: true };
const WITHOUT_DPOFUA: Cache = Cache { is_volatile: true, has_fua: false };
const WRITE_THROUGH: Cache = Cache { is_volatile: false, has_fua: true };

const LIMITS: RangeLimits = RangeLimits {
    unmap: Some(UnmapLimits {
        block_len_bytes: 512,
        blocks_max: 1000,
        granularity_blocks: 8,
        alignment_blocks: 0,
    }),
    write_same_blocks: 4000,
    unmaps_to_zeros: false,
};

fn work_with(cache: Cache, limits: RangeLimits) -> Work {
    Work::new(Geometry::of(512, BlockForm::Sixteen), limits, cache, Buffers::new(1 << 20))
}

fn work() -> Work {
    work_with(WRITE_BACK, LIMITS)
}

fn submit_fua(work: &mut Work, owner: u64, id: u64, op: BlockOp, fua: bool) {
    work.submit(BlockRequest { id: Token(id), owner: Owner(owner), op, fua, is_timed: true });
}

fn submit(work: &mut Work, owner: u64, id: u64, op: BlockOp) {
    submit_fua(work, owner, id, op, false);
}

fn buffer(len: usize) -> Buffer {
    Buffers::new(0).take(len)
}

fn read() -> BlockOp {
    BlockOp::Read { offset_bytes: 0, into: buffer(512) }
}

fn write() -> BlockOp {
    BlockOp::Write { offset_bytes: 0, data: buffer(512) }
}

fn fill(blocks: u64) -> BlockOp {
    let span = ByteRange { offset_bytes: 512, len_bytes: blocks * 512 };
    BlockOp::Composite(CompositeAction::Fill { span, pattern: vec![7; 512] })
}

fn unmap(blocks: u64) -> BlockOp {
    BlockOp::Composite(CompositeAction::Unmap(vec![ByteRange { offset_bytes: 512, len_bytes: blocks * 512 }]))
}

fn issue(work: &mut Work) -> Request {
    work.next(Instant::ZERO).expect("a command to issue")
}

fn failure(sense: Sense) -> Failure {
    Failure {
        status: Status::CHECK_CONDITION,
        response: 0,
        sense: Some(sense),
        short_bytes: None,
        overflow_bytes: None,
    }
}

fn end_with(work: &mut Work, request: Request, at_ns: u64, result: Result<(), Failure>) {
    let at = Instant::from_nanos(at_ns);
    work.done(Completed { request, issued: at, completed: at, transferred_bytes: 0, result }).unwrap();
}

fn end(work: &mut Work, request: Request) {
    end_with(work, request, 1, Ok(()));
}

/// Issues all commands and ends each before the next.
fn run(work: &mut Work) -> Vec<Cdb> {
    let mut found = Vec::new();
    while let Some(request) = work.next(Instant::ZERO) {
        found.push(request.cdb);
        end_with(work, request, found.len() as u64, Ok(()));
    }
    found
}

/// Owners and numbers of the completions since the last call, in order, with the kind of an error.
fn completed(work: &mut Work) -> Vec<(u64, u64, Option<ErrorKind>)> {
    let kind = |error: OperationError| error.device_error().map(|error| error.kind);
    work.done.drain(..).map(|done| (done.owner.0, done.id.0, done.result.err().and_then(kind))).collect()
}

/// Names of commands, with an 'F' for FUA.
fn names(commands: &[Cdb]) -> String {
    let name = |command: &Cdb| match command {
        Cdb::Read { fua, .. } => {
            if *fua {
                "rF"
            } else {
                "r"
            }
        }
        Cdb::Write { fua, .. } => {
            if *fua {
                "wF"
            } else {
                "w"
            }
        }
        Cdb::SynchronizeCache { .. } => "s",
        Cdb::WriteSame { unmap, .. } => {
            if *unmap {
                "U"
            } else {
                "W"
            }
        }
        Cdb::Unmap { .. } => "u",
        other => panic!("{other:?}"),
    };
    commands.iter().map(name).collect::<Vec<_>>().join(" ")
}

fn write_same(lba: u64, blocks: u32, unmap: bool) -> Cdb {
    Cdb::WriteSame { form: BlockForm::Sixteen, lba, blocks, unmap, no_data: false }
}

#[test]
fn a_range_takes_as_many_commands_as_the_limits_want_and_completes_once() {
    let mut work = work();
    submit(&mut work, 1, 1, fill(9000));
    let expected =
        [(1, 4000), (4001, 4000), (8001, 1000)].map(|(lba, blocks)| write_same(lba, blocks, false));
    assert_eq!(run(&mut work), expected);
    let done = work.done.pop_front().unwrap();
    assert_eq!((done.id, done.result), (Token(1), Ok(())));
    assert_eq!((done.ended_at, work.done.len()), (Some(Instant::from_nanos(3)), 0));

    submit(&mut work, 1, 2, unmap(2000));
    let (mut lists, mut issued) = (Vec::new(), Vec::new());
    while let Some(request) = work.next(Instant::ZERO) {
        let Body::Write(list) = &request.body else { panic!("no parameter list") };
        lists.extend(parse_unmap(list).unwrap().iter().map(|range| (range.lba, range.blocks)));
        issued.push(request);
    }
    assert_eq!(lists, [(1, 999), (1000, 1000), (2000, 1)]);
    issued.into_iter().for_each(|request| end(&mut work, request));
    assert_eq!(completed(&mut work), [(1, 2, None)]);
}

/// A limit of one block and a range of a terabyte are two thousand million commands.
#[test]
fn a_range_has_few_commands_at_a_time() {
    let limits = RangeLimits { unmap: None, write_same_blocks: 1, unmaps_to_zeros: false };
    let mut work = work_with(WRITE_BACK, limits);
    submit(&mut work, 1, 1, fill(1 << 31));
    submit(&mut work, 1, 2, read());
    let mut issued: Vec<_> = std::iter::from_fn(|| work.next(Instant::ZERO)).collect();
    let commands: Vec<_> = issued.iter().map(|request| request.cdb).collect();
    assert_eq!(names(&commands), "W W W W W W W W r", "the read does not wait for the end of the range");
    end(&mut work, issued.remove(0));
    assert_eq!(issue(&mut work).cdb, write_same(9, 1, false));
    assert!(work.next(Instant::ZERO).is_none());
}

#[test]
fn nothing_to_change_is_done_at_once() {
    let mut work = work();
    submit(&mut work, 1, 1, BlockOp::Composite(CompositeAction::Unmap(Vec::new())));
    submit(&mut work, 1, 2, fill(0));
    assert_eq!(completed(&mut work), [(1, 1, None), (1, 2, None)]);
}

#[test]
fn the_first_error_of_a_range_ends_it() {
    let mut work = work();
    submit(&mut work, 1, 1, fill(40_000));
    let (first, second) = (issue(&mut work), issue(&mut work));
    end_with(&mut work, first, 1, Err(failure(Sense::WRITE_ERROR)));
    assert!(work.next(Instant::ZERO).is_none(), "no command after the error");
    work.cancel(Select::Owner(Owner(1)));
    assert!(work.done.is_empty(), "a command is outstanding");
    end(&mut work, second);
    assert_eq!(completed(&mut work), [(1, 1, Some(ErrorKind::Medium))], "it failed before it was withdrawn");
}

#[test]
fn requests_without_an_issued_command_are_withdrawn() {
    let mut work = work();
    submit(&mut work, 1, 1, fill(9000));
    let begun = issue(&mut work);
    submit(&mut work, 1, 2, fill(9000));
    submit(&mut work, 1, 3, read());
    submit(&mut work, 2, 1, write());
    work.cancel(Select::Owner(Owner(1)));
    let withdrawn: Vec<_> = work.done.iter().map(|done| (done.id.0, done.read.is_some())).collect();
    assert_eq!(withdrawn, [(2, false), (3, true)]);
    let cancelled = Some(ErrorKind::Cancelled);
    assert_eq!(completed(&mut work), [(1, 2, cancelled), (1, 3, cancelled)]);
    assert_eq!(names(&run(&mut work)), "w", "the other owner's; the rest of the range is not issued");
    assert_eq!(completed(&mut work), [(2, 1, None)]);
    end(&mut work, begun);
    assert_eq!(completed(&mut work), [(1, 1, cancelled)]);
}

#[test]
fn a_range_whose_commands_are_all_outstanding_is_withdrawn_between_two() {
    let mut work = work();
    submit(&mut work, 1, 1, fill(400_000));
    let mut issued: Vec<_> = std::iter::from_fn(|| work.next(Instant::ZERO)).collect();
    work.cancel(Select::One(Owner(1), Token(1)));
    assert!(work.next(Instant::ZERO).is_none() && work.done.is_empty());
    let last = issued.pop().unwrap();
    issued.into_iter().for_each(|request| end(&mut work, request));
    assert!(work.next(Instant::ZERO).is_none() && work.done.is_empty());
    end_with(&mut work, last, 1, Err(failure(Sense::WRITE_ERROR)));
    assert_eq!(completed(&mut work), [(1, 1, Some(ErrorKind::Medium))], "the error is not hidden");
}

#[test]
fn owners_take_turns() {
    let mut work = work();
    (0..100).for_each(|id| submit(&mut work, 1, id, read()));
    submit(&mut work, 2, 1, write());
    let begun: Vec<_> = (0..3).map(|_| issue(&mut work).cdb).collect();
    assert!(names(&begun).contains('w'), "{begun:?}");
}

#[test]
fn the_end_of_the_session_completes_everything() {
    let mut work = work();
    submit(&mut work, 1, 1, BlockOp::Flush);
    submit(&mut work, 1, 2, read());
    submit(&mut work, 1, 3, read());
    let _issued = issue(&mut work);
    work.fail(&BlockError::new(ErrorKind::TimedOut, "gave up"));
    let mut kinds: Vec<_> = work
        .done
        .iter()
        .map(|done| match &done.result {
            Err(OperationError::Read(error)) => (done.id.0, true, error.kind, done.read.is_some()),
            Err(OperationError::Write(error)) => (done.id.0, false, error.kind, done.read.is_some()),
            other => panic!("{other:?}"),
        })
        .collect();
    kinds.sort_by_key(|(id, ..)| *id);
    let kind = ErrorKind::TimedOut;
    assert_eq!(kinds, [(1, false, kind, false), (2, true, kind, true), (3, true, kind, true)]);
    assert!(work.next(Instant::ZERO).is_none());
}

/// FUA of each operation, by what the LUN has.
#[test]
fn fua_reaches_the_medium_by_a_bit_or_by_a_flush() {
    for (op, [write_back, without_dpofua, write_through]) in [
        (&read as &dyn Fn() -> BlockOp, ["rF", "s r", "r"]),
        (&write, ["wF", "w s", "w"]),
        (&|| fill(5000), ["W W s", "W W s", "W W"]),
        (&|| unmap(1500), ["u u s", "u u s", "u u"]),
        (&|| BlockOp::Flush, ["s", "s", "s"]),
    ] {
        for (cache, expected) in
            [(WRITE_BACK, write_back), (WITHOUT_DPOFUA, without_dpofua), (WRITE_THROUGH, write_through)]
        {
            let mut work = work_with(cache, LIMITS);
            submit_fua(&mut work, 1, 1, op(), true);
            assert_eq!(names(&run(&mut work)), expected, "{cache:?}");
            assert_eq!(completed(&mut work), [(1, 1, None)], "{cache:?}");
            submit_fua(&mut work, 1, 1, op(), false);
            assert_eq!(names(&run(&mut work)), write_through, "{cache:?}");
            assert_eq!(completed(&mut work), [(1, 1, None)], "{cache:?}");
        }
    }
}

#[test]
fn a_flush_for_fua_comes_after_all_commands_of_a_range_have_succeeded() {
    let mut work = work();
    submit_fua(&mut work, 1, 1, fill(5000), true);
    let (first, second) = (issue(&mut work), issue(&mut work));
    end(&mut work, second);
    assert!(work.next(Instant::ZERO).is_none(), "one of them is outstanding");
    end_with(&mut work, first, 1, Err(failure(Sense::WRITE_ERROR)));
    assert!(work.next(Instant::ZERO).is_none(), "one of them has failed");
    assert_eq!(completed(&mut work), [(1, 1, Some(ErrorKind::Medium))]);
    submit_fua(&mut work, 1, 2, write(), true);
    assert_eq!(names(&run(&mut work)), "wF");
}

#[test]
fn a_flush_that_fails_fails_what_needs_it() {
    let mut work = work_with(WITHOUT_DPOFUA, LIMITS);
    submit_fua(&mut work, 1, 1, read(), true);
    submit_fua(&mut work, 2, 2, fill(1), true);
    let (flush, same) = (issue(&mut work), issue(&mut work));
    end_with(&mut work, flush, 1, Err(failure(Sense::WRITE_ERROR)));
    assert!(work.done[0].read.is_some(), "the buffer comes back");
    end(&mut work, same);
    let flush = issue(&mut work);
    end_with(&mut work, flush, 1, Err(failure(Sense::INVALID_OPCODE)));
    let kinds = [ErrorKind::Medium, ErrorKind::Unsupported].map(Some);
    assert_eq!(completed(&mut work), [(1, 1, kinds[0]), (2, 2, kinds[1])]);
}

#[test]
fn unmapping_promises_zeros_by_write_same_alone() {
    let mut work = work_with(WRITE_BACK, RangeLimits { unmaps_to_zeros: true, ..LIMITS });
    submit(&mut work, 1, 1, unmap(5000));
    let first = issue(&mut work);
    assert_eq!(first.cdb, write_same(1, 4000, true));
    let Body::Write(block) = &first.body else { panic!("no block") };
    assert_eq!(block[..], [0; 512]);
    end(&mut work, first);
    assert_eq!(run(&mut work), [write_same(4001, 1000, true)]);
    submit(&mut work, 1, 2, fill(10));
    assert_eq!(run(&mut work), [write_same(1, 10, false)], "a filled range keeps its space");
}

const LOST: Option<ErrorKind> = Some(ErrorKind::Lost);

/// The target restarts after a write was acknowledged: a flush that succeeded then would be a lie.
#[test]
fn a_lost_cache_fails_the_next_flush_once() {
    let mut work = work();
    submit(&mut work, 1, 1, write());
    run(&mut work);
    work.reconnected();
    submit(&mut work, 1, 2, BlockOp::Flush);
    assert_eq!(completed(&mut work), [(1, 1, None), (1, 2, LOST)]);
    submit(&mut work, 1, 3, write());
    submit(&mut work, 1, 4, BlockOp::Flush);
    assert_eq!(names(&run(&mut work)), "w s");
    assert_eq!(completed(&mut work), [(1, 3, None), (1, 4, None)]);
    work.reconnected();
    submit(&mut work, 1, 5, BlockOp::Flush);
    run(&mut work);
    assert_eq!(completed(&mut work), [(1, 5, None)], "all of it was durable");
}

#[test]
fn a_lost_cache_fails_open_flushes() {
    for is_issued in [false, true] {
        let mut work = work();
        submit(&mut work, 1, 1, write());
        run(&mut work);
        submit(&mut work, 2, 2, BlockOp::Flush);
        let issued = is_issued.then(|| issue(&mut work));
        work.reconnected();
        // The session issues it again.
        let flush = issued.unwrap_or_else(|| issue(&mut work));
        end(&mut work, flush);
        assert_eq!(completed(&mut work), [(1, 1, None), (2, 2, LOST)]);
        submit(&mut work, 1, 3, BlockOp::Flush);
        assert_eq!(completed(&mut work), [(1, 3, LOST)], "the owner that wrote does not know yet");
        submit(&mut work, 2, 4, BlockOp::Flush);
        run(&mut work);
        assert_eq!(completed(&mut work), [(2, 4, None)]);
    }
}

#[test]
fn nothing_is_lost_without_a_volatile_cache_or_with_fua() {
    for (cache, fua) in [(WRITE_THROUGH, false), (WRITE_BACK, true), (WITHOUT_DPOFUA, true)] {
        let mut work = work_with(cache, LIMITS);
        submit_fua(&mut work, 1, 1, write(), fua);
        submit_fua(&mut work, 1, 2, unmap(10), fua);
        run(&mut work);
        work.reconnected();
        submit(&mut work, 1, 3, BlockOp::Flush);
        run(&mut work);
        assert!(completed(&mut work).iter().all(|(_, _, kind)| kind.is_none()), "{cache:?}");
    }
}

/// The commands that were executed before the loss are executed again before the request completes.
#[test]
fn a_part_that_is_lost_is_done_again() {
    let mut work = work();
    submit(&mut work, 1, 1, fill(9000));
    let first = issue(&mut work);
    end(&mut work, first);
    let second = issue(&mut work);
    work.reconnected();
    let again = run(&mut work);
    assert_eq!(again[0], write_same(1, 4000, false));
    assert_eq!((again.len(), work.done.len()), (3, 0), "the second command is outstanding");
    end(&mut work, second);
    assert_eq!(completed(&mut work), [(1, 1, None)]);

    let mut work = work_with(WITHOUT_DPOFUA, LIMITS);
    submit_fua(&mut work, 1, 1, write(), true);
    let data = issue(&mut work);
    end(&mut work, data);
    let flush = issue(&mut work);
    work.reconnected();
    end(&mut work, flush);
    assert!(work.done.is_empty(), "the flush covered nothing");
    assert_eq!(names(&run(&mut work)), "w s");
    assert_eq!(completed(&mut work), [(1, 1, None)]);
}

/// A deferred error is about an earlier command, whose status was good.
#[test]
fn a_deferred_error_is_a_loss() {
    let mut work = work();
    submit(&mut work, 1, 1, write());
    run(&mut work);
    submit(&mut work, 2, 2, read());
    let other = issue(&mut work);
    end_with(&mut work, other, 1, Err(failure(Sense { deferred: true, ..Sense::WRITE_ERROR })));
    submit(&mut work, 1, 3, BlockOp::Flush);
    assert_eq!(completed(&mut work), [(1, 1, None), (2, 2, Some(ErrorKind::Medium)), (1, 3, LOST)]);
}
