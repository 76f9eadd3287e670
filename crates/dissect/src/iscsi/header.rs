//! Basic header segment of which only some bytes are known: RFC 7143 section 11.2.1.

use wire::iscsi::{BHS_LEN, Bhs, Opcode};

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
