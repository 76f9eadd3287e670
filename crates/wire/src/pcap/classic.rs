//! The older format, pcap: one header, then packets, all of one link layer.

use super::error::{Error, within};
use super::integers::Integers;
use super::packet::{BLOCK_LEN_MAX, Found, Packet};

/// Bytes of the file's header.
pub(super) const FILE_HEADER_LEN: usize = 24;
const PACKET_HEADER_LEN: usize = 16;

mod field {
    pub(super) const LINK: usize = 20;
    pub(super) const SECONDS: usize = 0;
    pub(super) const FRACTION: usize = 4;
    pub(super) const CAPTURED: usize = 8;
    pub(super) const ORIGINAL: usize = 12;
}

/// The low bits of the link field; the others describe frame check sequences.
const LINK_MASK: u32 = 0xffff;

/// The header of a pcap file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classic {
    integers: Integers,
    /// Nanoseconds of one unit of the fraction.
    unit_ns: u64,
    link: u32,
}

impl Classic {
    /// Byte order and unit of a file with this magic number.
    pub(super) fn magic(magic: [u8; 4]) -> Result<(Integers, u64), Error> {
        match u32::from_be_bytes(magic) {
            0xa1b2_c3d4 => Ok((Integers::Big, 1_000)),
            0xd4c3_b2a1 => Ok((Integers::Little, 1_000)),
            0xa1b2_3c4d => Ok((Integers::Big, 1)),
            0x4d3c_b2a1 => Ok((Integers::Little, 1)),
            found => Err(Error::Magic { found }),
        }
    }

    pub(super) fn begin(header: &[u8; FILE_HEADER_LEN]) -> Result<Self, Error> {
        let (integers, unit_ns) = Self::magic([header[0], header[1], header[2], header[3]])?;
        Ok(Self { integers, unit_ns, link: integers.u32_at(header, field::LINK) & LINK_MASK })
    }

    pub(super) fn decode<'a>(&self, bytes: &'a [u8]) -> Result<Found<'a>, Error> {
        if bytes.len() < PACKET_HEADER_LEN {
            return Ok(Found::More(PACKET_HEADER_LEN));
        }
        let value = |at| self.integers.u32_at(bytes, at);
        let captured = value(field::CAPTURED) as usize;
        within("a packet", captured, 0, BLOCK_LEN_MAX)?;
        let len = PACKET_HEADER_LEN + captured;
        let Some(kept) = bytes.get(PACKET_HEADER_LEN..len) else { return Ok(Found::More(len)) };
        let (seconds, fraction) = (u64::from(value(field::SECONDS)), u64::from(value(field::FRACTION)));
        let packet = Packet {
            t_ns: seconds * 1_000_000_000 + fraction * self.unit_ns,
            link: self.link,
            interface: 0,
            len: (value(field::ORIGINAL) as usize).max(captured),
            bytes: kept,
        };
        Ok(Found::Packet { len, packet })
    }
}
