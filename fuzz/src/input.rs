//! Bytes of a fuzzer as decisions: which PDU comes next, and what is wrong with it.

use wire::iscsi::{BHS_LEN, Bhs};

/// The longest data segment that is made up; a longer one is for the receiver to refuse unread.
pub(crate) const SEGMENT_MAX: usize = 4096;

/// What is left of the input.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Input<'a> {
        Input(data)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte; 0 behind the end.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number up to 65535.
    pub(crate) fn number(&mut self) -> u32 {
        u32::from(self.byte()) << 8 | u32::from(self.byte())
    }

    /// A field of four bytes: 0, the reserved tag, one of the two offered, or a number.
    pub(crate) fn field(&mut self, first: u32, second: u32) -> u32 {
        match self.byte() {
            0 => 0,
            1 => u32::MAX,
            2..=99 => first,
            100..=199 => second,
            _ => self.number(),
        }
    }

    /// Overwrites up to three bytes of a header.
    pub(crate) fn disturb(&mut self, header: &mut [u8; BHS_LEN]) {
        for _ in 0..self.byte() & 3 {
            header[usize::from(self.byte()) % BHS_LEN] = self.byte();
        }
    }

    /// The data segment that a header announces: from the input as far as that goes, then zeros.
    pub(crate) fn segment(&mut self, header: &[u8; BHS_LEN]) -> Vec<u8> {
        let len = Bhs::new(header).data_segment_len();
        if len > SEGMENT_MAX {
            return Vec::new();
        }
        let (now, later) = self.0.split_at(len.min(self.0.len()));
        self.0 = later;
        let mut segment = now.to_vec();
        segment.resize(len, 0);
        segment
    }
}
