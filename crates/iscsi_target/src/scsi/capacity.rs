//! READ CAPACITY (10) and (16): SBC-4 sections 5.20 and 5.21.

use wire::scsi::{Capacity10, Capacity16};

use crate::backend::Backend;
use crate::lun::Lun;

/// Logical blocks per physical block, as a power of two. Only devices have physical blocks. A file has a granularity,
/// which the block limits page reports; smaller writes to a file are not unsafe.
pub(super) fn physical_block_exponent(lun: &Lun) -> u8 {
    match lun.backend() {
        Backend::Inline(_) => 0,
        Backend::Blocking(store) => {
            (store.physical_block_bytes() / lun.block_len_bytes()).max(1).ilog2() as u8
        }
    }
}

/// READ CAPACITY (10) data. A LUN beyond the range reports 2^32 − 1, which refers the initiator to READ CAPACITY (16).
pub(super) fn ten(lun: &Lun) -> Vec<u8> {
    let last_lba = u32::try_from(lun.blocks() - 1).unwrap_or(u32::MAX);
    Capacity10 { last_lba, block_len: lun.block_len_bytes() }.emit().to_vec()
}

/// Data of READ CAPACITY (16).
pub(super) fn sixteen(lun: &Lun) -> Vec<u8> {
    let capacity = Capacity16 {
        last_lba: lun.blocks() - 1,
        block_len: lun.block_len_bytes(),
        physical_block_exponent: physical_block_exponent(lun),
        thin: true,
        unmapped_reads_zero: true,
        ..Capacity16::default()
    };
    capacity.emit().to_vec()
}
