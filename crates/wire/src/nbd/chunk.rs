//! Structured reply chunks: NBD protocol, "Structured reply chunk message".

use super::field::message;
use super::{NbdFormatError, number, part};
use crate::be;

message! {
    /// The header of a chunk; `len_bytes` of payload follow. NBD_REPLY_TYPE_OFFSET_DATA begins its payload with an
    /// offset of [`ChunkHeader::OFFSET_LEN`] bytes.
    ChunkHeader, 20 bytes, magic [MAGIC(0): u32 = 0x668e_33ef];
    /// Bits of [`chunk_flag`](super::chunk_flag).
    flags: u16 = 4,
    /// One of [`chunk_type`](super::chunk_type).
    kind: u16 = 6,
    /// The cookie of the request.
    cookie: u64 = 8,
    /// Length of the payload.
    len_bytes: u32 = 16,
}

impl ChunkHeader {
    /// Length of the offset before the data of NBD_REPLY_TYPE_OFFSET_DATA, in bytes.
    pub const OFFSET_LEN: usize = 8;

    /// True if the chunk reports an error, of a known kind or not.
    pub const fn is_error(&self) -> bool {
        self.kind & 1 << 15 != 0
    }

    /// True if it is the last of its reply.
    pub const fn is_done(&self) -> bool {
        self.flags & super::chunk_flag::DONE != 0
    }
}

message! {
    /// The payload of NBD_REPLY_TYPE_OFFSET_HOLE: a range that reads as zeros.
    HoleChunk, 12 bytes;
    /// Offset in the export in bytes.
    offset_bytes: u64 = 0,
    /// Length in bytes.
    len_bytes: u32 = 8,
}

message! {
    /// One descriptor of NBD_REPLY_TYPE_BLOCK_STATUS.
    StatusExtent, 8 bytes;
    /// Length in bytes.
    len_bytes: u32 = 0,
    /// Flags of the metadata context; [`state_flag`](super::state_flag) for `base:allocation`.
    flags: u32 = 4,
}

/// The payload of NBD_REPLY_TYPE_BLOCK_STATUS: a context and its extents, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusExtents<'a> {
    /// The server's number of the metadata context.
    pub context: u32,
    extents: &'a [u8],
}

impl<'a> StatusExtents<'a> {
    /// Reads a payload.
    ///
    /// # Errors
    /// No descriptor, or a part of one.
    pub fn parse(bytes: &'a [u8]) -> Result<StatusExtents<'a>, NbdFormatError> {
        match bytes.split_at_checked(4) {
            Some((context, extents)) if !extents.is_empty() && extents.len() % StatusExtent::LEN == 0 => {
                Ok(StatusExtents { context: be::u32_at(context, 0), extents })
            }
            _ => Err(NbdFormatError::Length { message: "NBD_REPLY_TYPE_BLOCK_STATUS", found: bytes.len() }),
        }
    }

    /// The extents, in order.
    pub fn extents(&self) -> impl Iterator<Item = StatusExtent> + use<'a> {
        self.extents.as_chunks::<{ StatusExtent::LEN }>().0.iter().map(StatusExtent::parse)
    }

    /// Appends a payload.
    pub fn put(out: &mut Vec<u8>, context: u32, extents: &[StatusExtent]) {
        out.extend_from_slice(&context.to_be_bytes());
        extents.iter().for_each(|extent| out.extend_from_slice(&extent.to_bytes()));
    }
}

/// The payload of an error chunk: NBD_REPLY_TYPE_ERROR, or NBD_REPLY_TYPE_ERROR_OFFSET with an offset. Unassigned types
/// begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorChunk<'a> {
    /// One of [`error_number`](super::error_number), not 0.
    pub error: u32,
    /// A text for a human.
    pub message: &'a [u8],
    /// Offset of the error in the export in bytes.
    pub offset_bytes: Option<u64>,
}

