//! Block limits VPD page B0h: SBC-4 section 6.6.4.
//!
//! Atomic writes and the write-same and unmap details beyond the maxima are not reported.

use super::DataError;
use super::vpd::{VpdPage, page};
use crate::be;

/// Bytes behind the page header since SBC-3; SBC-2 had 12.
const BODY_LEN: usize = 60;

/// Transfer sizes that suit a logical unit. Lengths are in logical blocks; 0 means not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockLimits {
    /// WSNZ: a WRITE SAME of 0 blocks is refused.
    pub write_same_non_zero: bool,
    /// Most blocks of a COMPARE AND WRITE.
    pub compare_and_write_max: u8,
    /// OPTIMAL TRANSFER LENGTH GRANULARITY.
    pub granularity: u16,
    /// MAXIMUM TRANSFER LENGTH.
    pub transfer_max: u32,
    /// OPTIMAL TRANSFER LENGTH.
    pub transfer_optimal: u32,
    /// MAXIMUM PREFETCH LENGTH.
    pub prefetch_max: u32,
    /// MAXIMUM UNMAP LBA COUNT.
    pub unmap_max: u32,
    /// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT.
    pub unmap_descriptors_max: u32,
    /// OPTIMAL UNMAP GRANULARITY.
    pub unmap_granularity: u32,
    /// UNMAP GRANULARITY ALIGNMENT, 31 bits, if UGAVALID.
    pub unmap_alignment: Option<u32>,
    /// MAXIMUM WRITE SAME LENGTH.
    pub write_same_max: u64,
}

impl VpdPage for BlockLimits {
    const CODE: u8 = page::BLOCK_LIMITS;

    fn emit_body(&self, bytes: &mut Vec<u8>) {
        let mut body = [0; BODY_LEN];
        body[0] = u8::from(self.write_same_non_zero);
        body[1] = self.compare_and_write_max;
        be::put_u16(&mut body, 2, self.granularity);
        be::put_u32(&mut body, 4, self.transfer_max);
        be::put_u32(&mut body, 8, self.transfer_optimal);
        be::put_u32(&mut body, 12, self.prefetch_max);
        be::put_u32(&mut body, 16, self.unmap_max);
        be::put_u32(&mut body, 20, self.unmap_descriptors_max);
        be::put_u32(&mut body, 24, self.unmap_granularity);
        if let Some(alignment) = self.unmap_alignment {
            assert!(alignment < 1 << 31, "unmap granularity alignment {alignment}");
            be::put_u32(&mut body, 28, 1 << 31 | alignment);
        }
        be::put_u64(&mut body, 32, self.write_same_max);
        bytes.extend_from_slice(&body);
    }

    /// Fields behind the end of a page of an older standard are 0.
    fn parse_body(bytes: &[u8]) -> Result<Self, DataError> {
        let mut body = [0; BODY_LEN];
        let len = bytes.len().min(BODY_LEN);
        body[..len].copy_from_slice(&bytes[..len]);
        let alignment = be::u32_at(&body, 28);
        Ok(Self {
            write_same_non_zero: body[0] & 0x01 != 0,
            compare_and_write_max: body[1],
            granularity: be::u16_at(&body, 2),
            transfer_max: be::u32_at(&body, 4),
            transfer_optimal: be::u32_at(&body, 8),
            prefetch_max: be::u32_at(&body, 12),
            unmap_max: be::u32_at(&body, 16),
            unmap_descriptors_max: be::u32_at(&body, 20),
            unmap_granularity: be::u32_at(&body, 24),
            unmap_alignment: (alignment >> 31 != 0).then_some(alignment & !(1 << 31)),
            write_same_max: be::u64_at(&body, 32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scsi::check::{bytes, check};

    #[test]
    fn all_fields() {
        let limits = BlockLimits {
            write_same_non_zero: true,
            compare_and_write_max: 1,
            granularity: 8,
            transfer_max: 0x8000,
            transfer_optimal: 0x800,
            prefetch_max: 2,
            unmap_max: 0x10_0000,
            unmap_descriptors_max: 256,
            unmap_granularity: 8,
            unmap_alignment: Some(3),
            write_same_max: 1 << 32,
        };
        let first = "00b0003c 01 01 0008 00008000 00000800 00000002";
        let second = "00100000 00000100 00000008 80000003 0000000100000000";
        let hex = [first, second, &"00".repeat(20)].concat();
        check(&hex, &limits, BlockLimits::parse, BlockLimits::emit);
    }

    #[test]
    fn a_short_page_of_an_older_standard_has_zeros_behind() {
        let limits = BlockLimits::parse(&bytes("00b0000c 0000 0008 00008000 00000800"));
        let expected = BlockLimits {
            granularity: 8,
            transfer_max: 0x8000,
            transfer_optimal: 0x800,
            ..BlockLimits::default()
        };
        assert_eq!(limits, Ok(expected));
    }
}
