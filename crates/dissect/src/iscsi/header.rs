//! Basic header segment of which only some bytes are known: RFC 7143 section 11.2.1.

use wire::iscsi::{BHS_LEN, Bhs, Opcode};

use crate::iscsi::digests::DIGEST_LEN;
use crate::packets::packet_ref::PacketRef;
use crate::tcp::stream::Chunk;

/// A basic header segment and a mask of its known bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartialHeader {
    pub(crate) bytes: [u8; BHS_LEN],
    /// Bit n stands for byte n.
    pub(crate) known: u64,
}

impl PartialHeader {
    /// Bytes that framing needs: opcode, flags and lengths; the initiator task tag.
    const FRAMING: u64 = 0xff | 0xf << 16;

    /// A header without a known byte.
    pub(crate) fn unknown() -> Self {
        Self { bytes: [0; BHS_LEN], known: 0 }
    }

    /// An inferred header of which opcode, data segment length and initiator task tag are known.
    pub(crate) fn inferred(opcode: Opcode, itt: u32, data_len: u64) -> Self {
        let mut bytes = [0; BHS_LEN];
        bytes[0] = opcode.code();
        bytes[5..8].copy_from_slice(&(data_len as u32).to_be_bytes()[1..]);
        bytes[16..20].copy_from_slice(&itt.to_be_bytes());
        Self { bytes, known: 0xf << 16 | 0xe0 | 1 }
    }

    /// The same header with known flags.
    pub(crate) fn with_flags(mut self, flags: u8) -> Self {
        self.bytes[1] = flags;
        self.known |= 1 << 1;
        self
    }

    /// The same header with a known word at `at`.
    pub(crate) fn with_word(mut self, at: usize, word: u32) -> Self {
        self.bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        self.known |= 0xf << at;
        self
    }

    /// True if all bytes are known that framing needs.
    pub(crate) fn is_framing_known(&self) -> bool {
        self.known & Self::FRAMING == Self::FRAMING
    }

    /// The header that begins with these bytes; the rest is unknown.
    pub(crate) fn from_prefix(bytes: &[u8]) -> Self {
        let len = bytes.len().min(BHS_LEN);
        let mut header = Self::unknown();
        header.bytes[..len].copy_from_slice(&bytes[..len]);
        header.known = (1 << len) - 1;
        header
    }

    /// Known bytes before the first unknown one.
    pub(crate) fn known_prefix(&self) -> &[u8] {
        &self.bytes[..(self.known.trailing_ones() as usize).min(BHS_LEN)]
    }

    /// Number of unknown bytes.
    pub(crate) fn unknown_len(&self) -> u64 {
        BHS_LEN as u64 - u64::from(self.known.count_ones())
    }

    /// A byte, if known.
    pub(crate) fn byte(&self, at: usize) -> Option<u8> {
        (self.known >> at & 1 != 0).then(|| self.bytes[at])
    }

    /// A word, if known.
    pub(crate) fn word(&self, at: usize) -> Option<u32> {
        let bytes = [self.byte(at)?, self.byte(at + 1)?, self.byte(at + 2)?, self.byte(at + 3)?];
        Some(u32::from_be_bytes(bytes))
    }

    /// Lengths and tags by their fields; unknown bytes are 0.
    pub(crate) fn bhs(&self) -> Bhs<'_> {
        Bhs::new(&self.bytes)
    }
}

/// Way to the position of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The first byte of the connection.
    Begin,
    /// The end of the PDU before.
    Follows,
    /// The same, and the digests of that PDU are uncertain.
    Near,
    /// Found out of sync, or within inferred PDUs.
    Found,
}

/// A header of which some bytes have passed.
#[derive(Clone, Debug)]
pub(crate) struct HeaderInProgress {
    pub(crate) start: u64,
    pub(crate) header: PartialHeader,
    pub(crate) got: usize,
    /// First and last packet of the header.
    pub(crate) packets: Option<(PacketRef, PacketRef)>,
    pub(crate) origin: Origin,
    /// Bytes that were skipped because they can be a digest.
    pub(crate) shift: usize,
    /// A part of it is in a packet that is not in the capture.
    pub(crate) missing: bool,
}

impl HeaderInProgress {
    pub(crate) fn new(start: u64, origin: Origin) -> Self {
        Self {
            start,
            header: PartialHeader::unknown(),
            got: 0,
            packets: None,
            origin,
            shift: 0,
            missing: false,
        }
    }

    /// Takes the missing part of the next `len` bytes; returns its length.
    pub(crate) fn take(&mut self, known: &[u8], len: u64, chunk: &Chunk<'_>) -> u64 {
        let len = len.min((BHS_LEN - self.got) as u64) as usize;
        self.missing |= chunk.missing;
        self.put(&known[..known.len().min(len)], chunk.packet);
        self.got += len;
        len as u64
    }

    /// Takes its first bytes.
    pub(crate) fn take_known(&mut self, bytes: &[u8], packet: PacketRef) {
        self.put(bytes, packet);
        self.got += bytes.len();
    }

    fn put(&mut self, known: &[u8], packet: PacketRef) {
        self.header.bytes[self.got..self.got + known.len()].copy_from_slice(known);
        self.header.known |= ((1 << known.len()) - 1) << self.got;
        self.packets = Some((self.packets.map_or(packet, |(first, _)| first), packet));
    }

    /// Skips the first bytes as the digest of the PDU before.
    pub(crate) fn skip_digest(&mut self) {
        let PartialHeader { bytes, known } = &mut self.header;
        bytes.copy_within(DIGEST_LEN.., 0);
        bytes[BHS_LEN - DIGEST_LEN..].fill(0);
        *known >>= DIGEST_LEN;
        self.got -= DIGEST_LEN;
        self.start += DIGEST_LEN as u64;
        self.shift += DIGEST_LEN;
    }
}
