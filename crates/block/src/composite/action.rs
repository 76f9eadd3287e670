//! Kinds of operation, and the ranges that they concern.

/// An operation of several reads and writes. Its ranges lie within the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Composite {
    /// Operation.
    pub action: CompositeAction,
    /// Flush after it. Never set for a device without a write cache.
    pub fua: bool,
}

/// Kind of operation, with offsets and lengths in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CompositeAction {
    /// Read and forget.
    Verify(ByteRange),
    /// Compare with `pattern`: a block that is everywhere, or as many bytes as the span has.
    Compare {
        /// Range to look at or to change.
        span: ByteRange,
        /// Expected bytes.
        pattern: Vec<u8>,
    },
    /// Write `pattern`, a block, everywhere. Zeros keep their space.
    Fill {
        /// Range to look at or to change.
        span: ByteRange,
        /// Bytes to write.
        pattern: Vec<u8>,
    },
    /// Give back the space of these. They read as zeros where the profile of the device says so; to be sure of zeros
    /// elsewhere, fill them.
    Unmap(Vec<ByteRange>),
    /// Set the bits that are set in `bits`, atomically.
    Or {
        /// The first byte.
        offset_bytes: u64,
        /// Bits to set.
        bits: Vec<u8>,
    },
    /// Write `new` if `expected` is there, atomically. Both have the same length.
    CompareAndWrite {
        /// The first byte.
        offset_bytes: u64,
        /// Expected bytes.
        expected: Vec<u8>,
        /// Bytes to write.
        new: Vec<u8>,
    },
}

/// A range of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteRange {
    /// First byte.
    pub offset_bytes: u64,
    /// Length.
    pub len_bytes: u64,
}

/// Bytes that are read or written at a time.
pub(super) const PIECE_BYTES: usize = 1 << 20;

impl CompositeAction {
    /// Returns true if it changes nothing.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, CompositeAction::Verify(_) | CompositeAction::Compare { .. })
    }
}

/// Returns true if a pattern is zeros.
pub(super) fn is_zeros(pattern: &[u8]) -> bool {
    pattern.iter().all(|&byte| byte == 0)
}
