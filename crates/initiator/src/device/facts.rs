//! Facts of a LUN for the profile of a device: VPD pages, READ CAPACITY (16), mode parameters.

use wire::scsi::{BlockLimits, Capacity16, Cdb, ModeForm, ModeParameters, VpdPage, page};

use crate::disk::{ALL_PAGES, Disk, UnmapLimits, ask, ask_mode, inquire, optional};
use crate::error::Error;
use crate::session::lun::identity::CAPACITY16_BYTES;

/// Facts of a LUN that the device announces.
pub(super) struct Facts {
    pub(super) unmap: Option<UnmapLimits>,
    pub(super) unmapped_reads_zero: bool,
    /// MAXIMUM WRITE SAME LENGTH; 0 if unknown.
    pub(super) write_same_max_blocks: u64,
    pub(super) physical_block_bytes: u32,
    /// OPTIMAL TRANSFER LENGTH GRANULARITY.
    pub(super) optimal_blocks: u16,
    pub(super) is_write_protected: bool,
    pub(super) has_write_cache: bool,
    pub(super) has_fua: bool,
}

/// Reads the facts that a device announces beyond its size. A fact that is not reported gets its least favorable value.
pub(super) fn facts(disk: &mut Disk) -> Result<Facts, Error> {
    let unmap = disk.unmap_limits()?;
    let limits = optional(inquire(disk.client(), Some(page::BLOCK_LIMITS)))?;
    let limits = limits.and_then(|data| BlockLimits::parse(&data).ok()).unwrap_or_default();
    let len = CAPACITY16_BYTES;
    let cdb = Cdb::ReadCapacity16 { allocation_len: len as u32 };
    let capacity = optional(ask(disk.client(), cdb, len, "READ CAPACITY (16)"))?;
    let capacity = capacity.and_then(|data| Capacity16::parse(&data).ok()).unwrap_or_default();
    let mode = optional(ask_mode(disk.client(), ALL_PAGES))?;
    let parsed = mode.as_deref().and_then(|data| ModeParameters::parse(ModeForm::Six, data).ok());
    let is_protected =
        mode.as_deref().and_then(|data| ModeParameters::is_write_protected(ModeForm::Six, data));
    let has_form_16 = disk.has_form_16();
    Ok(Facts {
        unmap,
        unmapped_reads_zero: capacity.unmapped_reads_zero,
        write_same_max_blocks: if has_form_16 { limits.write_same_max } else { 0 },
        physical_block_bytes: disk.block_len_bytes() << capacity.physical_block_exponent,
        optimal_blocks: limits.granularity,
        is_write_protected: is_protected.unwrap_or(false),
        has_write_cache: parsed.as_ref().and_then(ModeParameters::write_cache).unwrap_or(true),
        has_fua: parsed.is_some_and(|mode| mode.dpo_fua),
    })
}
