//! Operations of several reads and writes: compare, fill, unmap, set bits, compare and write.
//!
//! Each is executed a slice at a time: by the loop for a device that lends its bytes, by a worker for a blocking store.
//! Between two slices others have their turn, and an aborted operation ends.

mod action;
mod medium;
mod slice;

use crate::error::OperationError;
use crate::lent::Lent;
use crate::store::BlockingStore;

pub use action::{ByteRange, Composite, CompositeAction};

use action::{PIECE_BYTES, is_zeros};
use medium::{Medium, RANGE_SLICE_BYTES, SLICE_BYTES};
use slice::{slice, slice_of_many};

/// A store frees so many bytes in the time in which it moves one. Without it an UNMAP beside bulk reads would take as
/// long as reading all of its range.
const FREED_PER_MOVED: u64 = 256;

impl Composite {
    /// Returns true if no write may come in between.
    pub fn is_exclusive(&self) -> bool {
        matches!(self.action, CompositeAction::CompareAndWrite { .. } | CompositeAction::Or { .. })
    }

    /// Returns true if it changes nothing.
    pub fn is_read(&self) -> bool {
        self.action.is_read()
    }

    /// Returns true if it takes more than a slice.
    pub fn is_long(&self) -> bool {
        self.len_bytes() > SLICE_BYTES
    }

    /// Bytes that it looks at or changes.
    pub fn len_bytes(&self) -> u64 {
        match &self.action {
            CompositeAction::Verify(span)
            | CompositeAction::Compare { span, .. }
            | CompositeAction::Fill { span, .. } => span.len_bytes,
            CompositeAction::Unmap(spans) => spans.iter().map(|span| span.len_bytes).sum(),
            CompositeAction::Or { bits, .. } => bits.len() as u64,
            CompositeAction::CompareAndWrite { new, .. } => new.len() as u64,
        }
    }

    /// Bytes that move for it: an UNMAP moves none.
    pub fn moved_bytes(&self) -> u64 {
        if matches!(self.action, CompositeAction::Unmap(_)) { 0 } else { self.len_bytes() }
    }

    /// Cost of the slice after `done_bytes` to the other users of a store, in bytes moved.
    pub fn cost_bytes(&self, store: &dyn BlockingStore, done_bytes: u64) -> u64 {
        let left_bytes = self.len_bytes() - done_bytes;
        match self.action {
            _ if self.is_exclusive() => left_bytes,
            CompositeAction::Unmap(_) if store.makes_zeros() => {
                left_bytes.min(RANGE_SLICE_BYTES) / FREED_PER_MOVED
            }
            _ => left_bytes.min(Medium::slice_bytes(&store, &self.action)),
        }
    }

    /// Executes a slice of it in a device that lends its bytes, from `done_bytes` on, which it advances; `true` when
    /// nothing is left to do. An atomic operation is one slice.
    pub fn inline(&self, inline: &mut Lent, done_bytes: &mut u64) -> Result<bool, OperationError> {
        let has_nothing_to_do = match (&self.action, &*inline) {
            // Memory can always be read.
            (CompositeAction::Verify(_), _) => true,
            (CompositeAction::Fill { .. } | CompositeAction::Unmap(_), Lent::Null(_)) => true,
            _ => false,
        };
        if has_nothing_to_do {
            *done_bytes = self.len_bytes();
            return Ok(true);
        }
        self.step(inline, done_bytes)
    }

    /// The same in a store; may block.
    pub fn in_store(
        &self,
        mut store: &dyn BlockingStore,
        done_bytes: &mut u64,
    ) -> Result<bool, OperationError> {
        self.step(&mut store, done_bytes)
    }

