//! WRITE SAME, UNMAP and GET LBA STATUS: SBC-4 sections 5.48, 5.49, 5.32, 5.9, 4.7.
//!
//! Every LUN is thin: memory takes pages when they are first written, files have holes. Unmapped blocks
//! read as zeros, always.

use block::{ByteRange, Composite, CompositeAction};
use wire::scsi::{BlockForm, LbaStatus, Sense, parse_unmap};

use super::outcome::{Outcome, whole};
use super::transfer::{Blocks, must_reach_medium, refuse_if_protected, within};
use crate::lun::Lun;

/// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT.
pub(super) const UNMAP_RANGES_MAX: u32 = 256;

/// Options of WRITE SAME; see `wire::scsi::Cdb::WriteSame`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Same {
    pub(super) unmap: bool,
    pub(super) no_data: bool,
}

/// Executes WRITE SAME. Only WRITE SAME (16) unmaps (LBPWS, not LBPWS10): initiators prefer it or UNMAP where both are
/// offered. Test suites expect WRITE SAME (10) to unmap whatever block was sent, while SBC-4 requires a write unless
/// unmapped blocks read back the same. A length of zero means all blocks to the end. Unmapped blocks read as zeros, so
/// a block of zeros is unmapped and any other is written.
pub(super) fn write_same(
    lun: &Lun,
    range: Blocks,
    same: Same,
    data: Option<&[u8]>,
) -> Result<Outcome, Sense> {
    refuse_if_protected(lun)?;
    if same.unmap && range.form == BlockForm::Ten {
        return Err(Sense::invalid_field(1, Some(3)));
    }
    within(lun, range)?;
    let blocks = match range.blocks {
        0 => u32::try_from(lun.blocks() - range.lba).unwrap_or(u32::MAX),
        blocks => blocks,
    };
    if blocks > range_max_blocks(lun) {
        return Err(Sense::invalid_field(range.form.blocks_byte(), None));
    }
    let span = span(lun, range.lba, blocks);
    let block_len = lun.block_len_bytes();
    let pattern = match same.no_data {
        true => vec![0; block_len as usize],
        false => match whole(data, block_len)? {
            Some(block) => block.to_vec(),
            None => return Ok(Outcome::Parameters { len_bytes: block_len }),
        },
    };
    if span.len_bytes == 0 {
        return Ok(Outcome::Good);
    }
    let action = match same.unmap && pattern.iter().all(|&byte| byte == 0) {
        true => CompositeAction::Unmap(vec![span]),
        false => CompositeAction::Fill { span, pattern },
    };
    Ok(Outcome::Composite(Composite { action, fua: must_reach_medium(lun, false) }))
}

/// All ranges are checked before the first is unmapped.
pub(super) fn unmap(lun: &Lun, list_len: u16, data: Option<&[u8]>) -> Result<Outcome, Sense> {
    refuse_if_protected(lun)?;
    if list_len == 0 {
        return Ok(Outcome::Good);
    }
    let Some(data) = whole(data, list_len.into())? else {
        return Ok(Outcome::Parameters { len_bytes: list_len.into() });
    };
    let ranges = parse_unmap(data).map_err(|_| Sense::PARAMETER_LIST_LENGTH)?;
    if ranges.len() > UNMAP_RANGES_MAX as usize {
        return Err(Sense::invalid_parameter(2, None));
    }
    let mut spans = Vec::new();
    let mut total_blocks = 0;
    for (range, n) in ranges.iter().zip(0u16..) {
        let wanted = Blocks { form: BlockForm::Sixteen, lba: range.lba, blocks: range.blocks };
        within(lun, wanted)?;
        total_blocks += u64::from(range.blocks);
        if total_blocks > u64::from(range_max_blocks(lun)) {
            return Err(Sense::invalid_parameter(8 + 16 * n + 8, None));
        }
        if range.blocks > 0 {
            spans.push(span(lun, range.lba, range.blocks));
        }
    }
    let order = Composite { action: CompositeAction::Unmap(spans), fua: must_reach_medium(lun, false) };
    Ok(Outcome::Composite(order))
}

/// MAXIMUM UNMAP LBA COUNT and MAXIMUM WRITE SAME LENGTH.
pub(super) fn range_max_blocks(lun: &Lun) -> u32 {
    (lun.backend().range_max_bytes() / u64::from(lun.block_len_bytes())) as u32
}

fn span(lun: &Lun, lba: u64, blocks: u32) -> ByteRange {
    let block_len_bytes = u64::from(lun.block_len_bytes());
    ByteRange { offset_bytes: lba * block_len_bytes, len_bytes: u64::from(blocks) * block_len_bytes }
}

/// GET LBA STATUS data. Stores do not report holes, so every block is reported as mapped, which SBC-4 permits for
/// unknown states.
pub(super) fn lba_status(lun: &Lun, lba: u64) -> Result<Vec<u8>, Sense> {
    if lba >= lun.blocks() {
        return Err(Sense::LBA_OUT_OF_RANGE);
    }
    let blocks = u32::try_from(lun.blocks() - lba).unwrap_or(u32::MAX);
    Ok(LbaStatus::emit_all(&[LbaStatus { lba, blocks, provisioning: 0 }]))
}
