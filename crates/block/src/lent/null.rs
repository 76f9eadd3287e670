//! Null device: reads return zeros, writes are discarded. For measurements without a store.
//!
//! It costs no more memory than the largest transfer, whatever its size.

use crate::store::TRANSFER_MAX_BYTES;

/// Zeros of any length.
#[derive(Debug)]
pub struct Null {
    len_bytes: u64,
    /// Never written, so the kernel maps no pages for it.
    zeros: Vec<u8>,
    /// Target of all writes, overwritten by each; only the length of one PDU is touched.
    sink: Vec<u8>,
}

impl Null {
    /// Null device of `len_bytes`.
    pub fn new(len_bytes: u64) -> Null {
        let transfer = len_bytes.min(u64::from(TRANSFER_MAX_BYTES)) as usize;
        Null { len_bytes, zeros: vec![0; transfer], sink: vec![0; transfer] }
    }

    /// Size in bytes.
    #[inline]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns `len_bytes` zeros; at most one transfer.
    #[inline]
    pub(super) fn zeros(&self, len_bytes: usize) -> &[u8] {
        &self.zeros[..len_bytes]
    }

    /// Returns the buffer for the next bytes of a PDU. Its earlier bytes stay valid until the next PDU.
    #[inline]
    pub(super) fn sink(&mut self, after_bytes: usize, len_bytes: usize) -> &mut [u8] {
        &mut self.sink[after_bytes..][..len_bytes]
    }
}
