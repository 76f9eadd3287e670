//! Work on a range of blocks that is more than moving bytes: comparing, filling, unmapping. Decided in the
//! files of the commands, carried out here a slice at a time, on the loop for a LUN in memory, and by a worker
//! for a store. Between two slices others have their turn, and a command that was aborted ends.

use super::failure::Failure;
use crate::backend::{BackendError, BlockStore, Inline};

/// Something to do that was checked completely: every range lies within its LUN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// What.
    pub action: Action,
    /// Sync after it: the medium is meant, not a cache. Never set for a LUN without a write cache.
    pub fua: bool,
}

/// What to do. Places and lengths are in bytes of the LUN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Read and forget.
    Verify(Span),
    /// Compare with `pattern`, again and again; the span is a multiple of it.
    Compare {
        /// Where.
        span: Span,
        /// What should be there.
        pattern: Vec<u8>,
    },
    /// Write `pattern` again and again; the span is a multiple of it.
    Fill {
        /// Where.
        span: Span,
        /// What to write.
        pattern: Vec<u8>,
    },
    /// Make these read as zeros, and give back what they occupy.
    Unmap(Vec<Span>),
    /// Set the bits that are set in `bits`, as one step for all who look.
    Or {
        /// The first byte.
        offset_bytes: u64,
        /// What to add.
        bits: Vec<u8>,
    },
    /// Write `new` if `expected` is there, as one step for all who look. Both have the same length.
    CompareAndWrite {
        /// The first byte.
        offset_bytes: u64,
        /// What should be there.
        expected: Vec<u8>,
        /// What to put there.
        new: Vec<u8>,
    },
}

/// A stretch of a LUN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// First byte.
    pub offset_bytes: u64,
    /// Length.
    pub len_bytes: u64,
}

/// Bytes that are read or written at a time.
const PIECE_BYTES: usize = 1 << 20;
/// What is done in memory before others get their turn: 32 MiB at once would be ten milliseconds when its
/// pages are touched for the first time. A multiple of every block length.
const SLICE_BYTES: u64 = 256 << 10;
/// A slice that is one call for a store, whatever its length, and the boundary that the slice of an UNMAP ends at: a
/// thin pool frees whole extents, and a file system that has to free all blocks of one needs a millisecond or so.
const RANGE_SLICE_BYTES: u64 = 16 << 20;
/// A store frees so many bytes in the time in which it moves one. Without it an UNMAP beside bulk reads would take as
/// long as reading all of its range.
const FREED_PER_MOVED: u64 = 256;

