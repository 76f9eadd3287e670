//! TCP reassembly: the bytes of one direction in order, known or unknown.
//!
//! A byte is unknown if the capture kept only the beginning of its packet, or if its packet is not in the capture. A gap
//! is given up when the peer has acknowledged it, or when the segments that wait for it exhaust their memory.

use std::collections::BTreeMap;

use crate::budget::MemoryBudget;
use crate::packets::packet_ref::PacketRef;

/// Consecutive bytes of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The known bytes, from `start` on.
    pub(crate) known: &'a [u8],
    pub(crate) packet: PacketRef,
    /// No packet of the capture has carried them.
    pub(crate) missing: bool,
}

/// Orders the segments of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reassembler {
    at: Option<u64>,
    pending: BTreeMap<u64, Piece>,
    /// Bytes that are not in the capture.
    pub(crate) missing_bytes: u64,
    /// Gaps of the capture that have these bytes.
    pub(crate) gaps: u64,
    /// End of the last gap, which may grow.
    gap_end: Option<u64>,
}

#[derive(Clone, Debug)]
struct Piece {
    end: u64,
    known: Vec<u8>,
    packet: PacketRef,
}

/// Limit of pieces of one direction that wait for a gap.
const PIECES_MAX: usize = 1 << 15;
/// Memory of a piece besides its payload, in bytes.
const PIECE_LEN: usize = 128;

impl Reassembler {
    /// Begins the stream at `at`, after the SYN; false if it has begun before.
    pub(crate) fn begin(&mut self, at: u64) -> bool {
        let is_first = self.at.is_none();
        self.at.get_or_insert(at);
        is_first
    }

