//! Calls of a blocking store. A long call is made in pieces, between which others have their turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use super::workers::Step;
use crate::buffer::Buffer;
use crate::composite::{ByteRange, Composite};
use crate::device::Extent;
use crate::error::OperationError;
use crate::store::BlockingStore;

/// Cost of a flush in bytes: it moves none and may take as long as the writes before it.
pub const FLUSH_COST_BYTES: u64 = 1 << 20;
/// Cost of a lookup of extents in bytes: it reads metadata of the file system.
const LOOKUP_COST_BYTES: u64 = 64 << 10;

/// A call of a blocking store, or the rest of one.
#[derive(Debug)]
pub enum StoreCall {
    /// Fills the buffer, of which `done_bytes` are filled; with FUA after a flush.
    Read {
        /// Offset of the buffer in bytes.
        offset_bytes: u64,
        /// Buffer to fill.
        buffer: Buffer,
        /// Force unit access: from the medium.
        fua: bool,
        /// Bytes that are filled.
        done_bytes: usize,
    },
    /// Stores the buffer, of which `done_bytes` are stored; with FUA to the medium.
    Write {
        /// Offset of the buffer in bytes.
        offset_bytes: u64,
        /// Buffer to store.
        buffer: Buffer,
        /// Force unit access: to the medium.
        fua: bool,
        /// Bytes that are stored.
        done_bytes: usize,
    },
    /// Makes all writes that ended before it durable.
    Flush,
    /// Looks up the allocation of a range.
    Extents {
        /// Range to look up.
        range: ByteRange,
        /// Most extents of the answer.
        extents_max: usize,
    },
    /// Executes an operation of several reads and writes, of which `done_bytes` are done.
    Composite {
        /// Operation.
        composite: Composite,
        /// Bytes that are done.
        done_bytes: u64,
        /// Ends it between two pieces.
        halt: Halt,
        /// Buffer of the parameters that it came with, which counts until it ends.
        counted: Option<Buffer>,
    },
}

/// Result of a call, with the buffer of a read.
#[derive(Debug)]
pub struct Called {
    /// Result of the operation.
    pub result: Result<(), OperationError>,
    /// Buffer of a read.
    pub read: Option<Buffer>,
    /// Extents of a lookup.
    pub extents: Vec<Extent>,
}

/// Ends an operation in a worker before its next piece.
#[derive(Clone, Default, Debug)]
pub struct Halt(Arc<AtomicBool>);

impl Halt {
    /// Ends it.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true if it is to end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl StoreCall {
    /// Cost of the next piece to other users of the store: the bytes that it moves.
    pub fn cost_bytes(&self, store: &dyn BlockingStore) -> u64 {
        match self {
            StoreCall::Write { buffer, fua: true, .. } => buffer.len() as u64,
            StoreCall::Read { buffer, done_bytes, .. } | StoreCall::Write { buffer, done_bytes, .. } => {
                (buffer.len() - done_bytes).min(store.piece_bytes()) as u64
            }
            StoreCall::Flush => FLUSH_COST_BYTES,
            StoreCall::Extents { .. } => LOOKUP_COST_BYTES,
            StoreCall::Composite { composite, done_bytes, .. } => composite.cost_bytes(store, *done_bytes),
        }
    }

    /// Bytes that it moves.
    pub fn len_bytes(&self) -> u64 {
        match self {
            StoreCall::Read { buffer, .. } | StoreCall::Write { buffer, .. } => buffer.len() as u64,
            StoreCall::Composite { composite, .. } => composite.moved_bytes(),
            StoreCall::Flush | StoreCall::Extents { .. } => 0,
        }
    }

    /// Returns true if its writes may be in a cache alone when it ends.
    pub fn leaves_cached(&self) -> bool {
        match self {
            StoreCall::Write { fua, .. } => !fua,
            StoreCall::Composite { composite, .. } => !composite.fua && !composite.is_read(),
            StoreCall::Read { .. } | StoreCall::Extents { .. } | StoreCall::Flush => false,
        }
    }

    /// Sets FUA if it writes.
    pub fn set_fua(&mut self) {
        match self {
            StoreCall::Write { fua, .. } => *fua = true,
            StoreCall::Composite { composite, .. } if !composite.is_read() => composite.fua = true,
            StoreCall::Read { .. }
            | StoreCall::Composite { .. }
            | StoreCall::Extents { .. }
            | StoreCall::Flush => {}
        }
    }

