//! Limits of UNMAP: the range of one command.

/// Maximum UNMAP, 64 GiB: 1 TiB takes 16. A target without a limit may take longer than any timeout for the whole LUN.
const UNMAP_MAX_BYTES: u64 = 64 << 30;

/// Blocks of the longest UNMAP, for a target with this MAXIMUM UNMAP LBA COUNT.
pub(super) fn blocks_of_unmap(unmap_max: u32, block_len_bytes: u32) -> u32 {
    let ours = UNMAP_MAX_BYTES / u64::from(block_len_bytes.max(1));
    unmap_max.min(u32::try_from(ours).unwrap_or(u32::MAX))
}

/// Limits of UNMAP: SBC-4 section 6.6.4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnmapLimits {
    /// Length of a block.
    pub block_len_bytes: u32,
    /// MAXIMUM UNMAP LBA COUNT.
    pub blocks_max: u32,
    /// OPTIMAL UNMAP GRANULARITY, 1 at least.
    pub granularity_blocks: u32,
    /// UNMAP GRANULARITY ALIGNMENT.
    pub alignment_blocks: u32,
}

impl UnmapLimits {
    /// Maximum bytes of a command.
    pub fn max_bytes(self) -> u64 {
        u64::from(self.blocks_max) * u64::from(self.block_len_bytes)
    }

    /// Blocks of the command that starts at `lba`, in a range that ends before `end_lba`. Every command but the last
    /// ends at a boundary of the granularity if it reaches one.
    pub(crate) fn blocks_at(self, lba: u64, end_lba: u64) -> u32 {
        let most = u64::from(self.blocks_max);
        let left = end_lba - lba;
        if left <= most {
            return left as u32;
        }
        let granularity = u64::from(self.granularity_blocks);
        let alignment = u64::from(self.alignment_blocks) % granularity;
        let beyond = (lba + most + granularity - alignment) % granularity;
        if beyond < most { (most - beyond) as u32 } else { self.blocks_max }
    }
}