    /// Takes a segment with data; passes all bytes that are in order to `sink`.
    pub(crate) fn push(&mut self, chunk: Chunk<'_>, budget: &MemoryBudget, sink: &mut impl FnMut(Chunk<'_>)) {
        let at = *self.at.get_or_insert(chunk.start);
        if chunk.end <= at {
            return;
        }
        if chunk.start > at {
            let cost = PIECE_LEN + chunk.known.len();
            if self.pending.len() >= PIECES_MAX || !budget.reserve(cost) {
                // Without memory for waiting the gap in front is given up.
                self.give_up(chunk.start, chunk.packet, budget, sink);
                return self.push(chunk, budget, sink);
            }
            if self.pending.get(&chunk.start).is_some_and(|old| old.end >= chunk.end) {
                // A part of a pending piece, retransmitted.
                budget.release(cost);
                return;
            }
            let piece = Piece { end: chunk.end, known: chunk.known.to_vec(), packet: chunk.packet };
            if let Some(old) = self.pending.insert(chunk.start, piece) {
                budget.release(PIECE_LEN + old.known.len());
            }
            return;
        }
        self.hand_on(chunk, at, sink);
        self.drain(budget, sink);
    }

    /// Gives up the gaps before `upto`, which `packet` acknowledges: no segment will fill them.
    pub(crate) fn give_up(
        &mut self,
        upto: u64,
        packet: PacketRef,
        budget: &MemoryBudget,
        sink: &mut impl FnMut(Chunk<'_>),
    ) {
        while let Some(at) = self.at.filter(|at| *at < upto) {
            let next = self.pending.first_key_value().map_or(upto, |(start, _)| (*start).min(upto));
            if next > at {
                self.missing_bytes += next - at;
                self.gaps += u64::from(self.gap_end != Some(at));
                self.gap_end = Some(next);
                self.at = Some(next);
                sink(Chunk { start: at, end: next, known: &[], packet, missing: true });
            }
            self.drain(budget, sink);
        }
    }

    /// Passes over everything up to `upto`, which another file of the capture begins with; returns the number of bytes.
    pub(crate) fn pass_over(&mut self, upto: u64, budget: &MemoryBudget) -> u64 {
        while let Some(entry) = self.pending.first_entry().filter(|entry| *entry.key() < upto) {
            let piece = entry.remove();
            budget.release(PIECE_LEN + piece.known.len());
        }
        let missing = self.at.map_or(0, |at| upto.saturating_sub(at));
        if missing > 0 {
            self.at = Some(upto);
            self.missing_bytes += missing;
            self.gaps += 1;
            self.gap_end = None;
        }
        missing
    }

    fn drain(&mut self, budget: &MemoryBudget, sink: &mut impl FnMut(Chunk<'_>)) {
        while let Some(entry) = self.pending.first_entry() {
            let at = self.at.unwrap_or(0);
            if *entry.key() > at {
                return;
            }
            let (start, piece) = entry.remove_entry();
            budget.release(PIECE_LEN + piece.known.len());
            if piece.end > at {
                let Piece { end, known, packet } = &piece;
                let chunk = Chunk { start, end: *end, known, packet: *packet, missing: false };
                self.hand_on(chunk, at, sink);
            }
        }
    }

    /// Passes the part of a chunk from `at` on to `sink`.
    fn hand_on(&mut self, chunk: Chunk<'_>, at: u64, sink: &mut impl FnMut(Chunk<'_>)) {
        let known = chunk.known.get((at - chunk.start) as usize..).unwrap_or_default();
        self.at = Some(chunk.end);
        sink(Chunk { start: at, known, ..chunk });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes pieces of (start, length, known bytes), acknowledges everything before `acked`, and collects the output.
    fn run(
        stream: &mut Reassembler,
        budget: usize,
        pieces: &[(u64, u64, usize)],
        acked: u64,
    ) -> Vec<(u64, u64, usize)> {
        let (mut out, budget) = (Vec::new(), MemoryBudget::new(budget));
        let mut sink = |chunk: Chunk<'_>| out.push((chunk.start, chunk.end, chunk.known.len()));
        for (start, len, known) in pieces {
            let known = vec![0; *known];
            let chunk = Chunk {
                start: *start,
                end: start + len,
                known: &known,
                packet: PacketRef::default(),
                missing: false,
            };
            stream.push(chunk, &budget, &mut sink);
        }
        stream.give_up(acked, PacketRef::default(), &budget, &mut sink);
        out
    }

    #[test]
    fn order_is_restored_and_duplicates_are_dropped() {
        let mut stream = Reassembler::default();
        let out =
            run(&mut stream, 1 << 20, &[(0, 10, 10), (20, 10, 4), (5, 10, 10), (15, 5, 5), (0, 30, 30)], 0);
        assert_eq!(out, [(0, 10, 10), (10, 15, 5), (15, 20, 5), (20, 30, 4)]);
        assert_eq!(stream.missing_bytes, 0);
    }

    #[test]
    fn a_retransmitted_part_replaces_nothing() {
        let mut stream = Reassembler::default();
        stream.begin(0);
        let out = run(&mut stream, 1 << 20, &[(10, 30, 30), (10, 5, 5), (0, 10, 10)], 0);
        assert_eq!(out, [(0, 10, 10), (10, 40, 30)]);
    }

    #[test]
    fn acknowledged_bytes_without_a_packet_are_unknown() {
        let mut stream = Reassembler::default();
        stream.begin(0);
        let out = run(&mut stream, 1 << 20, &[(10, 5, 5), (30, 5, 5)], 35);
        assert_eq!(out, [(0, 10, 0), (10, 15, 5), (15, 30, 0), (30, 35, 5)]);
        assert_eq!((stream.missing_bytes, stream.gaps), (25, 2));
        run(&mut stream, 1 << 20, &[], 40);
        run(&mut stream, 1 << 20, &[], 45);
        assert_eq!(
            (stream.missing_bytes, stream.gaps),
            (35, 3),
            "one that is acknowledged bit by bit is one"
        );
    }

    #[test]
    fn without_memory_no_segment_waits() {
        let mut stream = Reassembler::default();
        stream.begin(0);
        let out = run(&mut stream, 2 * PIECE_LEN, &[(10, 1, 1), (20, 1, 1), (30, 1, 1)], 0);
        // The memory is enough for one piece; the third waits for more.
        assert_eq!(out, [(0, 10, 0), (10, 11, 1), (11, 20, 0), (20, 21, 1)]);
    }
}
