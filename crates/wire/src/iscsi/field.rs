//! The table that generates a PDU's `parse` and `emit`, so that they agree.
//!
//! A *place* is the position of a value in the 48 bytes of a header and its encoding. [`pdu!`] takes one line per
//! field, `name: type = place`, and makes the struct and both directions. Bits without a line are reserved: ignored by
//! `parse`, zeroed by `emit`.

use super::header::Header;
use super::{Error, Lun};
use crate::be;

/// Position and encoding of a value of type `T` in a header.
pub(super) trait Place<T> {
    fn load(&self, header: &Header) -> Result<T, Error>;
    /// Stores into a header that is zero at this place.
    fn store(&self, value: T, header: &mut Header);
}

/// A flag: the bit `mask` of the byte `at`.
pub(super) struct Bit {
    pub(super) at: usize,
    pub(super) mask: u8,
}

impl Place<bool> for Bit {
    fn load(&self, header: &Header) -> Result<bool, Error> {
        Ok(header[self.at] & self.mask != 0)
    }

    fn store(&self, value: bool, header: &mut Header) {
        if value {
            header[self.at] |= self.mask;
        }
    }
}

/// A small number: `mask` shifted left by `shift` in the byte `at`.
pub(super) struct Bits {
    pub(super) at: usize,
    pub(super) shift: u32,
    pub(super) mask: u8,
}

impl Place<u8> for Bits {
    fn load(&self, header: &Header) -> Result<u8, Error> {
        Ok(header[self.at] >> self.shift & self.mask)
    }

    fn store(&self, value: u8, header: &mut Header) {
        assert!(value <= self.mask, "{value} does not fit into the {:#04x} of byte {}", self.mask, self.at);
        header[self.at] |= value << self.shift;
    }
}

/// A whole integer, LUN or array that begins at this byte.
pub(super) struct At(pub(super) usize);

impl Place<u8> for At {
    fn load(&self, header: &Header) -> Result<u8, Error> {
        Ok(header[self.0])
    }

    fn store(&self, value: u8, header: &mut Header) {
        header[self.0] = value;
    }
}

impl Place<u16> for At {
    fn load(&self, header: &Header) -> Result<u16, Error> {
        Ok(be::u16_at(header, self.0))
    }

    fn store(&self, value: u16, header: &mut Header) {
        be::put_u16(header, self.0, value);
    }
}

impl Place<u32> for At {
    fn load(&self, header: &Header) -> Result<u32, Error> {
        Ok(be::u32_at(header, self.0))
    }

    fn store(&self, value: u32, header: &mut Header) {
        be::put_u32(header, self.0, value);
    }
}

impl Place<Lun> for At {
    fn load(&self, header: &Header) -> Result<Lun, Error> {
        Ok(Lun(be::u64_at(header, self.0)))
    }

    fn store(&self, value: Lun, header: &mut Header) {
        be::put_u64(header, self.0, value.0);
    }
}

impl<const N: usize> Place<[u8; N]> for At {
    fn load(&self, header: &Header) -> Result<[u8; N], Error> {
        let mut value = [0; N];
        value.copy_from_slice(&header[self.0..self.0 + N]);
        Ok(value)
    }

    fn store(&self, value: [u8; N], header: &mut Header) {
        header[self.0..self.0 + N].copy_from_slice(&value);
    }
}

/// DataSegmentLength, the only 24-bit field: bytes 5 to 7 of every header.
pub(super) struct DataSegmentLen;

impl Place<u32> for DataSegmentLen {
    fn load(&self, header: &Header) -> Result<u32, Error> {
        Ok(be::u24_at(header, 5))
    }

    fn store(&self, value: u32, header: &mut Header) {
        be::put_u24(header, 5, value);
    }
}

/// I, the immediate-delivery bit of requests.
pub(super) const IMMEDIATE: Bit = Bit { at: 0, mask: 0x40 };
/// F of most PDUs, T (transit) of login PDUs.
pub(super) const FINAL: Bit = Bit { at: 1, mask: 0x80 };
/// C of text and login PDUs: the text continues in the next PDU.
pub(super) const CONTINUE: Bit = Bit { at: 1, mask: 0x40 };
pub(super) const LUN: At = At(8);
pub(super) const ITT: At = At(16);
pub(super) const TTT: At = At(20);
pub(super) const CMD_SN: At = At(24);
pub(super) const EXP_STAT_SN: At = At(28);
pub(super) const STAT_SN: At = At(24);
pub(super) const EXP_CMD_SN: At = At(28);
pub(super) const MAX_CMD_SN: At = At(32);
/// DataSN, R2TSN and ExpDataSN share it.
pub(super) const DATA_SN: At = At(36);
pub(super) const BUFFER_OFFSET: At = At(40);
pub(super) const RESIDUAL: At = At(44);

/// Makes a PDU's struct, `parse` and `emit` from a table of its fields.
///
/// `fixed` lists bits that the RFC sets in every PDU of the kind; they are written and not checked.
macro_rules! pdu {
    (
        $(#[$meta:meta])*
        $name:ident, fixed [$($fixed_at:literal: $fixed:literal),*];
        $($(#[$field_meta:meta])* $field:ident: $type:ty = $place:expr,)+
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)+
        }

        impl $name {
            /// Reads the header; reserved bits are ignored.
            ///
            /// # Errors
            /// [`Error::UnknownOpcode`](crate::iscsi::Error::UnknownOpcode) and
            /// [`Error::WrongOpcode`](crate::iscsi::Error::WrongOpcode) if the header is of another PDU, and the errors
            /// of its fields.
            pub fn parse(header: &[u8; crate::iscsi::BHS_LEN]) -> Result<Self, crate::iscsi::Error> {
                let (expected, found) =
                    (crate::iscsi::Opcode::$name, crate::iscsi::Bhs::new(header).opcode()?);
                if found != expected {
                    return Err(crate::iscsi::Error::WrongOpcode { expected, found });
                }
                Ok(Self { $($field: $place.load(header)?,)+ })
            }

            /// Writes all 48 bytes of the header; reserved bits are zero.
            ///
            /// # Panics
            /// If a value does not fit into its field, such as a data segment of 2^24 bytes.
            pub fn emit(&self, header: &mut [u8; crate::iscsi::BHS_LEN]) {
                header.fill(0);
                header[0] = crate::iscsi::Opcode::$name.code();
                $(header[$fixed_at] |= $fixed;)*
                $($place.store(self.$field, header);)+
            }
        }
    };
}
pub(super) use pdu;