    fn step(&self, medium: &mut impl Medium, done_bytes: &mut u64) -> Result<bool, OperationError> {
        let (begin_bytes, total_bytes) = (*done_bytes, self.len_bytes());
        if total_bytes == 0 {
            return Ok(true);
        }
        let most_bytes = medium.slice_bytes(&self.action);
        *done_bytes = match &self.action {
            CompositeAction::Unmap(spans) => {
                let mut done_bytes = begin_bytes;
                for ByteRange { offset_bytes, len_bytes } in slice_of_many(spans, begin_bytes, most_bytes) {
                    medium.zero(offset_bytes, len_bytes).map_err(OperationError::Write)?;
                    done_bytes += len_bytes;
                }
                done_bytes
            }
            _ if self.is_exclusive() => total_bytes,
            _ => total_bytes.min(begin_bytes + most_bytes),
        };
        let len_bytes = *done_bytes - begin_bytes;
        match &self.action {
            CompositeAction::Unmap(_) => {}
            CompositeAction::Verify(span) => {
                let (span, _) = slice(*span, &[], begin_bytes, len_bytes);
                medium.pieces(span, PIECE_BYTES, |_, _| Ok(()))?;
            }
            CompositeAction::Compare { span, pattern } => {
                let (span, pattern) = slice(*span, pattern, begin_bytes, len_bytes);
                compare(medium, span, pattern)?;
            }
            CompositeAction::Fill { span, pattern } => {
                let (span, pattern) = slice(*span, pattern, begin_bytes, len_bytes);
                fill(medium, span, pattern)?;
            }
            CompositeAction::Or { offset_bytes, bits } => {
                let span = ByteRange { offset_bytes: *offset_bytes, len_bytes };
                let mut new = bits.clone();
                medium.pieces(span, PIECE_BYTES, |at, found| {
                    new[at as usize..].iter_mut().zip(found).for_each(|(new, found)| *new |= found);
                    Ok(())
                })?;
                medium.write(*offset_bytes, &new).map_err(OperationError::Write)?;
            }
            CompositeAction::CompareAndWrite { offset_bytes, expected, new } => {
                let span = ByteRange { offset_bytes: *offset_bytes, len_bytes };
                medium.pieces(span, expected.len(), |_, found| {
                    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
                        None => Ok(()),
                        Some(at) => Err(OperationError::Miscompare { offset_bytes: Some(at as u64) }),
                    }
                })?;
                medium.write(*offset_bytes, new).map_err(OperationError::Write)?;
            }
        }
        let is_all = *done_bytes == total_bytes;
        if is_all && self.fua {
            medium.sync().map_err(OperationError::Write)?;
        }
        Ok(is_all)
    }
}

fn compare(medium: &mut impl Medium, span: ByteRange, pattern: &[u8]) -> Result<(), OperationError> {
    // Every piece begins with the pattern.
    let piece_bytes = PIECE_BYTES / pattern.len().min(PIECE_BYTES) * pattern.len();
    medium.pieces(span, piece_bytes, |_, found| {
        match found.chunks(pattern.len()).all(|chunk| *chunk == pattern[..chunk.len()]) {
            true => Ok(()),
            false => Err(OperationError::Miscompare { offset_bytes: None }),
        }
    })
}

