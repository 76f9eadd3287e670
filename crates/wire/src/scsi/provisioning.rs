//! Thin provisioning: the UNMAP parameter list, logical block provisioning VPD page, LBA status: SBC-4
//! sections 5.32.2, 6.6.7, 5.9.2.

use super::DataError;
use super::data::need;
use super::vpd::{VpdPage, page};
use crate::be;

/// Blocks that an initiator does not need any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnmapRange {
    /// First logical block.
    pub lba: u64,
    /// Number of blocks; 0 is allowed.
    pub blocks: u32,
}

const UNMAP: &str = "UNMAP parameter list";
const UNMAP_HEADER_LEN: usize = 8;
const UNMAP_DESCRIPTOR_LEN: usize = 16;

/// Reads an UNMAP parameter list. A partial descriptor at its end is ignored, as SBC-4 specifies.
///
/// # Errors
/// [`DataError::Truncated`] below a header, or if the list is shorter than its length field.
pub fn parse_unmap(bytes: &[u8]) -> Result<Vec<UnmapRange>, DataError> {
    need(UNMAP, bytes, UNMAP_HEADER_LEN)?;
    let len = usize::from(be::u16_at(bytes, 2));
    need(UNMAP, bytes, UNMAP_HEADER_LEN + len)?;
    let descriptors = bytes[UNMAP_HEADER_LEN..][..len].chunks_exact(UNMAP_DESCRIPTOR_LEN);
    Ok(descriptors.map(|d| UnmapRange { lba: be::u64_at(d, 0), blocks: be::u32_at(d, 8) }).collect())
}

/// Writes an UNMAP parameter list.
///
/// # Panics
/// Above 4095 ranges, which exceed the length field.
pub fn emit_unmap(ranges: &[UnmapRange]) -> Vec<u8> {
    let len = u16::try_from(ranges.len() * UNMAP_DESCRIPTOR_LEN).expect("at most 4095 ranges");
    let mut bytes = vec![0; UNMAP_HEADER_LEN];
    be::put_u16(&mut bytes, 0, len.checked_add(6).expect("at most 4095 ranges"));
    be::put_u16(&mut bytes, 2, len);
    for range in ranges {
        bytes.extend_from_slice(&range.lba.to_be_bytes());
        bytes.extend_from_slice(&range.blocks.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
    }
    bytes
}

/// Page B2h: support of unmapping, and data of unmapped blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogicalBlockProvisioning {
    /// LBPU: UNMAP unmaps.
    pub unmap: bool,
    /// LBPWS: WRITE SAME (16) with its UNMAP bit unmaps.
    pub write_same_16: bool,
    /// LBPWS10: WRITE SAME (10) with its UNMAP bit unmaps.
    pub write_same_10: bool,
    /// LBPRZ, 3 bits; 1: unmapped blocks read as zeros.
    pub reads_zero: u8,
    /// PROVISIONING TYPE, 3 bits; 0 not reported, 1 resource provisioned, 2 thin.
    pub kind: u8,
}

impl VpdPage for LogicalBlockProvisioning {
    const CODE: u8 = page::LOGICAL_BLOCK_PROVISIONING;

    fn emit_body(&self, bytes: &mut Vec<u8>) {
        assert!(self.reads_zero < 8 && self.kind < 8, "not a provisioning: {self:?}");
        let flags = u8::from(self.unmap) << 7
            | u8::from(self.write_same_16) << 6
            | u8::from(self.write_same_10) << 5
            | self.reads_zero << 2;
        bytes.extend_from_slice(&[0, flags, self.kind, 0]);
    }

    fn parse_body(body: &[u8]) -> Result<Self, DataError> {
        need("logical block provisioning page", body, 4)?;
        Ok(Self {
            unmap: body[1] & 0x80 != 0,
            write_same_16: body[1] & 0x40 != 0,
            write_same_10: body[1] & 0x20 != 0,
            reads_zero: body[1] >> 2 & 0x07,
            kind: body[2] & 0x07,
        })
    }
}

/// One LBA status descriptor: a run of blocks with the same status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LbaStatus {
    /// First logical block.
    pub lba: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// PROVISIONING STATUS: 0 mapped or not known, 1 deallocated, 2 anchored.
    pub provisioning: u8,
}

impl LbaStatus {
    /// Writes GET LBA STATUS data with these descriptors.
    pub fn emit_all(descriptors: &[LbaStatus]) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        be::put_u32(&mut bytes, 0, (4 + 16 * descriptors.len()) as u32);
        for descriptor in descriptors {
            bytes.extend_from_slice(&descriptor.lba.to_be_bytes());
            bytes.extend_from_slice(&descriptor.blocks.to_be_bytes());
            bytes.extend_from_slice(&[descriptor.provisioning, 0, 0, 0]);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scsi::check::{bytes, check};

    #[test]
    fn unmap_lists() {
        let ranges = vec![UnmapRange { lba: 1 << 32, blocks: 8 }, UnmapRange { lba: 7, blocks: 0 }];
        let hex = "0026 0020 00000000 0000000100000000 00000008 00000000 0000000000000007 00000000 00000000";
        check(hex, &ranges, parse_unmap, |ranges| emit_unmap(ranges));
        assert_eq!(parse_unmap(&bytes("0006 0000 00000000")), Ok(Vec::new()));
        assert_eq!(
            parse_unmap(&bytes("000a 0004 00000000 00000001")),
            Ok(Vec::new()),
            "a partial descriptor"
        );
        assert!(parse_unmap(&[0; 7]).is_err() && parse_unmap(&bytes("0016 0010 00000000")).is_err());
    }

    #[test]
    fn pages_and_status() {
        let page = LogicalBlockProvisioning {
            unmap: true,
            write_same_16: true,
            write_same_10: true,
            reads_zero: 1,
            kind: 2,
        };
        check("00b20004 00e40200", &page, LogicalBlockProvisioning::parse, LogicalBlockProvisioning::emit);
        let status = [LbaStatus { lba: 5, blocks: 3, provisioning: 1 }];
        let hex = "00000014 00000000 0000000000000005 00000003 01000000";
        assert_eq!(LbaStatus::emit_all(&status), bytes(hex));
    }
}
