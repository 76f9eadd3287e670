//! A LUN of nothing: reads give zeros, writes are forgotten. For measuring everything but a store.
//!
//! It costs no more memory than the largest transfer, whatever its size.

use crate::scsi::TRANSFER_MAX_BYTES;

/// Zeros of any length.
#[derive(Debug)]
pub struct Null {
    len_bytes: u64,
    /// Never written, so the system need not find memory for it.
    zeros: Vec<u8>,
    /// Where writes land, one over the other; of it only as much is touched as one PDU brings.
    sink: Vec<u8>,
}

impl Null {
    /// So many zeros.
    pub fn new(len_bytes: u64) -> Null {
        let transfer = len_bytes.min(u64::from(TRANSFER_MAX_BYTES)) as usize;
        Null { len_bytes, zeros: vec![0; transfer], sink: vec![0; transfer] }
    }

    /// Size in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// So many bytes, at most a transfer.
    pub(super) fn zeros(&self, len_bytes: usize) -> &[u8] {
        &self.zeros[..len_bytes]
    }

    /// Space for bytes that follow others of the same PDU, which stay as they are until the next.
    pub(super) fn sink(&mut self, after_bytes: usize, len_bytes: usize) -> &mut [u8] {
        &mut self.sink[after_bytes..][..len_bytes]
    }
}