fn fill(medium: &mut impl Medium, span: ByteRange, pattern: &[u8]) -> Result<(), OperationError> {
    if is_zeros(pattern) {
        return medium.write_zeros(span.offset_bytes, span.len_bytes).map_err(OperationError::Write);
    }
    let len_bytes = span.len_bytes.min((PIECE_BYTES / pattern.len()).max(1) as u64 * pattern.len() as u64);
    let piece = pattern.repeat(len_bytes as usize / pattern.len());
    let mut done_bytes = 0;
    while done_bytes < span.len_bytes {
        let len = (span.len_bytes - done_bytes).min(piece.len() as u64);
        medium
            .write(span.offset_bytes + done_bytes, &piece[..len as usize])
            .map_err(OperationError::Write)?;
        done_bytes += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::lent::Memory;
    use crate::local::{FileStore, OpenAs};

    const LEN_BYTES: u64 = 4 << 20;

    /// The same operations, one after the other, in memory and in a file: the result of each, and the bytes then.
    #[test]
    fn memory_and_files_do_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        File::create(&path).unwrap().set_len(LEN_BYTES).unwrap();
        let store = FileStore::open_file(&path, OpenAs::default(), 512).unwrap();
        let mut memory = Lent::Memory(Memory::zeroed(LEN_BYTES).unwrap());
        let span = |offset_bytes, len_bytes| ByteRange { offset_bytes, len_bytes };
        let miscompare = |offset_bytes| Err(OperationError::Miscompare { offset_bytes });
        let mut expected = vec![0u8; LEN_BYTES as usize];
        let mut check = |action, result: Result<(), OperationError>, change: &dyn Fn(&mut [u8])| {
            let order = Composite { action, fua: true };
            change(&mut expected);
            let mut done_bytes = 0;
            let in_memory = loop {
                match order.inline(&mut memory, &mut done_bytes) {
                    Ok(false) => assert!(done_bytes < order.len_bytes(), "{order:?}"),
                    ended => break ended.map(|_| ()),
                }
            };
            assert_eq!(in_memory, result, "{order:?}");
            let mut done_bytes = 0;
            let in_store = loop {
                match order.in_store(&store, &mut done_bytes) {
                    Ok(false) => assert!(done_bytes < order.len_bytes(), "{order:?}"),
                    ended => break ended.map(|_| ()),
                }
            };
            assert_eq!(in_store, result, "{order:?}");
            assert!(
                memory.bytes(0, LEN_BYTES as usize) == expected && std::fs::read(&path).unwrap() == expected,
                "{order:?}"
            );
        };
        let nothing: &dyn Fn(&mut [u8]) = &|_| {};
        let block = vec![7; 512];
        let fill = CompositeAction::Fill { span: span(512, 3 << 20), pattern: block.clone() };
        check(fill, Ok(()), &|bytes| bytes[512..512 + (3 << 20)].fill(7));
        check(CompositeAction::Verify(span(0, LEN_BYTES)), Ok(()), nothing);
        check(CompositeAction::Compare { span: span(512, 3 << 20), pattern: block.clone() }, Ok(()), nothing);
        check(
            CompositeAction::Compare { span: span(0, 1024), pattern: block.clone() },
            miscompare(None),
            nothing,
        );
        check(
            CompositeAction::Compare { span: span(512, 2 << 20), pattern: vec![7; 2 << 20] },
            Ok(()),
            nothing,
        );
        let late = CompositeAction::Compare {
            span: span(512, 3 << 20),
            pattern: [&[7; 2 << 20][..], &[8; 1 << 20]].concat(),
        };
        check(late, miscompare(None), nothing);
        check(
            CompositeAction::Unmap(vec![span(4096, 1 << 20), span(0, 0), span(2 << 20, 512)]),
            Ok(()),
            &|bytes| {
                bytes[4096..4096 + (1 << 20)].fill(0);
                bytes[2 << 20..][..512].fill(0);
            },
        );
        let zeros = CompositeAction::Fill { span: span(1 << 20, 100 << 10), pattern: vec![0; 512] };
        check(zeros, Ok(()), &|bytes| bytes[1 << 20..][..100 << 10].fill(0));
        let swap = |offset_bytes, expected| CompositeAction::CompareAndWrite {
            offset_bytes,
            expected,
            new: vec![9; 1024],
        };
        check(swap(512, vec![7; 1024]), Ok(()), &|bytes| bytes[512..1536].fill(9));
        check(swap(1024, vec![9; 1024]), miscompare(Some(512)), nothing);
        let or = CompositeAction::Or { offset_bytes: 512, bits: vec![6; 3 << 20] };
        check(or, Ok(()), &|bytes| bytes[512..512 + (3 << 20)].iter_mut().for_each(|byte| *byte |= 6));
    }

    #[test]
    fn what_is_unmapped_counts_for_little_beside_what_moves() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        File::create(&path).unwrap().set_len(64 << 30).unwrap();
        let store = FileStore::open_file(&path, OpenAs::default(), 512).unwrap();
        let span = ByteRange { offset_bytes: 0, len_bytes: 64 << 30 };
        let unmap = Composite { action: CompositeAction::Unmap(vec![span]), fua: false };
        let fill = Composite { action: CompositeAction::Fill { span, pattern: vec![7; 512] }, fua: false };
        assert_eq!((unmap.moved_bytes(), fill.moved_bytes()), (0, 64 << 30));
        assert_eq!((unmap.cost_bytes(&store, 0), fill.cost_bytes(&store, 0)), (64 << 10, 64 << 10));
        let (mut done_bytes, mut slices) = (0, 1);
        while !unmap.in_store(&store, &mut done_bytes).unwrap() {
            slices += 1;
        }
        assert_eq!(slices, (64 << 30) / RANGE_SLICE_BYTES);
    }
}
