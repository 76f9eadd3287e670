//! The contract of a device, tried on each kind: random requests against a model of its bytes.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;

use net::{Events, Interest, Poll, clock};

use super::*;
use crate::buffer::{Buffer, Buffers};
use crate::composite::{ByteRange, CompositeAction};
use crate::error::{ErrorKind, OperationError};
use crate::lent::{Lent, LentDevice, Memory};
use crate::local::{FileStore, OpenAs};
use crate::pool::{Pool, PooledDevice};

const LEN_BYTES: u64 = 4 << 20;
const BLOCK_BYTES: u64 = 512;

/// A device with the loop that it lives in.
struct Rig {
    device: Box<dyn BlockDevice>,
    pool: Option<Rc<Pool>>,
    _dir: tempfile::TempDir,
}

fn profile(write_cache: bool) -> Profile {
    Profile {
        len_bytes: LEN_BYTES,
        blocks: BlockSizes { logical_bytes: BLOCK_BYTES as u32, physical_bytes: 1, preferred_bytes: 4096 },
        limits: Limits { transfer_bytes: 1 << 20, range_bytes: 2 << 20, atomic_bytes: 64 << 10 },
        can: Capabilities {
            read_only: false,
            write_cache,
            fua: true,
            unmap: true,
            unmapped_reads_zero: true,
            fill: true,
            compare: true,
            extents: true,
        },
    }
}

fn memory() -> Rig {
    let lent = Lent::Memory(Memory::zeroed(LEN_BYTES).unwrap());
    let device = Box::new(LentDevice::new(lent, profile(false)));
    Rig { device, pool: None, _dir: tempfile::tempdir().unwrap() }
}

fn file() -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    File::create(&path).unwrap().set_len(LEN_BYTES).unwrap();
    let store = FileStore::open_file(&path, OpenAs::default(), BLOCK_BYTES as u32).unwrap();
    let pool = Pool::start(3).unwrap();
    let device = Box::new(PooledDevice::new(Arc::new(store), profile(true), &pool));
    Rig { device, pool: Some(pool), _dir: dir }
}

impl Rig {
    fn submit(&mut self, owner: u64, id: u64, op: BlockOp) {
        let request = BlockRequest {
            id: Token(id),
            owner: Owner(owner),
            op,
            fua: id.is_multiple_of(3),
            is_timed: true,
        };
        self.device.submit(request, clock::now());
    }

    /// Completions of `count` requests. Waits by the descriptor and the time of the device alone.
    fn completions(&mut self, count: usize) -> Vec<BlockCompletion> {
        let (poll, mut events) = (Poll::new().unwrap(), Events::new());
        if let Some(pool) = &self.pool {
            poll.add(pool.as_fd(), 0, Interest::READ).unwrap();
        }
        let mut found = Vec::new();
        while found.len() < count {
            if self.device.next_at() > clock::now() {
                assert!(self.pool.is_some(), "nothing will come: {} of {count}", found.len());
                poll.wait(&mut events, None).unwrap();
                self.pool.iter().for_each(|pool| pool.collect());
            }
            found.extend(std::iter::from_fn(|| self.device.poll(clock::now())));
        }
        assert_eq!(found.len(), count);
        found
    }
}

/// Numbers of a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)] {
            value = (value ^ (value >> shift)).wrapping_mul(factor);
        }
        (value ^ (value >> 31)) % end
    }
}

fn filled(buffers: &Buffers, len: u64, value: u8) -> Buffer {
    let mut buffer = buffers.take(len as usize);
    buffer.fill(value);
    buffer
}

