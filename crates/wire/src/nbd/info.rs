//! Data of NBD_REP_INFO: NBD protocol, "Option reply types".

use super::{NbdFormatError, info_type, part};
use crate::be;

/// One piece of information about an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Info<'a> {
    /// NBD_INFO_EXPORT.
    Export {
        /// Size in bytes.
        size_bytes: u64,
        /// Bits of [`transmission_flag`](super::transmission_flag).
        flags: u16,
    },
    /// NBD_INFO_NAME: the canonical name.
    Name(&'a [u8]),
    /// NBD_INFO_DESCRIPTION: a text for a human.
    Description(&'a [u8]),
    /// NBD_INFO_BLOCK_SIZE: sizes in bytes.
    BlockSize {
        /// Every offset and length is a multiple of it.
        minimum: u32,
        /// Offsets and lengths that are multiples of it are served best.
        preferred: u32,
        /// Longest payload.
        maximum: u32,
    },
    /// A type that is not assigned.
    Other {
        /// Its number.
        kind: u16,
        /// Its data.
        data: &'a [u8],
    },
}

impl<'a> Info<'a> {
    /// Reads the data of the reply.
    ///
    /// # Errors
    /// Another length than its contents have.
    pub fn parse(bytes: &'a [u8]) -> Result<Info<'a>, NbdFormatError> {
        let wrong = NbdFormatError::Length { message: "NBD_REP_INFO", found: bytes.len() };
        let kind = be::u16_at(part(bytes, 0, 2).ok_or(wrong)?, 0);
        let data = &bytes[2..];
        Ok(match (kind, data.len()) {
            (info_type::EXPORT, 10) => {
                Info::Export { size_bytes: be::u64_at(data, 0), flags: be::u16_at(data, 8) }
            }
            (info_type::BLOCK_SIZE, 12) => Info::BlockSize {
                minimum: be::u32_at(data, 0),
                preferred: be::u32_at(data, 4),
                maximum: be::u32_at(data, 8),
            },
            (info_type::EXPORT | info_type::BLOCK_SIZE, _) => return Err(wrong),
            (info_type::NAME, _) => Info::Name(data),
            (info_type::DESCRIPTION, _) => Info::Description(data),
            _ => Info::Other { kind, data },
        })
    }

    /// Appends the data of the reply.
    pub fn put(&self, out: &mut Vec<u8>) {
        let kind = match self {
            Info::Export { .. } => info_type::EXPORT,
            Info::Name(_) => info_type::NAME,
            Info::Description(_) => info_type::DESCRIPTION,
            Info::BlockSize { .. } => info_type::BLOCK_SIZE,
            Info::Other { kind, .. } => *kind,
        };
        out.extend_from_slice(&kind.to_be_bytes());
        match self {
            Info::Export { size_bytes, flags } => {
                out.extend_from_slice(&size_bytes.to_be_bytes());
                out.extend_from_slice(&flags.to_be_bytes());
            }
            Info::BlockSize { minimum, preferred, maximum } => {
                [minimum, preferred, maximum]
                    .iter()
                    .for_each(|size| out.extend_from_slice(&size.to_be_bytes()));
            }
            Info::Name(data) | Info::Description(data) | Info::Other { data, .. } => {
                out.extend_from_slice(data);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::bytes;

    #[test]
    fn known_bytes() {
        let table = [
            // Type, size, transmission flags.
            ("0000 0000010000000000 0065", Info::Export { size_bytes: 1 << 40, flags: 0x65 }),
            // Type, name.
            ("0001 6469736b", Info::Name(b"disk")),
            // Type, description.
            ("0002", Info::Description(b"")),
            // Type, minimum, preferred, maximum.
            (
                "0003 00000200 00001000 02000000",
                Info::BlockSize { minimum: 512, preferred: 4096, maximum: 1 << 25 },
            ),
            ("004d 3f", Info::Other { kind: 77, data: b"?" }),
        ];
        for (hex, info) in table {
            let data = bytes(hex);
            assert_eq!(Info::parse(&data), Ok(info));
            let mut written = Vec::new();
            info.put(&mut written);
            assert_eq!(written, data);
        }
    }

    #[test]
    fn other_lengths_are_refused() {
        for hex in ["", "00", "0000 000001000000000000", "0000 0000010000000000 0065 00", "0003 00000200"] {
            let data = bytes(hex);
            let error = NbdFormatError::Length { message: "NBD_REP_INFO", found: data.len() };
            assert_eq!(Info::parse(&data), Err(error), "{hex}");
        }
    }
}