    /// Returns true if it changes nothing.
    pub fn is_read(&self) -> bool {
        match self {
            StoreCall::Read { .. } | StoreCall::Extents { .. } => true,
            StoreCall::Composite { composite, .. } => composite.is_read(),
            StoreCall::Write { .. } | StoreCall::Flush => false,
        }
    }

    /// Makes the call, or the next piece of it; may block.
    pub fn step(self, store: &dyn BlockingStore) -> Step<StoreCall, Called> {
        let done = |result| Step::Done(Called { result, read: None, extents: Vec::new() });
        let more = |call: StoreCall| Step::More { bytes: call.cost_bytes(store), job: call };
        // A panic in a worker leaves nothing torn behind the gate.
        let shared = || store.gate().read().unwrap_or_else(PoisonError::into_inner);
        match self {
            StoreCall::Read { offset_bytes, mut buffer, fua, done_bytes } => {
                let flushed = if fua && done_bytes == 0 { store.sync() } else { Ok(()) };
                let end = buffer.len().min(done_bytes.saturating_add(store.piece_bytes()));
                let into = &mut buffer[done_bytes..end];
                let result = flushed.and_then(|()| store.read_at(offset_bytes + done_bytes as u64, into));
                if result.is_ok() && end < buffer.len() {
                    return more(StoreCall::Read { offset_bytes, buffer, fua, done_bytes: end });
                }
                let result = result.map_err(OperationError::Read);
                Step::Done(Called { result, read: Some(buffer), extents: Vec::new() })
            }
            StoreCall::Write { offset_bytes, buffer, fua: false, done_bytes } => {
                let end = buffer.len().min(done_bytes.saturating_add(store.piece_bytes()));
                let result = {
                    let _gate = shared();
                    store.write_at(offset_bytes + done_bytes as u64, &buffer[done_bytes..end])
                };
                if result.is_ok() && end < buffer.len() {
                    return more(StoreCall::Write { offset_bytes, buffer, fua: false, done_bytes: end });
                }
                done(result.map_err(OperationError::Write))
            }
            StoreCall::Write { offset_bytes, buffer, fua: true, .. } => {
                let _gate = shared();
                done(store.write_through(offset_bytes, &buffer).map_err(OperationError::Write))
            }
            StoreCall::Extents { range, extents_max } => match store.extents(range, extents_max) {
                Ok(extents) => Step::Done(Called { result: Ok(()), read: None, extents }),
                Err(error) => done(Err(OperationError::Read(error))),
            },
            StoreCall::Flush => done(store.sync().map_err(OperationError::Write)),
            StoreCall::Composite { composite, halt, .. } if halt.is_set() => {
                done(Err(OperationError::cancelled(composite.is_read())))
            }
            StoreCall::Composite { composite, mut done_bytes, halt, counted } => {
                let alone = composite
                    .is_exclusive()
                    .then(|| store.gate().write().unwrap_or_else(PoisonError::into_inner));
                let beside = alone.is_none().then(shared);
                let step = composite.in_store(store, &mut done_bytes);
                drop((alone, beside));
                if step == Ok(false) {
                    return more(StoreCall::Composite { composite, done_bytes, halt, counted });
                }
                done(step.map(|_| ()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffers;
    use crate::composite::{ByteRange, CompositeAction};
    use crate::local::{FileStore, OpenAs};
    use crate::wrap::FaultStore;

    /// Makes a call to its end: the number of its pieces, and the buffer of a read.
    fn run_all(store: &Arc<dyn BlockingStore>, mut call: StoreCall) -> (usize, Option<Buffer>) {
        for steps in 1.. {
            match call.step(&**store) {
                Step::More { bytes, job } => {
                    assert_eq!(bytes, job.cost_bytes(&**store));
                    call = job;
                }
                Step::Done(done) => {
                    assert!(done.result.is_ok());
                    return (steps, done.read);
                }
            }
        }
        unreachable!("it ends")
    }

    #[test]
    fn long_copies_of_the_page_cache_are_cut_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let store: Arc<dyn BlockingStore> =
            Arc::new(FileStore::open_file(&path, OpenAs::default(), 512).unwrap());
        let buffers = Buffers::new(0);
        let cases = [(512, 1), (65536, 1), (65536 + 512, 2), (300_032, 5)];
        let cases = cases.into_iter().flat_map(|(len, steps)| [(len, steps, false), (len, steps, true)]);
        for (fill, (len, steps, fua)) in (1..).zip(cases) {
            let mut buffer = buffers.take(len);
            buffer.fill(fill);
            let (found, _) =
                run_all(&store, StoreCall::Write { offset_bytes: 4096, buffer, fua, done_bytes: 0 });
            assert_eq!(found, if fua { 1 } else { steps }, "a write of {len} bytes, fua {fua}");
            let file = std::fs::read(&path).unwrap();
            assert!(file[4096..][..len].iter().all(|byte| *byte == fill) && file[4095] == 0, "{len} bytes");
            let buffer = buffers.take(len);
            let (found, read) =
                run_all(&store, StoreCall::Read { offset_bytes: 4096, buffer, fua, done_bytes: 0 });
            assert_eq!(found, steps, "a read of {len} bytes, fua {fua}");
            assert!(read.unwrap()[..] == file[4096..][..len], "{len} bytes");
            // A rule for faults counts commands and not their pieces.
            let faulty: Arc<dyn BlockingStore> = Arc::new(FaultStore::new(Arc::clone(&store), &[], 512, 0));
            let buffer = buffers.take(len);
            let read = StoreCall::Read { offset_bytes: 4096, buffer, fua, done_bytes: 0 };
            assert_eq!(run_all(&faulty, read).0, 1, "{len} bytes with faults in front");
        }
    }

    #[test]
    fn what_is_written_without_fua_may_be_in_a_cache_alone() {
        let (buffers, span) = (Buffers::new(0), ByteRange { offset_bytes: 0, len_bytes: 512 });
        let order = |action| StoreCall::Composite {
            composite: Composite { action, fua: false },
            done_bytes: 0,
            halt: Halt::default(),
            counted: None,
        };
        let (buffer, pattern) = (|| buffers.take(512), vec![7; 512]);
        let new = pattern.clone();
        for (mut call, is_cached) in [
            (StoreCall::Read { offset_bytes: 0, buffer: buffer(), fua: false, done_bytes: 0 }, false),
            (StoreCall::Write { offset_bytes: 0, buffer: buffer(), fua: false, done_bytes: 0 }, true),
            (StoreCall::Flush, false),
            (order(CompositeAction::Verify(span)), false),
            (order(CompositeAction::Compare { span, pattern: pattern.clone() }), false),
            (order(CompositeAction::Fill { span, pattern: pattern.clone() }), true),
            (order(CompositeAction::Unmap(vec![span])), true),
            (order(CompositeAction::Or { offset_bytes: 0, bits: pattern.clone() }), true),
            (order(CompositeAction::CompareAndWrite { offset_bytes: 0, expected: pattern, new }), true),
        ] {
            assert_eq!(call.leaves_cached(), is_cached, "{call:?}");
            call.set_fua();
            assert!(!call.leaves_cached(), "it is on the medium: {call:?}");
        }
    }

    /// An UNMAP of sixty-four gigabytes holds up nobody: it is many pieces. One that was aborted ends after the piece that
    /// a worker is at.
    #[test]
    fn orders_are_cut_and_end_between_their_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::File::create(&path).unwrap().set_len(64 << 30).unwrap();
        let store: Arc<dyn BlockingStore> =
            Arc::new(FileStore::open_file(&path, OpenAs::default(), 512).unwrap());
        let halt = Halt::default();
        let order = |action| StoreCall::Composite {
            composite: Composite { action, fua: true },
            done_bytes: 0,
            halt: halt.clone(),
            counted: None,
        };
        let whole = ByteRange { offset_bytes: 0, len_bytes: 64 << 30 };
        assert_eq!(run_all(&store, order(CompositeAction::Unmap(vec![whole]))).0, 4096);
        let span = ByteRange { offset_bytes: 4096, len_bytes: 1 << 20 };
        let fill = |value| order(CompositeAction::Fill { span, pattern: vec![value; 512] });
        assert_eq!(run_all(&store, fill(7)).0, 16);
        let Step::More { job, .. } = fill(9).step(&*store) else { panic!("it takes more than a piece") };
        halt.set();
        assert!(matches!(job.step(&*store), Step::Done(Called { result: Err(_), .. })));
        let mut found = vec![0; 1 << 20];
        store.read_at(4096, &mut found).unwrap();
        assert!(found[..64 << 10].iter().all(|byte| *byte == 9), "the piece that was begun");
        assert!(found[64 << 10..].iter().all(|byte| *byte == 7), "nothing after it");
    }
}
