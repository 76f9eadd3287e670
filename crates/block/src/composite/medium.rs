//! Access of an operation to a device.

use super::action::{ByteRange, CompositeAction, PIECE_BYTES, is_zeros};
use crate::error::{BlockError, OperationError};
use crate::lent::Lent;
use crate::store::BlockingStore;

/// Longest slice in memory before others have their turn: 32 MiB at once would be ten milliseconds when its
/// pages are touched for the first time. A multiple of every block length.
pub(super) const SLICE_BYTES: u64 = 256 << 10;
/// A slice that is one call for a store, whatever its length, and the boundary that the slice of an UNMAP ends at: a
/// thin pool frees whole extents, and a file system that has to free all blocks of one needs a millisecond or so.
pub(super) const RANGE_SLICE_BYTES: u64 = 16 << 20;

/// A device as an operation sees it.
pub(super) trait Medium {
    /// The most that is done of an action before others have their turn: a multiple of every block length.
    fn slice_bytes(&self, action: &CompositeAction) -> u64;
    /// Looks at `span` in pieces of `piece_bytes`; `look` gets the offset of each within the span.
    fn pieces(
        &mut self,
        span: ByteRange,
        piece_bytes: usize,
        look: impl FnMut(u64, &[u8]) -> Result<(), OperationError>,
    ) -> Result<(), OperationError>;
    fn write(&mut self, offset_bytes: u64, from: &[u8]) -> Result<(), BlockError>;
    fn zero(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<(), BlockError>;
    /// Zeros that keep their space.
    fn write_zeros(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<(), BlockError>;
    fn sync(&mut self) -> Result<(), BlockError>;
}

impl Medium for Lent {
    fn slice_bytes(&self, _action: &CompositeAction) -> u64 {
        SLICE_BYTES
    }

    fn pieces(
        &mut self,
        span: ByteRange,
        piece_bytes: usize,
        mut look: impl FnMut(u64, &[u8]) -> Result<(), OperationError>,
    ) -> Result<(), OperationError> {
        let mut done_bytes = 0;
        while done_bytes < span.len_bytes {
            let len_bytes = (span.len_bytes - done_bytes).min(piece_bytes as u64);
            look(done_bytes, self.bytes(span.offset_bytes + done_bytes, len_bytes as usize))?;
            done_bytes += len_bytes;
        }
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, from: &[u8]) -> Result<(), BlockError> {
        self.space(offset_bytes, 0, from.len()).copy_from_slice(from);
        Ok(())
    }

    fn zero(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<(), BlockError> {
        Lent::zero(self, offset_bytes, len_bytes);
        Ok(())
    }

    fn write_zeros(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<(), BlockError> {
        Medium::zero(self, offset_bytes, len_bytes)
    }

    fn sync(&mut self) -> Result<(), BlockError> {
        Ok(())
    }
}

impl Medium for &dyn BlockingStore {
    fn slice_bytes(&self, action: &CompositeAction) -> u64 {
        let is_of_zeros = match action {
            CompositeAction::Unmap(_) => true,
            CompositeAction::Fill { pattern, .. } => is_zeros(pattern),
            _ => false,
        };
        match is_of_zeros && self.makes_zeros() {
            true => RANGE_SLICE_BYTES,
            false => self.piece_bytes().min(PIECE_BYTES) as u64,
        }
    }

    fn pieces(
        &mut self,
        span: ByteRange,
        piece_bytes: usize,
        mut look: impl FnMut(u64, &[u8]) -> Result<(), OperationError>,
    ) -> Result<(), OperationError> {
        let mut buffer = vec![0; (span.len_bytes as usize).min(piece_bytes)];
        let mut done_bytes = 0;
        while done_bytes < span.len_bytes {
            let len = (span.len_bytes - done_bytes).min(buffer.len() as u64);
            let piece = &mut buffer[..len as usize];
            self.read_at(span.offset_bytes + done_bytes, piece).map_err(OperationError::Read)?;
            look(done_bytes, piece)?;
            done_bytes += len;
        }
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, from: &[u8]) -> Result<(), BlockError> {
        self.write_at(offset_bytes, from)
    }

    fn zero(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<(), BlockError> {
        self.zero_at(offset_bytes, len_bytes)
    }

    fn write_zeros(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<(), BlockError> {
        self.write_zeros_at(offset_bytes, len_bytes)
    }

    fn sync(&mut self) -> Result<(), BlockError> {
        BlockingStore::sync(*self)
    }
}