impl Order {
    /// Whether no write may come in between.
    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(self.action, Action::CompareAndWrite { .. } | Action::Or { .. })
    }

    /// Whether it only looks.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.action, Action::Verify(_) | Action::Compare { .. })
    }

    /// Whether it takes more than a slice.
    pub(crate) fn is_long(&self) -> bool {
        self.len_bytes() > SLICE_BYTES
    }

    /// Bytes of the LUN that it looks at or changes.
    pub(crate) fn len_bytes(&self) -> u64 {
        match &self.action {
            Action::Verify(span) | Action::Compare { span, .. } | Action::Fill { span, .. } => span.len_bytes,
            Action::Unmap(spans) => spans.iter().map(|span| span.len_bytes).sum(),
            Action::Or { bits, .. } => bits.len() as u64,
            Action::CompareAndWrite { new, .. } => new.len() as u64,
        }
    }

    /// Bytes that move for it: an UNMAP moves none.
    pub(crate) fn moved_bytes(&self) -> u64 {
        if matches!(self.action, Action::Unmap(_)) { 0 } else { self.len_bytes() }
    }

    /// Cost of the slice after `done_bytes` to the other users of a store, in bytes moved.
    pub(crate) fn cost_bytes(&self, store: &dyn BlockStore, done_bytes: u64) -> u64 {
        let left_bytes = self.len_bytes() - done_bytes;
        match self.action {
            _ if self.is_exclusive() => left_bytes,
            Action::Unmap(_) if store.makes_zeros() => left_bytes.min(RANGE_SLICE_BYTES) / FREED_PER_MOVED,
            _ => left_bytes.min(Medium::slice_bytes(&store, &self.action)),
        }
    }

    /// Carries out a slice of it in a LUN that is served inline, from `done_bytes` on, which it advances; `true` when
    /// nothing is left to do. What is one step for all who look is one slice.
    pub(crate) fn inline(&self, inline: &mut Inline, done_bytes: &mut u64) -> Result<bool, Failure> {
        let has_nothing_to_do = match (&self.action, &*inline) {
            // Memory can always be read.
            (Action::Verify(_), _) => true,
            (Action::Fill { .. } | Action::Unmap(_), Inline::Null(_)) => true,
            _ => false,
        };
        if has_nothing_to_do {
            *done_bytes = self.len_bytes();
            return Ok(true);
        }
        self.step(inline, done_bytes)
    }

    /// The same in a store; may block.
    pub(crate) fn in_store(&self, mut store: &dyn BlockStore, done_bytes: &mut u64) -> Result<bool, Failure> {
        self.step(&mut store, done_bytes)
    }

    fn step(&self, medium: &mut impl Medium, done_bytes: &mut u64) -> Result<bool, Failure> {
        let (begin_bytes, total_bytes) = (*done_bytes, self.len_bytes());
        let most_bytes = medium.slice_bytes(&self.action);
        *done_bytes = match &self.action {
            Action::Unmap(spans) => {
                let mut done_bytes = begin_bytes;
                for Span { offset_bytes, len_bytes } in slice_of_many(spans, begin_bytes, most_bytes) {
                    medium.zero(offset_bytes, len_bytes).map_err(Failure::Write)?;
                    done_bytes += len_bytes;
                }
                done_bytes
            }
            _ if self.is_exclusive() => total_bytes,
            _ => total_bytes.min(begin_bytes + most_bytes),
        };
        let len_bytes = *done_bytes - begin_bytes;
        match &self.action {
            Action::Unmap(_) => {}
            Action::Verify(span) => {
                let (span, _) = slice(*span, &[], begin_bytes, len_bytes);
                medium.pieces(span, PIECE_BYTES, |_, _| Ok(()))?;
            }
            Action::Compare { span, pattern } => {
                let (span, pattern) = slice(*span, pattern, begin_bytes, len_bytes);
                compare(medium, span, pattern)?;
            }
            Action::Fill { span, pattern } => {
                let (span, pattern) = slice(*span, pattern, begin_bytes, len_bytes);
                fill(medium, span, pattern)?;
            }
            Action::Or { offset_bytes, bits } => {
                let span = Span { offset_bytes: *offset_bytes, len_bytes };
                let mut new = bits.clone();
                medium.pieces(span, PIECE_BYTES, |at, found| {
                    new[at as usize..].iter_mut().zip(found).for_each(|(new, found)| *new |= found);
                    Ok(())
                })?;
                medium.write(*offset_bytes, &new).map_err(Failure::Write)?;
            }
            Action::CompareAndWrite { offset_bytes, expected, new } => {
                let span = Span { offset_bytes: *offset_bytes, len_bytes };
                medium.pieces(span, expected.len(), |_, found| {
                    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
                        None => Ok(()),
                        Some(at) => Err(Failure::Miscompare { offset_bytes: Some(at as u64) }),
                    }
                })?;
                medium.write(*offset_bytes, new).map_err(Failure::Write)?;
            }
        }
        let is_all = *done_bytes == total_bytes;
        if is_all && self.fua {
            medium.sync().map_err(Failure::Write)?;
        }
        Ok(is_all)
    }
}

/// The slice of a span that begins after `done_bytes`, and what of the pattern belongs to it: blocks divide
/// a slice, and a pattern is either one block or as long as the span.
fn slice(span: Span, pattern: &[u8], done_bytes: u64, len_bytes: u64) -> (Span, &[u8]) {
    let pattern = match pattern.len() as u64 > len_bytes {
        true => &pattern[done_bytes as usize..][..len_bytes as usize],
        false => pattern,
    };
    (Span { offset_bytes: span.offset_bytes + done_bytes, len_bytes }, pattern)
}

/// The slice of an UNMAP that begins after `skip_bytes`: `most_bytes` at most. It ends where a span ends, or at a multiple
/// of `most_bytes`, since a file system frees no block of which it is given a part at a time.
fn slice_of_many(spans: &[Span], mut skip_bytes: u64, most_bytes: u64) -> Vec<Span> {
    let (mut slice, mut done_bytes) = (Vec::new(), 0);
    for span in spans {
        let skipped = skip_bytes.min(span.len_bytes);
        skip_bytes -= skipped;
        let (offset_bytes, left_bytes) = (span.offset_bytes + skipped, span.len_bytes - skipped);
        let mut len_bytes = left_bytes.min(most_bytes - done_bytes);
        if len_bytes < left_bytes {
            let end_bytes = offset_bytes + len_bytes;
            len_bytes = (end_bytes - end_bytes % most_bytes).saturating_sub(offset_bytes);
        }
        if len_bytes > 0 {
            slice.push(Span { offset_bytes, len_bytes });
            done_bytes += len_bytes;
        }
        if len_bytes < left_bytes {
            break;
        }
    }
    slice
}

