//! READ, WRITE, WRITE AND VERIFY, PRE-FETCH and SYNCHRONIZE CACHE in all their forms: SBC-4 sections 5.10–5.17,
//! 5.33, 5.34, 5.39–5.46.
//!
//! Commands are only checked here: an accepted range lies within the LUN and can be transferred as it is.

use block::{ByteRange, TRANSFER_MAX_BYTES};
use wire::scsi::{BlockForm, Sense};

use super::outcome::{Outcome, Transfer};
use crate::lun::Lun;

/// Blocks that a command names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    pub(super) form: BlockForm,
    pub(super) lba: u64,
    pub(super) blocks: u32,
}

pub(super) fn read(lun: &Lun, range: Blocks, fua: bool) -> Result<Outcome, Sense> {
    let span = checked(lun, range)?;
    let fua = fua && lun.backend().has_write_cache();
    Ok(transfer(span, fua).map_or(Outcome::Good, Outcome::Read))
}

pub(super) fn write(lun: &Lun, range: Blocks, fua: bool) -> Result<Outcome, Sense> {
    let span = checked(lun, range)?;
    refuse_if_protected(lun)?;
    Ok(transfer(span, must_reach_medium(lun, fua)).map_or(Outcome::Good, Outcome::Write))
}

/// Executes PRE-FETCH without reading ahead: the kernel manages the page cache of a file, and memory needs no cache.
/// CONDITION MET reports that there was room.
pub(super) fn pre_fetch(lun: &Lun, range: Blocks) -> Result<Outcome, Sense> {
    within(lun, range)?;
    Ok(Outcome::ConditionMet)
}

/// Executes SYNCHRONIZE CACHE: checks the range, but syncs the whole store, since stores keep no list of dirty blocks.
/// IMMED is ignored: the status follows the sync.
pub(super) fn synchronize(lun: &Lun, range: Blocks) -> Result<Outcome, Sense> {
    within(lun, range)?;
    Ok(flush(lun))
}

/// Makes everything written so far durable.
pub(super) fn flush(lun: &Lun) -> Outcome {
    if lun.backend().has_write_cache() { Outcome::Sync } else { Outcome::Good }
}

/// Returns true if a write must reach the medium before its status: FUA, or a write cache that an initiator has
/// switched off.
pub(super) fn must_reach_medium(lun: &Lun, fua: bool) -> bool {
    fua && lun.backend().has_write_cache() || lun.writes_through()
}

/// For everything that changes blocks.
pub(super) fn refuse_if_protected(lun: &Lun) -> Result<(), Sense> {
    if lun.is_read_only() { Err(Sense::WRITE_PROTECTED) } else { Ok(()) }
}

/// The bytes of a range of blocks that may be moved at once; the range may be empty.
pub(super) fn checked(lun: &Lun, range: Blocks) -> Result<ByteRange, Sense> {
    within(lun, range)?;
    let block_len_bytes = lun.block_len_bytes();
    if range.blocks > TRANSFER_MAX_BYTES / block_len_bytes {
        return Err(Sense::invalid_field(range.form.blocks_byte(), None));
    }
    Ok(ByteRange {
        offset_bytes: range.lba * u64::from(block_len_bytes),
        len_bytes: u64::from(range.blocks * block_len_bytes),
    })
}

fn transfer(span: ByteRange, fua: bool) -> Option<Transfer> {
    let (offset_bytes, len_bytes) = (span.offset_bytes, span.len_bytes as u32);
    (len_bytes > 0).then_some(Transfer { offset_bytes, len_bytes, fua })
}

/// Checks that a range of blocks lies within a LUN.
pub(super) fn within(lun: &Lun, range: Blocks) -> Result<(), Sense> {
    match range.lba.checked_add(u64::from(range.blocks)) {
        Some(end) if end <= lun.blocks() => Ok(()),
        _ => Err(Sense::LBA_OUT_OF_RANGE),
    }
}