/// Rounds of requests to disjoint ranges, each of which completes once, with the bytes that the model has.
fn random_requests(mut rig: Rig, seed: u64) {
    let (buffers, mut random) = (Buffers::new(0), Random(seed));
    let mut model = vec![0u8; LEN_BYTES as usize];
    let mut id = 0;
    for _ in 0..40 {
        let mut reads: HashMap<u64, (u64, u64)> = HashMap::new();
        let mut asked = BTreeMap::new();
        for place in 0..8 {
            id += 1;
            let (offset_bytes, value) = (place * (LEN_BYTES / 8) + random.below(64) * BLOCK_BYTES, id as u8);
            let len_bytes = (1 + random.below(600)) * BLOCK_BYTES;
            let range = ByteRange { offset_bytes, len_bytes };
            let bytes = &mut model[offset_bytes as usize..][..len_bytes as usize];
            let op = match random.below(6) {
                0 => {
                    reads.insert(id, (offset_bytes, len_bytes));
                    BlockOp::Read { offset_bytes, into: buffers.take(len_bytes as usize) }
                }
                1 => {
                    bytes.fill(value);
                    BlockOp::Write { offset_bytes, data: filled(&buffers, len_bytes, value) }
                }
                2 => {
                    bytes.fill(value);
                    BlockOp::Composite(CompositeAction::Fill { span: range, pattern: vec![value; 512] })
                }
                3 => {
                    bytes.fill(0);
                    BlockOp::Composite(CompositeAction::Unmap(vec![range]))
                }
                4 => {
                    let pattern = bytes.to_vec();
                    BlockOp::Composite(CompositeAction::Compare { span: range, pattern })
                }
                _ => BlockOp::Flush,
            };
            asked.insert(id, random.below(3));
            rig.submit(asked[&id], id, op);
        }
        for done in rig.completions(8) {
            let owner = asked.remove(&done.id.0).expect("each completes once");
            assert_eq!((done.owner, &done.result), (Owner(owner), &Ok(())), "seed {seed}");
            if let Some((offset_bytes, len_bytes)) = reads.remove(&done.id.0) {
                let expected = &model[offset_bytes as usize..][..len_bytes as usize];
                assert!(done.read.expect("the buffer comes back")[..] == *expected, "seed {seed}");
            }
        }
        assert!(asked.is_empty() && reads.is_empty() && rig.device.poll(clock::now()).is_none());
    }
    assert_eq!(buffers.held_bytes(), 0, "all buffers are given back");
}

#[test]
fn requests_of_memory_do_what_the_model_does() {
    (0..4).for_each(|seed| random_requests(memory(), seed));
}

#[test]
fn requests_of_a_file_do_what_the_model_does() {
    (0..4).for_each(|seed| random_requests(file(), seed));
}

#[test]
fn requests_beyond_the_profile_are_refused() {
    let buffers = Buffers::new(0);
    for (name, mut rig) in [("memory", memory()), ("file", file())] {
        let read = |offset_bytes, len| BlockOp::Read { offset_bytes, into: buffers.take(len) };
        let fill = |offset_bytes, len_bytes, pattern: usize| {
            let span = ByteRange { offset_bytes, len_bytes };
            BlockOp::Composite(CompositeAction::Fill { span, pattern: vec![1; pattern] })
        };
        let compare = |offset_bytes, len_bytes, pattern: usize| {
            let span = ByteRange { offset_bytes, len_bytes };
            BlockOp::Composite(CompositeAction::Compare { span, pattern: vec![0; pattern] })
        };
        let or = |offset_bytes, len: usize| {
            BlockOp::Composite(CompositeAction::Or { offset_bytes, bits: vec![0; len] })
        };
        let change = |offset_bytes, len: usize| {
            let (expected, new) = (vec![0; len], vec![1; len]);
            BlockOp::Composite(CompositeAction::CompareAndWrite { offset_bytes, expected, new })
        };
        let cases = [
            (read(LEN_BYTES, 512), ErrorKind::OutOfRange),
            (read(u64::MAX - 511, 512), ErrorKind::OutOfRange),
            (read(LEN_BYTES - 512, 1024), ErrorKind::OutOfRange),
            (read(100, 512), ErrorKind::Invalid),
            (read(0, 100), ErrorKind::Invalid),
            (read(0, (1 << 20) + 512), ErrorKind::Invalid),
            (fill(0, (2 << 20) + 512, 512), ErrorKind::Invalid),
            (fill(0, 1024, 0), ErrorKind::Invalid),
            (fill(0, 1536, 1024), ErrorKind::Invalid),
            (fill(LEN_BYTES, 512, 512), ErrorKind::OutOfRange),
            (compare(0, 4096, 1024), ErrorKind::Invalid),
            (compare(0, 2 << 20, 1 << 20), ErrorKind::Invalid),
            (compare(0, 1024, 2048), ErrorKind::Invalid),
            (compare(0, 1024, 0), ErrorKind::Invalid),
            (or(64 << 10, (64 << 10) + 512), ErrorKind::Invalid),
            (change(0, (64 << 10) + 512), ErrorKind::Invalid),
            (or(LEN_BYTES - 512, 1024), ErrorKind::OutOfRange),
        ];
        for (id, (op, kind)) in (1..).zip(cases) {
            let asked = format!("{name}: {op:?}");
            let has_buffer = matches!(op, BlockOp::Read { .. });
            rig.submit(1, id, op);
            let done = rig.completions(1).remove(0);
            let error = match &done.result {
                Err(OperationError::Read(error) | OperationError::Write(error)) => error.clone(),
                other => panic!("{asked}: {other:?}"),
            };
            assert_eq!((error.kind, done.read.is_some()), (kind, has_buffer), "{asked}: {error}");
        }
    }
}

