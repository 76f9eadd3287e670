//! READ CAPACITY data: SBC-4 sections 5.20.2 and 5.21.2.

use super::DataError;
use super::data::need;
use crate::be;

/// READ CAPACITY (10) data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity10 {
    /// Address of the last block; 2^32 − 1 means ask with READ CAPACITY (16).
    pub last_lba: u32,
    /// Bytes of a logical block.
    pub block_len: u32,
}

impl Capacity10 {
    /// Bytes of the data.
    pub const LEN: usize = 8;

    /// Writes the data.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        be::put_u32(&mut bytes, 0, self.last_lba);
        be::put_u32(&mut bytes, 4, self.block_len);
        bytes
    }

    /// Reads the data.
    ///
    /// # Errors
    /// [`DataError::Truncated`] below 8 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, DataError> {
        need("READ CAPACITY (10) data", bytes, Self::LEN)?;
        Ok(Self { last_lba: be::u32_at(bytes, 0), block_len: be::u32_at(bytes, 4) })
    }
}

/// READ CAPACITY (16) data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity16 {
    /// Address of the last block.
    pub last_lba: u64,
    /// Bytes of a logical block.
    pub block_len: u32,
    /// PROT_EN and P_TYPE: the type of protection information less one, 3 bits, if it is enabled.
    pub protection: Option<u8>,
    /// Two to this power, 4 bits, are the logical blocks of a physical block.
    pub physical_block_exponent: u8,
    /// LBPME: thin provisioned.
    pub thin: bool,
    /// LBPRZ: unmapped blocks read as zeros.
    pub unmapped_reads_zero: bool,
    /// First logical block that begins a physical one, 14 bits.
    pub lowest_aligned_lba: u16,
}

impl Capacity16 {
    /// Bytes of the data.
    pub const LEN: usize = 32;

    /// Least length with the size in it.
    const LEN_MIN: usize = 12;

    /// Writes the data.
    ///
    /// # Panics
    /// If a value does not fit into its field.
    pub fn emit(&self) -> [u8; Self::LEN] {
        assert!(
            self.protection.is_none_or(|kind| kind < 8)
                && self.physical_block_exponent < 16
                && self.lowest_aligned_lba < 1 << 14,
            "not a capacity: {self:?}"
        );
        let mut bytes = [0; Self::LEN];
        be::put_u64(&mut bytes, 0, self.last_lba);
        be::put_u32(&mut bytes, 8, self.block_len);
        bytes[12] = self.protection.map_or(0, |kind| kind << 1 | 0x01);
        bytes[13] = self.physical_block_exponent;
        let flags = u16::from(self.thin) << 15 | u16::from(self.unmapped_reads_zero) << 14;
        be::put_u16(&mut bytes, 14, flags | self.lowest_aligned_lba);
        bytes
    }

    /// Reads the data; truncated fields behind the block length are 0.
    ///
    /// # Errors
    /// [`DataError::Truncated`] below 12 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, DataError> {
        need("READ CAPACITY (16) data", bytes, Self::LEN_MIN)?;
        let mut data = [0; Self::LEN];
        let len = bytes.len().min(Self::LEN);
        data[..len].copy_from_slice(&bytes[..len]);
        Ok(Self {
            last_lba: be::u64_at(&data, 0),
            block_len: be::u32_at(&data, 8),
            protection: (data[12] & 0x01 != 0).then_some(data[12] >> 1 & 0x07),
            physical_block_exponent: data[13] & 0x0f,
            thin: data[14] & 0x80 != 0,
            unmapped_reads_zero: data[14] & 0x40 != 0,
            lowest_aligned_lba: be::u16_at(&data, 14) & 0x3fff,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scsi::check::{bytes, check};

    #[test]
    fn both_forms() {
        let ten = Capacity10 { last_lba: u32::MAX, block_len: 512 };
        check("ffffffff 00000200", &ten, Capacity10::parse, |capacity| capacity.emit().to_vec());
        let sixteen = Capacity16 {
            last_lba: 0x1_0000_0000,
            block_len: 4096,
            protection: Some(2),
            physical_block_exponent: 3,
            thin: true,
            unmapped_reads_zero: true,
            lowest_aligned_lba: 5,
        };
        let hex = "0000000100000000 00001000 05 03 c005 00000000000000000000000000000000";
        check(hex, &sixteen, Capacity16::parse, |capacity| capacity.emit().to_vec());
    }

    #[test]
    fn cut_off_data() {
        // First bytes of tgt's data.
        let capacity = Capacity16::parse(&bytes("0000000000007fff 00000200 0003"));
        let expected = Capacity16 {
            last_lba: 0x7fff,
            block_len: 512,
            physical_block_exponent: 3,
            ..Capacity16::default()
        };
        assert_eq!(capacity, Ok(expected));
        assert!(Capacity10::parse(&[0; 7]).is_err() && Capacity16::parse(&[0; 11]).is_err());
    }
}
