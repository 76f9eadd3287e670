//! READ, WRITE and SYNCHRONIZE CACHE, of ten and of sixteen bytes: SBC-4 sections 5.15–5.17, 5.33, 5.34,
//! 5.40, 5.42.
//!
//! They are only judged here: what passes lies within the LUN and can be carried out as it is.

use wire::scsi::{BlockForm, Sense};

use super::{Outcome, Transfer};
use crate::lun::Lun;

/// The longest transfer of one command (MAXIMUM TRANSFER LENGTH of the block limits page). A bound on what
/// one command can make the target promise, and above any size at which a long line gains from more.
pub const TRANSFER_MAX_BYTES: u32 = 32 << 20;

pub(super) fn read(lun: &Lun, form: BlockForm, lba: u64, blocks: u32, fua: bool) -> Result<Outcome, Sense> {
    let transfer = checked(lun, form, lba, blocks, fua)?;
    Ok(transfer.map_or(Outcome::Good, Outcome::Read))
}

pub(super) fn write(lun: &Lun, form: BlockForm, lba: u64, blocks: u32, fua: bool) -> Result<Outcome, Sense> {
    let transfer = checked(lun, form, lba, blocks, fua)?;
    if lun.is_read_only() {
        return Err(Sense::WRITE_PROTECTED);
    }
    Ok(transfer.map_or(Outcome::Good, Outcome::Write))
}

/// The range is checked, but the whole store is synced: stores keep no list of what is dirty. IMMED is not
/// used: the status comes when it is true.
pub(super) fn synchronize(lun: &Lun, lba: u64, blocks: u32) -> Result<Outcome, Sense> {
    within(lun, lba, blocks)?;
    Ok(if lun.backend().has_write_cache() { Outcome::Sync } else { Outcome::Good })
}

/// The bytes of a range of blocks; none for a range of no blocks, which is valid.
fn checked(lun: &Lun, form: BlockForm, lba: u64, blocks: u32, fua: bool) -> Result<Option<Transfer>, Sense> {
    within(lun, lba, blocks)?;
    let block_len_bytes = lun.block_len_bytes();
    if blocks > TRANSFER_MAX_BYTES / block_len_bytes {
        let transfer_length_byte = match form {
            BlockForm::Ten => 7,
            BlockForm::Sixteen => 10,
        };
        return Err(Sense::invalid_field(transfer_length_byte, None));
    }
    Ok((blocks > 0).then(|| Transfer {
        offset_bytes: lba * u64::from(block_len_bytes),
        len_bytes: blocks * block_len_bytes,
        fua: fua && lun.backend().has_write_cache(),
    }))
}

/// Whether a range of blocks lies within a LUN.
fn within(lun: &Lun, lba: u64, blocks: u32) -> Result<(), Sense> {
    match lba.checked_add(u64::from(blocks)) {
        Some(end) if end <= lun.blocks() => Ok(()),
        _ => Err(Sense::LBA_OUT_OF_RANGE),
    }
}
