//! Facts of a LUN for the profile of a device: VPD pages, READ CAPACITY (16), mode parameters.

use wire::scsi::{
    BlockLimits, Capacity16, Cdb, LogicalBlockProvisioning, ModeForm, ModeParameters, VpdPage, page,
};

use crate::disk::{ALL_PAGES, Disk, UnmapLimits, ask, ask_mode, inquire, optional};
use crate::error::Error;
use crate::session::lun::identity::CAPACITY16_BYTES;

/// Facts of a LUN that the device announces.
pub(super) struct Facts {
    pub(super) unmap: Option<UnmapLimits>,
    /// WRITE SAME (16) with its UNMAP bit unmaps, and unmapped blocks read as zeros (LBPWS, LBPRZ).
    pub(super) unmaps_to_zeros: bool,
    /// MAXIMUM WRITE SAME LENGTH; 0 if unknown.
    pub(super) write_same_max_blocks: u64,
    pub(super) physical_block_bytes: u32,
    /// OPTIMAL TRANSFER LENGTH GRANULARITY.
    pub(super) optimal_blocks: u16,
    pub(super) is_write_protected: bool,
    /// WCE; `None` if it is not reported.
    pub(super) write_cache: Option<bool>,
    pub(super) has_fua: bool,
}

impl Facts {
    /// Returns true unless the target reports that it has no volatile cache.
    pub(super) fn has_write_cache(&self) -> bool {
        self.write_cache.unwrap_or(true)
    }
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
    let provisioning = optional(inquire(disk.client(), Some(page::LOGICAL_BLOCK_PROVISIONING)))?;
    let provisioning = provisioning.and_then(|data| LogicalBlockProvisioning::parse(&data).ok());
    let mode = optional(ask_mode(disk.client(), ALL_PAGES))?;
    let parsed = mode.as_deref().and_then(|data| ModeParameters::parse(ModeForm::Six, data).ok());
    let is_protected =
        mode.as_deref().and_then(|data| ModeParameters::is_write_protected(ModeForm::Six, data));
    let write_same_max_blocks = if disk.has_form_16() { limits.write_same_max } else { 0 };
    let unmaps_to_zeros = |page: LogicalBlockProvisioning| page.write_same_16 && page.reads_zero & 1 == 1;
    Ok(Facts {
        unmap,
        unmaps_to_zeros: write_same_max_blocks > 0 && provisioning.is_some_and(unmaps_to_zeros),
        write_same_max_blocks,
        physical_block_bytes: physical_bytes(disk.block_len_bytes(), capacity.physical_block_exponent),
        optimal_blocks: limits.granularity,
        is_write_protected: is_protected.unwrap_or(false),
        write_cache: parsed.as_ref().and_then(ModeParameters::write_cache),
        has_fua: parsed.is_some_and(|mode| mode.dpo_fua),
    })
}

/// Length of a physical block of 2 to the power of `exponent` logical ones; that of one if the target's number makes no
/// sense.
fn physical_bytes(block_bytes: u32, exponent: u8) -> u32 {
    let blocks = 1_u32.checked_shl(exponent.into());
    blocks.and_then(|blocks| blocks.checked_mul(block_bytes)).unwrap_or(block_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_physical_block_beyond_all_sizes_is_ignored() {
        assert_eq!(physical_bytes(512, 3), 4096);
        assert_eq!(physical_bytes(1 << 20, 11), 1 << 31);
        assert_eq!(physical_bytes(1 << 20, 12), 1 << 20);
        assert_eq!(physical_bytes(512, 255), 512);
    }
}
