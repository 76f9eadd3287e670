//! The basic header segment as every PDU shares it: RFC 7143 section 11.2.1.
//!
//! A receiver needs this view before it knows the PDU: the lengths of the segments behind it, and the owner of the PDU.

use super::header::Header;
use super::{Error, Lun, Opcode};
use crate::be;

/// The tag that means "none" in an initiator or target task tag.
pub const RESERVED_TAG: u32 = 0xffff_ffff;

/// Zero bytes that follow `len` bytes of a segment, up to the next multiple of four (RFC 7143 section 11.1).
pub const fn padding(len: usize) -> usize {
    len.wrapping_neg() % 4
}

impl Opcode {
    /// The PDU of a six-bit code.
    ///
    /// # Errors
    /// [`Error::UnknownOpcode`] for a code that is not assigned.
    pub fn from_code(code: u8) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|opcode| opcode.code() == code).ok_or(Error::UnknownOpcode { found: code })
    }
}

/// A borrowed basic header segment; fields are checked when they are read.
#[derive(Clone, Copy, Debug)]
pub struct Bhs<'a> {
    bytes: &'a Header,
}

impl<'a> Bhs<'a> {
    /// Wraps the bytes of a header.
    pub const fn new(bytes: &'a Header) -> Self {
        Self { bytes }
    }

    /// PDU of the header.
    ///
    /// # Errors
    /// [`Error::UnknownOpcode`] for a code that RFC 7143 section 11.2.1.2 does not assign.
    pub fn opcode(&self) -> Result<Opcode, Error> {
        Opcode::from_code(self.bytes[0] & 0x3f)
    }

    /// The I bit: delivered at once, outside the order of CmdSN. Only requests have it.
    pub fn immediate(&self) -> bool {
        self.bytes[0] & 0x40 != 0
    }

    /// The F bit, which login PDUs call T.
    pub fn is_final(&self) -> bool {
        self.bytes[1] & 0x80 != 0
    }

    /// Bytes of additional header segments behind this header, padding included: 0 … 1020.
    pub fn ahs_len(&self) -> usize {
        usize::from(self.bytes[4]) * 4
    }

    /// Bytes of the data segment without its padding: 0 … 2^24 − 1.
    pub fn data_segment_len(&self) -> usize {
        be::u24_at(self.bytes, 5) as usize
    }

    /// The logical unit. Login PDUs hold ISID and TSIH in its place.
    pub fn lun(&self) -> Lun {
        Lun(be::u64_at(self.bytes, 8))
    }

    /// The initiator task tag.
    pub fn itt(&self) -> u32 {
        be::u32_at(self.bytes, 16)
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::BHS_LEN;
    use super::*;

    #[test]
    fn reads_the_shared_fields() {
        let mut bytes = [0; BHS_LEN];
        bytes[..9].copy_from_slice(&[0x41, 0x80, 0, 0, 2, 0x01, 0x02, 0x03, 0]);
        bytes[9] = 7;
        bytes[16..20].copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
        let bhs = Bhs::new(&bytes);
        assert_eq!(bhs.opcode(), Ok(Opcode::ScsiCommand));
        assert!(bhs.immediate() && bhs.is_final());
        assert_eq!((bhs.ahs_len(), bhs.data_segment_len()), (8, 0x01_0203));
        assert_eq!((bhs.lun().number(), bhs.itt()), (Some(7), 0xdead_beef));
    }

    #[test]
    fn the_reserved_top_bit_of_the_opcode_is_ignored() {
        let mut bytes = [0; BHS_LEN];
        bytes[0] = 0x80 | 0x3f;
        assert_eq!(Bhs::new(&bytes).opcode(), Ok(Opcode::Reject));
        bytes[0] = 0x1c;
        assert_eq!(Bhs::new(&bytes).opcode(), Err(Error::UnknownOpcode { found: 0x1c }));
    }

    #[test]
    fn padding_fills_to_four() {
        assert_eq!([0, 1, 2, 3, 4, 5].map(padding), [0, 3, 2, 1, 0, 3]);
    }
}