fn compare(medium: &mut impl Medium, span: Span, pattern: &[u8]) -> Result<(), Failure> {
    // Every piece begins with the pattern.
    let piece_bytes = PIECE_BYTES / pattern.len().min(PIECE_BYTES) * pattern.len();
    medium.pieces(span, piece_bytes, |_, found| {
        match found.chunks(pattern.len()).all(|chunk| *chunk == pattern[..chunk.len()]) {
            true => Ok(()),
            false => Err(Failure::Miscompare { offset_bytes: None }),
        }
    })
}

fn fill(medium: &mut impl Medium, span: Span, pattern: &[u8]) -> Result<(), Failure> {
    if is_zeros(pattern) {
        return medium.write_zeros(span.offset_bytes, span.len_bytes).map_err(Failure::Write);
    }
    let len_bytes = span.len_bytes.min((PIECE_BYTES / pattern.len()).max(1) as u64 * pattern.len() as u64);
    let piece = pattern.repeat(len_bytes as usize / pattern.len());
    let mut done_bytes = 0;
    while done_bytes < span.len_bytes {
        let len = (span.len_bytes - done_bytes).min(piece.len() as u64);
        medium.write(span.offset_bytes + done_bytes, &piece[..len as usize]).map_err(Failure::Write)?;
        done_bytes += len;
    }
    Ok(())
}

fn is_zeros(pattern: &[u8]) -> bool {
    pattern.iter().all(|&byte| byte == 0)
}