impl<'a> ErrorChunk<'a> {
    /// Reads the payload of a chunk of this kind.
    ///
    /// # Errors
    /// Another length than its contents have.
    pub fn parse(kind: u16, bytes: &'a [u8]) -> Result<ErrorChunk<'a>, NbdFormatError> {
        let wrong = NbdFormatError::Length { message: "an error chunk", found: bytes.len() };
        let error = number(bytes, 0).ok_or(wrong)?;
        let len = usize::from(be::u16_at(part(bytes, 4, 2).ok_or(wrong)?, 0));
        let message = part(bytes, 6, len).ok_or(wrong)?;
        let rest = &bytes[6 + len..];
        let offset_bytes = match (kind, rest.len()) {
            (super::chunk_type::ERROR, 0) => None,
            (super::chunk_type::ERROR_OFFSET, 8) => Some(be::u64_at(rest, 0)),
            (super::chunk_type::ERROR | super::chunk_type::ERROR_OFFSET, _) => return Err(wrong),
            _ => None,
        };
        Ok(ErrorChunk { error, message, offset_bytes })
    }

    /// Appends the payload.
    ///
    /// # Panics
    /// If the message is longer than 65 535 bytes.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.error.to_be_bytes());
        let len = u16::try_from(self.message.len()).expect("a message shorter than 64 KiB");
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(self.message);
        out.extend(self.offset_bytes.iter().flat_map(|offset| offset.to_be_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::bytes;
    use crate::nbd::chunk_type;
    use crate::nbd::field::check;

    #[test]
    fn known_bytes() {
        // Magic, flags, type, cookie, length of the payload.
        let header = ChunkHeader { flags: 1, kind: chunk_type::ERROR, cookie: 7, len_bytes: 6 };
        check("668e33ef 0001 8001 0000000000000007 00000006", &header);
        assert!(header.is_error() && header.is_done());
        let data = ChunkHeader { flags: 0, kind: chunk_type::OFFSET_DATA, cookie: u64::MAX, len_bytes: 4104 };
        check("668e33ef 0000 0001 ffffffffffffffff 00001008", &data);
        assert!(!data.is_error() && !data.is_done());
        // Offset, length.
        check("0000000000010000 00000200", &HoleChunk { offset_bytes: 65_536, len_bytes: 512 });
        // Length, flags.
        check("00001000 00000003", &StatusExtent { len_bytes: 4096, flags: 3 });
    }

    #[test]
    fn a_block_status() {
        // Context, then length and flags of each descriptor.
        let payload = bytes("00000009 00000200 00000000 00000001 00000003");
        let extents = [StatusExtent { len_bytes: 512, flags: 0 }, StatusExtent { len_bytes: 1, flags: 3 }];
        let read = StatusExtents::parse(&payload).expect("a payload");
        assert_eq!((read.context, read.extents().collect::<Vec<_>>()), (9, extents.to_vec()));
        let mut written = Vec::new();
        StatusExtents::put(&mut written, 9, &extents);
        assert_eq!(written, payload);
        for len in (0..payload.len()).filter(|len| *len != 12) {
            let error = StatusExtents::parse(&payload[..len]).expect_err("a part of a payload");
            assert_eq!(error, NbdFormatError::Length { message: "NBD_REPLY_TYPE_BLOCK_STATUS", found: len });
        }
    }

    #[test]
    fn errors() {
        // Error, length of the message, message, and an offset in one of the two.
        let table = [
            (chunk_type::ERROR, None, "00000005 0003 626164"),
            (chunk_type::ERROR_OFFSET, Some(1 << 40), "00000005 0003 626164 0000010000000000"),
        ];
        for (kind, offset_bytes, hex) in table {
            let (chunk, mut payload) = (ErrorChunk { error: 5, message: b"bad", offset_bytes }, bytes(hex));
            assert_eq!(ErrorChunk::parse(kind, &payload), Ok(chunk));
            let mut written = Vec::new();
            chunk.put(&mut written);
            assert_eq!(written, payload);
            for len in 0..payload.len() {
                assert!(ErrorChunk::parse(kind, &payload[..len]).is_err(), "{len} bytes");
            }
            payload.push(0);
            assert!(ErrorChunk::parse(kind, &payload).is_err());
            assert_eq!(ErrorChunk::parse(0x8009, &payload).map(|chunk| chunk.error), Ok(5));
        }
    }
}
