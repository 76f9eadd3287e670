//! Additional header segments: RFC 7143 sections 11.2.2 to 11.2.2.4.
//!
//! Each begins with AHSLength (two bytes: length behind AHSType, without padding) and AHSType.

use super::padding;
use crate::be;

/// AHSLength, AHSType and the byte behind them that both assigned types reserve.
const PREFIX_LEN: usize = 4;

/// One additional header segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahs<'a> {
    /// Type 1: the bytes of a CDB behind its first 16.
    ExtendedCdb(&'a [u8]),
    /// Type 2: bytes the initiator expects to read with a bidirectional command.
    BidirectionalReadLen(u32),
    /// A type that RFC 7143 does not assign, with the bytes behind AHSType.
    Other {
        /// AHSType, 6 bits.
        kind: u8,
        /// At least one byte.
        data: &'a [u8],
    },
}

/// Reasons why the segments cannot be read. Offsets are in bytes from the first segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AhsError {
    /// A segment ends behind the end of all.
    #[error("the additional header segment at byte {at} needs {expected} bytes, {found} are there")]
    Truncated {
        /// Offset of the segment.
        at: usize,
        /// Bytes the segment needs, padding included.
        expected: usize,
        /// Bytes that are there.
        found: usize,
    },
    /// A length that the segment's type cannot have.
    #[error(
        "the additional header segment of type {kind} at byte {at} has AHSLength {found}, expected {expected}"
    )]
    Length {
        /// Offset of the segment.
        at: usize,
        /// AHSType.
        kind: u8,
        /// The length of the type, or the least one.
        expected: u16,
        /// AHSLength.
        found: u16,
    },
}

/// Iterates over the segments behind a header. Ends after the first error.
pub fn segments(bytes: &[u8]) -> Segments<'_> {
    Segments { bytes, at: 0 }
}

/// See [`segments`].
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Segments<'a> {
    type Item = Result<Ahs<'a>, AhsError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return None;
        }
        let item = split(rest, self.at);
        self.at = match &item {
            Ok((_, len)) => self.at + len,
            Err(_) => self.bytes.len(),
        };
        Some(item.map(|(ahs, _)| ahs))
    }
}

impl Ahs<'_> {
    /// Appends the segment with its padding.
    ///
    /// # Panics
    /// If the segment is longer than the 1020 bytes that TotalAHSLength can count, or `Other` is empty.
    pub fn emit(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.extend_from_slice(&[0; PREFIX_LEN]);
        bytes[start + 2] = match self {
            Self::ExtendedCdb(cdb) => {
                bytes.extend_from_slice(cdb);
                1
            }
            Self::BidirectionalReadLen(len) => {
                bytes.extend_from_slice(&len.to_be_bytes());
                2
            }
            Self::Other { kind, data } => {
                assert!(!data.is_empty() && *kind < 64, "not a segment of type {kind}");
                bytes.truncate(start + 3);
                bytes.extend_from_slice(data);
                *kind
            }
        };
        let len = bytes.len() - start;
        assert!(len <= 1020, "additional header segment of {len} bytes, expected at most 1020");
        be::put_u16(bytes, start, (len - 3) as u16);
        bytes.resize(start + len + padding(len), 0);
    }
}

/// The first segment of `bytes`, which begin at `at`, and how many bytes it takes.
fn split(bytes: &[u8], at: usize) -> Result<(Ahs<'_>, usize), AhsError> {
    let found = bytes.len();
    if found < PREFIX_LEN {
        return Err(AhsError::Truncated { at, expected: PREFIX_LEN, found });
    }
    let (ahs_len, kind) = (be::u16_at(bytes, 0), bytes[2] & 0x3f);
    let end = 3 + usize::from(ahs_len);
    let len = end + padding(end);
    if found < len {
        return Err(AhsError::Truncated { at, expected: len, found });
    }
    let wrong_len = |expected| AhsError::Length { at, kind, expected, found: ahs_len };
    let ahs = match (kind, ahs_len) {
        (2, 5) => Ahs::BidirectionalReadLen(be::u32_at(bytes, PREFIX_LEN)),
        (2, _) => return Err(wrong_len(5)),
        (_, 0) => return Err(wrong_len(1)),
        (1, _) => Ahs::ExtendedCdb(&bytes[PREFIX_LEN..end]),
        _ => Ahs::Other { kind, data: &bytes[3..end] },
    };
    Ok((ahs, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(bytes: &[u8]) -> Vec<Result<Ahs<'_>, AhsError>> {
        segments(bytes).collect()
    }

    #[test]
    fn both_assigned_types_and_another() {
        // A CDB of 18 bytes (AHSLength 18 - 15), 1 MiB to read, two bytes of type 9.
        let bytes = [0, 3, 1, 0, 0xaa, 0xbb, 0, 0, 0, 5, 2, 0, 0, 0x10, 0, 0, 0, 2, 0xc9, 7, 8, 0, 0, 0];
        let expected = [
            Ahs::ExtendedCdb(&[0xaa, 0xbb]),
            Ahs::BidirectionalReadLen(1 << 20),
            Ahs::Other { kind: 9, data: &[7, 8] },
        ];
        assert_eq!(collect(&bytes), expected.map(Ok));
        let mut emitted = Vec::new();
        for ahs in expected {
            ahs.emit(&mut emitted);
        }
        assert_eq!(emitted, [&bytes[..18], &[9], &bytes[19..]].concat(), "reserved bits are zero");
        assert_eq!(collect(&[]), []);
    }

    #[test]
    fn impossible_lengths_end_the_iteration() {
        assert_eq!(collect(&[0, 5, 2]), [Err(AhsError::Truncated { at: 0, expected: 4, found: 3 })]);
        assert_eq!(
            collect(&[0, 5, 2, 0, 0, 0, 0]),
            [Err(AhsError::Truncated { at: 0, expected: 8, found: 7 })]
        );
        let short = AhsError::Length { at: 0, kind: 2, expected: 5, found: 1 };
        assert_eq!(collect(&[0, 1, 2, 0, 0, 0, 0, 0]), [Err(short)]);
        let empty = AhsError::Length { at: 4, kind: 1, expected: 1, found: 0 };
        assert_eq!(collect(&[0, 1, 1, 0, 0, 0, 1, 0]), [Ok(Ahs::ExtendedCdb(&[])), Err(empty)]);
    }
}