/// A pattern of one block, or one that is as long as the range and longer than a slice.
#[test]
fn a_range_is_compared_with_a_block_or_with_as_many_bytes() {
    for (name, mut rig) in [("memory", memory()), ("file", file())] {
        let span = ByteRange { offset_bytes: 512, len_bytes: 1 << 20 };
        let compare = |pattern| BlockOp::Composite(CompositeAction::Compare { span, pattern });
        rig.submit(1, 1, BlockOp::Composite(CompositeAction::Fill { span, pattern: vec![7; 512] }));
        assert_eq!(rig.completions(1)[0].result, Ok(()), "{name}");
        let mut differing = vec![7; 1 << 20];
        differing[(1 << 20) - 1] = 8;
        for (id, (pattern, is_same)) in (2..).zip([
            (vec![7; 512], true),
            (vec![8; 512], false),
            (vec![7; 1 << 20], true),
            (differing, false),
        ]) {
            rig.submit(1, id, compare(pattern));
            assert_eq!(rig.completions(1)[0].result.is_ok(), is_same, "{name}: {id}");
        }
    }
}

#[test]
fn an_operation_on_nothing_is_done() {
    for (name, mut rig) in [("memory", memory()), ("file", file())] {
        let span = ByteRange { offset_bytes: 512, len_bytes: 0 };
        let (offset_bytes, new) = (LEN_BYTES, Vec::new);
        for (id, action) in (1..).zip([
            CompositeAction::Compare { span, pattern: Vec::new() },
            CompositeAction::Compare { span, pattern: vec![1; 512] },
            CompositeAction::Compare { span, pattern: vec![1; 100] },
            CompositeAction::Verify(span),
            CompositeAction::Fill { span, pattern: vec![1; 512] },
            CompositeAction::Unmap(vec![]),
            CompositeAction::Unmap(vec![span, span]),
            CompositeAction::Or { offset_bytes, bits: new() },
            CompositeAction::CompareAndWrite { offset_bytes, expected: new(), new: new() },
        ]) {
            let asked = format!("{name}: {action:?}");
            rig.submit(1, id, BlockOp::Composite(action));
            assert_eq!(rig.completions(1)[0].result, Ok(()), "{asked}");
        }
    }
}

#[test]
fn ranges_whose_sum_is_beyond_all_numbers_are_refused() {
    let half = ByteRange { offset_bytes: 0, len_bytes: 1 << 63 };
    let op = BlockOp::Composite(CompositeAction::Unmap(vec![half; 3]));
    let request = BlockRequest { id: Token(1), owner: Owner(1), op, fua: false, is_timed: false };
    let mut profile = profile(false);
    (profile.len_bytes, profile.limits.range_bytes) = (1 << 63, 1 << 63);
    let Err(OperationError::Write(error)) = check(&profile, &request) else { panic!("it is too long") };
    assert_eq!(error.kind, ErrorKind::Invalid);
}

#[test]
fn the_end_of_a_long_operation_has_its_time() {
    for (name, mut rig) in [("memory", memory()), ("file", file())] {
        let begun = clock::now();
        let span = ByteRange { offset_bytes: 0, len_bytes: 2 << 20 };
        rig.submit(1, 1, BlockOp::Composite(CompositeAction::Fill { span, pattern: vec![7; 512] }));
        let done = rig.completions(1).pop().expect("one");
        assert!(done.ended_at.is_some_and(|at| at >= begun && at <= clock::now()), "{name}: {done:?}");
    }
}

#[test]
fn a_withdrawn_look_is_a_failed_read() {
    for (name, mut rig) in [("memory", memory()), ("file", file())] {
        let span = ByteRange { offset_bytes: 0, len_bytes: LEN_BYTES };
        for id in 1..=40 {
            let pattern = vec![0; BLOCK_BYTES as usize];
            rig.submit(7, id, BlockOp::Composite(CompositeAction::Compare { span, pattern }));
        }
        rig.device.cancel(Select::Owner(Owner(7)), clock::now());
        let done = rig.completions(40);
        let is_withdrawn = |done: &&BlockCompletion| matches!(&done.result, Err(OperationError::Read(error)) if error.kind == ErrorKind::Cancelled);
        assert!(done.iter().filter(is_withdrawn).count() >= 36, "{name}: {done:?}");
        let is_read = |done: &BlockCompletion| !matches!(done.result, Err(OperationError::Write(_)));
        assert!(done.iter().all(is_read), "{name}");
    }
}

