//! VERIFY, COMPARE AND WRITE and ORWRITE: SBC-4 sections 5.35–5.37, 5.3, 5.12.

use block::{Composite, CompositeAction};
use wire::scsi::{BlockForm, ByteCheck, Sense};

use super::outcome::{Outcome, whole};
use super::transfer::{Blocks, checked, must_reach_medium, refuse_if_protected};
use crate::lun::Lun;

/// Most blocks of a COMPARE AND WRITE: the range of its one-byte field.
pub(super) const COMPARE_AND_WRITE_MAX: u8 = 255;

/// Longest ORWRITE in bytes. ORWRITE is atomic for all readers, so a LUN in memory, and the loop, do nothing else
/// meanwhile.
const OR_WRITE_MAX_BYTES: u32 = 1 << 20;

pub(super) fn verify(
    lun: &Lun,
    range: Blocks,
    check: ByteCheck,
    data: Option<&[u8]>,
) -> Result<Outcome, Sense> {
    let span = checked(lun, range)?;
    let pattern_len = match check {
        _ if span.len_bytes == 0 => return Ok(Outcome::Good),
        ByteCheck::Nothing => {
            return Ok(Outcome::Composite(Composite { action: CompositeAction::Verify(span), fua: false }));
        }
        ByteCheck::Blocks => span.len_bytes as u32,
        ByteCheck::OneBlock => lun.block_len_bytes(),
    };
    let Some(pattern) = whole(data, pattern_len)? else {
        return Ok(Outcome::Parameters { len_bytes: pattern_len });
    };
    let action = CompositeAction::Compare { span, pattern: pattern.to_vec() };
    Ok(Outcome::Composite(Composite { action, fua: false }))
}

pub(super) fn compare_and_write(
    lun: &Lun,
    lba: u64,
    blocks: u8,
    fua: bool,
    data: Option<&[u8]>,
) -> Result<Outcome, Sense> {
    let span = checked(lun, Blocks { form: BlockForm::Sixteen, lba, blocks: blocks.into() })?;
    refuse_if_protected(lun)?;
    let len_bytes = 2 * span.len_bytes as u32;
    let Some(data) = whole(data, len_bytes)? else {
        return Ok(Outcome::Parameters { len_bytes });
    };
    if data.is_empty() {
        return Ok(Outcome::Good);
    }
    let (expected, new) = data.split_at(data.len() / 2);
    let (expected, new) = (expected.to_vec(), new.to_vec());
    let action = CompositeAction::CompareAndWrite { offset_bytes: span.offset_bytes, expected, new };
    Ok(Outcome::Composite(Composite { action, fua: must_reach_medium(lun, fua) }))
}

pub(super) fn or_write(lun: &Lun, range: Blocks, fua: bool, data: Option<&[u8]>) -> Result<Outcome, Sense> {
    let span = checked(lun, range)?;
    refuse_if_protected(lun)?;
    if span.len_bytes == 0 {
        return Ok(Outcome::Good);
    }
    if span.len_bytes > u64::from(OR_WRITE_MAX_BYTES) {
        return Err(Sense::invalid_field(range.form.blocks_byte(), None));
    }
    let len_bytes = span.len_bytes as u32;
    let Some(data) = whole(data, len_bytes)? else {
        return Ok(Outcome::Parameters { len_bytes });
    };
    let action = CompositeAction::Or { offset_bytes: span.offset_bytes, bits: data.to_vec() };
    Ok(Outcome::Composite(Composite { action, fua: must_reach_medium(lun, fua) }))
}