/// What an order is carried out in.
trait Medium {
    /// The most that is done of an action before others have their turn: a multiple of every block length.
    fn slice_bytes(&self, action: &Action) -> u64;
    /// Looks at `span` in pieces of `piece_bytes`; `look` is told where each begins in the span.
    fn pieces(
        &mut self,
        span: Span,
        piece_bytes: usize,
        look: impl FnMut(u64, &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure>;
    fn write(&mut self, offset_bytes: u64, from: &[u8]) -> Result<(), BackendError>;
    fn zero(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<(), BackendError>;
    /// Zeros that keep their space.
    fn write_zeros(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<(), BackendError>;
    fn sync(&mut self) -> Result<(), BackendError>;
}

impl Medium for Inline {
    fn slice_bytes(&self, _action: &Action) -> u64 {
        SLICE_BYTES
    }

    fn pieces(
        &mut self,
        span: Span,
        piece_bytes: usize,
        mut look: impl FnMut(u64, &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut done_bytes = 0;
        while done_bytes < span.len_bytes {
            let len_bytes = (span.len_bytes - done_bytes).min(piece_bytes as u64);
            look(done_bytes, self.bytes(span.offset_bytes + done_bytes, len_bytes as usize))?;
            done_bytes += len_bytes;
        }
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, from: &[u8]) -> Result<(), BackendError> {
        self.space(offset_bytes, 0, from.len()).copy_from_slice(from);
        Ok(())
    }

    fn zero(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<(), BackendError> {
        Inline::zero(self, offset_bytes, len_bytes);
        Ok(())
    }

    fn write_zeros(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<(), BackendError> {
        Medium::zero(self, offset_bytes, len_bytes)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

impl Medium for &dyn BlockStore {
    fn slice_bytes(&self, action: &Action) -> u64 {
        let is_of_zeros = match action {
            Action::Unmap(_) => true,
            Action::Fill { pattern, .. } => is_zeros(pattern),
            _ => false,
        };
        match is_of_zeros && self.makes_zeros() {
            true => RANGE_SLICE_BYTES,
            false => self.piece_bytes().min(PIECE_BYTES) as u64,
        }
    }

    fn pieces(
        &mut self,
        span: Span,
        piece_bytes: usize,
        mut look: impl FnMut(u64, &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut buffer = vec![0; (span.len_bytes as usize).min(piece_bytes)];
        let mut done_bytes = 0;
        while done_bytes < span.len_bytes {
            let len = (span.len_bytes - done_bytes).min(buffer.len() as u64);
            let piece = &mut buffer[..len as usize];
            self.read_at(span.offset_bytes + done_bytes, piece).map_err(Failure::Read)?;
            look(done_bytes, piece)?;
            done_bytes += len;
        }
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, from: &[u8]) -> Result<(), BackendError> {
        self.write_at(offset_bytes, from)
    }

    fn zero(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<(), BackendError> {
        self.zero_at(offset_bytes, len_bytes)
    }

    fn write_zeros(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<(), BackendError> {
        self.write_zeros_at(offset_bytes, len_bytes)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        BlockStore::sync(*self)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::backend::{Disk, Memory, OpenAs};

    const LEN_BYTES: u64 = 4 << 20;

    /// The same orders, one after the other, in memory and in a file: what comes of each, and the bytes then.
    #[test]
    fn memory_and_files_do_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        File::create(&path).unwrap().set_len(LEN_BYTES).unwrap();
        let store = Disk::open_file(&path, OpenAs::default(), 512).unwrap();
        let mut memory = Inline::Memory(Memory::zeroed(LEN_BYTES).unwrap());
        let span = |offset_bytes, len_bytes| Span { offset_bytes, len_bytes };
        let miscompare = |offset_bytes| Err(Failure::Miscompare { offset_bytes });
        let mut expected = vec![0u8; LEN_BYTES as usize];
        let mut check = |action, result: Result<(), Failure>, change: &dyn Fn(&mut [u8])| {
            let order = Order { action, fua: true };
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
        let fill = Action::Fill { span: span(512, 3 << 20), pattern: block.clone() };
        check(fill, Ok(()), &|bytes| bytes[512..512 + (3 << 20)].fill(7));
        check(Action::Verify(span(0, LEN_BYTES)), Ok(()), nothing);
        check(Action::Compare { span: span(512, 3 << 20), pattern: block.clone() }, Ok(()), nothing);
        check(Action::Compare { span: span(0, 1024), pattern: block.clone() }, miscompare(None), nothing);
        check(Action::Compare { span: span(512, 2 << 20), pattern: vec![7; 2 << 20] }, Ok(()), nothing);
        let late = Action::Compare {
            span: span(512, 3 << 20),
            pattern: [&[7; 2 << 20][..], &[8; 1 << 20]].concat(),
        };
        check(late, miscompare(None), nothing);
        check(Action::Unmap(vec![span(4096, 1 << 20), span(0, 0), span(2 << 20, 512)]), Ok(()), &|bytes| {
            bytes[4096..4096 + (1 << 20)].fill(0);
            bytes[2 << 20..][..512].fill(0);
        });
        let zeros = Action::Fill { span: span(1 << 20, 100 << 10), pattern: vec![0; 512] };
        check(zeros, Ok(()), &|bytes| bytes[1 << 20..][..100 << 10].fill(0));
        let swap =
            |offset_bytes, expected| Action::CompareAndWrite { offset_bytes, expected, new: vec![9; 1024] };
        check(swap(512, vec![7; 1024]), Ok(()), &|bytes| bytes[512..1536].fill(9));
        check(swap(1024, vec![9; 1024]), miscompare(Some(512)), nothing);
        let or = Action::Or { offset_bytes: 512, bits: vec![6; 3 << 20] };
        check(or, Ok(()), &|bytes| bytes[512..512 + (3 << 20)].iter_mut().for_each(|byte| *byte |= 6));
    }

    #[test]
    fn slices_of_an_unmap_end_at_boundaries_of_the_lun() {
        let span = |(from, to)| Span { offset_bytes: from, len_bytes: to - from };
        let spans = [(30, 320), (400, 405), (1000, 1100), (1290, 1310)].map(span);
        let mut done_bytes = 0;
        for expected in [
            &[(30, 100)][..],
            &[(100, 200)],
            &[(200, 300)],
            &[(300, 320), (400, 405)],
            &[(1000, 1100)],
            &[(1290, 1310)],
            &[],
        ] {
            let slice = slice_of_many(&spans, done_bytes, 100);
            assert_eq!(slice, expected.iter().copied().map(span).collect::<Vec<_>>(), "after {done_bytes}");
            done_bytes += slice.iter().map(|span| span.len_bytes).sum::<u64>();
        }
    }

    #[test]
    fn what_is_unmapped_counts_for_little_beside_what_moves() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        File::create(&path).unwrap().set_len(64 << 30).unwrap();
        let store = Disk::open_file(&path, OpenAs::default(), 512).unwrap();
        let span = Span { offset_bytes: 0, len_bytes: 64 << 30 };
        let unmap = Order { action: Action::Unmap(vec![span]), fua: false };
        let fill = Order { action: Action::Fill { span, pattern: vec![7; 512] }, fua: false };
        assert_eq!((unmap.moved_bytes(), fill.moved_bytes()), (0, 64 << 30));
        assert_eq!((unmap.cost_bytes(&store, 0), fill.cost_bytes(&store, 0)), (64 << 10, 64 << 10));
        let (mut done_bytes, mut slices) = (0, 1);
        while !unmap.in_store(&store, &mut done_bytes).unwrap() {
            slices += 1;
        }
        assert_eq!(slices, (64 << 30) / RANGE_SLICE_BYTES);
    }
}
