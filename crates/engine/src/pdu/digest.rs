//! CRC32C digests of PDUs, computed where the bytes are (RFC 7143 sections 11.2.3, 11.2.4 and 13.1).
//!
//! The digest is sent least significant byte first: 32 bytes of zeros have the digest `aa 36 91 8a` (RFC 7143 appendix
//! A). The login negotiates digests.

/// Bytes of one digest.
pub(crate) const DIGEST_BYTES: usize = 4;

/// Digests of a connection's PDUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digests {
    /// After the header and its additional segments.
    pub header: bool,
    /// After a data segment and its padding; PDUs without data have none.
    pub data: bool,
}

impl Digests {
    pub(crate) fn header_bytes(self) -> usize {
        if self.header { DIGEST_BYTES } else { 0 }
    }

    pub(crate) fn data_bytes(self, segment_bytes: usize) -> usize {
        if self.data && segment_bytes > 0 { DIGEST_BYTES } else { 0 }
    }
}

/// A digest in the making.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sum(u32);

impl Sum {
    pub(crate) fn of(bytes: &[u8]) -> Sum {
        Sum::default().and(bytes)
    }

    /// Sum extended by `bytes`.
    pub(crate) fn and(self, bytes: &[u8]) -> Sum {
        Sum(crc32c::crc32c_append(self.0, bytes))
    }

    /// Bytes in sending order.
    pub(crate) fn to_wire(self) -> [u8; DIGEST_BYTES] {
        self.0.to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_castagnoli_polynomial() {
        assert_eq!(Sum::of(b"123456789"), Sum(0xe306_9283));
        assert_eq!(Sum::of(b"1234").and(b"").and(b"56789"), Sum(0xe306_9283));
    }

    /// The examples of RFC 7143 appendix A.
    #[test]
    fn the_examples_of_the_standard() {
        let rising: Vec<u8> = (0..32).collect();
        let falling: Vec<u8> = (0..32).rev().collect();
        let check = |bytes: &[u8], expected| assert_eq!(Sum::of(bytes).to_wire(), expected);
        check(&[0; 32], [0xaa, 0x36, 0x91, 0x8a]);
        check(&[0xff; 32], [0x43, 0xab, 0xa8, 0x62]);
        check(&rising, [0x4e, 0x79, 0xdd, 0x46]);
        check(&falling, [0x5c, 0xdb, 0x3f, 0x11]);
    }
}
