//! A stretch of a direction's bytes without a confirmed PDU boundary, and the search for the next one.

use crate::iscsi::pdu::Hidden;
use crate::iscsi::plausible::STRICT_LEN;
use crate::packets::packet_ref::PacketRef;
use crate::tcp::stream::Chunk;

/// Counts of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FramingCounts {
    /// Confirmed PDUs.
    pub(crate) pdus: u64,
    /// Confirmed PDUs with an inferred header.
    pub(crate) inferred: u64,
    /// Inferred PDUs that were withdrawn.
    pub(crate) refuted: u64,
    /// Bytes in no PDU.
    pub(crate) lost_bytes: u64,
    /// Times that sync was regained.
    pub(crate) found: u64,
}

/// Bytes since the last confirmed PDU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    /// Position of the first byte.
    pub(crate) start: u64,
    /// Bytes that may hide headers.
    pub(crate) hidden: Hidden,
}

impl Stretch {
    pub(crate) fn new(start: u64) -> Self {
        Self { start, hidden: Hidden::default() }
    }

    /// Counts the unknown part of the bytes of a chunk from `at` to `next`.
    pub(crate) fn pass(&mut self, chunk: &Chunk<'_>, at: u64, next: u64) {
        let known_end = chunk.start + chunk.known.len() as u64;
        self.hidden.add(next.saturating_sub(at.max(known_end)), chunk.missing);
    }
}

/// Known bytes at the end of the last chunk: a header may begin in them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    bytes: [u8; Tail::MAX],
    len: usize,
    /// Position after the last byte.
    end: u64,
    packet: PacketRef,
}

impl Default for Tail {
    fn default() -> Self {
        Self { bytes: [0; Tail::MAX], len: 0, end: 0, packet: PacketRef::default() }
    }
}

impl Tail {
    /// One byte less than a search needs.
    const MAX: usize = STRICT_LEN - 1;

    /// Keeps the last ones of `known`, which end at `end`, behind those that are kept already.
    pub(crate) fn keep(&mut self, known: &[u8], end: u64, packet: PacketRef) {
        let more = known.len().min(Self::MAX);
        let before = match self.end + known.len() as u64 == end {
            true => self.len.min(Self::MAX - more),
            false => 0,
        };
        self.bytes.copy_within(self.len - before..self.len, 0);
        self.bytes[before..before + more].copy_from_slice(&known[known.len() - more..]);
        (self.len, self.end, self.packet) = (before + more, end, packet);
    }

    /// Forgets them.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// The place from which on these bytes and the `known` ones behind them, at `at`, are a header by `is_header`: its
    /// position, its first bytes, their packet.
    pub(crate) fn find(
        &self,
        at: u64,
        known: &[u8],
        is_header: impl Fn(&[u8]) -> bool,
    ) -> Option<(u64, &[u8], PacketRef)> {
        if self.len == 0 || self.end != at {
            return None;
        }
        let mut both = [0; Self::MAX + 48];
        let more = known.len().min(48);
        both[..self.len].copy_from_slice(&self.bytes[..self.len]);
        both[self.len..self.len + more].copy_from_slice(&known[..more]);
        let both = &both[..self.len + more];
        let found = (0..self.len).find(|start| is_header(&both[*start..]))?;
        Some((at - (self.len - found) as u64, &self.bytes[found..self.len], self.packet))
    }
}