#[test]
fn a_withdrawn_operation_completes_and_the_rest_of_it_is_not_done() {
    for (name, mut rig) in [("memory", memory()), ("file", file())] {
        let fill = |value| {
            let span = ByteRange { offset_bytes: 0, len_bytes: 2 << 20 };
            BlockOp::Composite(CompositeAction::Fill { span, pattern: vec![value; 512] })
        };
        for id in 1..=40 {
            rig.submit(7, id, fill(id as u8));
        }
        rig.submit(8, 1, fill(200));
        rig.device.cancel(Select::One(Owner(7), Token(40)), clock::now());
        rig.device.cancel(Select::Owner(Owner(7)), clock::now());
        let done = rig.completions(41);
        let (mine, others): (Vec<_>, Vec<_>) = done.into_iter().partition(|done| done.owner == Owner(7));
        assert!(others[0].result.is_ok(), "{name}: another owner's goes on");
        let is_withdrawn = |done: &&BlockCompletion| matches!(&done.result, Err(OperationError::Write(error)) if error.kind == ErrorKind::Cancelled);
        assert!(mine.iter().filter(is_withdrawn).count() >= 36, "{name}: those that were not begun");
        assert!(mine.iter().any(|done| done.id == Token(40) && is_withdrawn(&done)), "{name}");
    }
}

#[test]
fn a_device_that_is_dropped_gives_its_buffers_back() {
    let buffers = Buffers::new(0);
    let mut rig = file();
    for id in 0..8 {
        rig.submit(1, id, BlockOp::Write { offset_bytes: 0, data: filled(&buffers, 65536, 7) });
    }
    let Rig { device, pool, _dir } = rig;
    drop(device);
    // The workers end all calls before the pool goes.
    drop(pool);
    assert_eq!(buffers.held_bytes(), 0);
}

#[test]
fn extents_begin_with_the_range_and_end_within_it() {
    let buffers = Buffers::new(0);
    for (name, mut rig) in [("memory", memory()), ("file", file())] {
        let data = filled(&buffers, 64 << 10, 7);
        rig.submit(1, 1, BlockOp::Write { offset_bytes: 1 << 20, data });
        rig.completions(1);
        let mut look = |offset_bytes, len_bytes, extents_max| {
            let range = ByteRange { offset_bytes, len_bytes };
            rig.submit(1, 2, BlockOp::Extents { range, extents_max });
            let done = rig.completions(1).remove(0);
            assert_eq!(done.result, Ok(()), "{name}");
            let extents = done.extents.iter();
            extents.map(|extent| (extent.len_bytes, extent.is_zero)).collect::<Vec<_>>()
        };
        // A look at memory ends after a mebibyte.
        assert_eq!(look(0, LEN_BYTES, 1), [(1 << 20, true)], "{name}");
        let around = look((1 << 20) - 4096, 72 << 10, 8);
        assert_eq!(around, [(4096, true), (64 << 10, false), (4096, true)], "{name}");
        assert_eq!(look((1 << 20) - 4096, 72 << 10, 2), around[..2], "{name}");
        assert_eq!(look((1 << 20) + 512, 1024, 8), [(1024, false)], "{name}");
    }
}

#[test]
fn a_device_without_extents_refuses_the_lookup() {
    let plain = profile(false);
    let can = Capabilities { extents: false, ..plain.can };
    let lent = Lent::Memory(Memory::zeroed(LEN_BYTES).unwrap());
    let device = Box::new(LentDevice::new(lent, Profile { can, ..plain }));
    let mut rig = Rig { device, pool: None, _dir: tempfile::tempdir().unwrap() };
    let range = ByteRange { offset_bytes: 0, len_bytes: 4096 };
    rig.submit(1, 1, BlockOp::Extents { range, extents_max: 8 });
    let done = rig.completions(1).remove(0);
    let Err(OperationError::Read(error)) = done.result else { panic!("{done:?}") };
    assert_eq!((error.kind, done.extents.len()), (ErrorKind::Unsupported, 0));
}
