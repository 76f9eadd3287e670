//! The bytes of one direction in order, known or not.
//!
//! A byte is unknown if the capture kept only the packet's beginning, or if its packet never was in the capture: a gap
//! that the peer has acknowledged, or that nothing fills while later pieces use up the room. Nobody waits for ever.

use std::collections::BTreeMap;

use super::budget::Budget;

/// Which packet something came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tag {
    /// From 1, as other tools count.
    pub(super) packet: u64,
    pub(super) t_ns: u64,
}

/// The next bytes of the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk<'a> {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The first of them, as many as are known.
    pub(super) known: &'a [u8],
    pub(super) tag: Tag,
}

/// Puts segments in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    at: Option<u64>,
    pending: BTreeMap<u64, Piece>,
    /// Bytes that never were in the capture.
    pub(super) missing_bytes: u64,
    /// In how many pieces.
    pub(super) gaps: u64,
    /// Where the last one ends, which may grow.
    missed_end: Option<u64>,
}

#[derive(Clone, Debug)]
struct Piece {
    end: u64,
    known: Vec<u8>,
    tag: Tag,
}

/// Pieces of one direction that may wait for a gap.
const PIECES_MAX: usize = 1 << 15;
/// What a piece takes besides its bytes.
const PIECE_LEN: usize = 128;

impl Stream {
    /// The stream begins here, behind a SYN.
    pub(super) fn begin(&mut self, at: u64) {
        self.at.get_or_insert(at);
    }

    /// A segment with data; what is in order now goes to `sink`.
    pub(super) fn push(&mut self, chunk: Chunk<'_>, budget: &Budget, sink: &mut impl FnMut(Chunk<'_>)) {
        let at = *self.at.get_or_insert(chunk.start);
        if chunk.end <= at {
            return;
        }
        if chunk.start > at {
            let cost = PIECE_LEN + chunk.known.len();
            if self.pending.len() >= PIECES_MAX || !budget.take(cost) {
                // No room to wait: what is before this is given up.
                self.give_up(chunk.start, chunk.tag, budget, sink);
                return self.push(chunk, budget, sink);
            }
            if self.pending.get(&chunk.start).is_some_and(|old| old.end >= chunk.end) {
                // A part of a larger one is sent again.
                budget.give(cost);
                return;
            }
            let piece = Piece { end: chunk.end, known: chunk.known.to_vec(), tag: chunk.tag };
            if let Some(old) = self.pending.insert(chunk.start, piece) {
                budget.give(PIECE_LEN + old.known.len());
            }
            return;
        }
        self.hand_on(chunk, at, sink);
        self.drain(budget, sink);
    }

    /// Everything before `upto` has arrived at the peer: what is missing there will not come.
    pub(super) fn give_up(&mut self, upto: u64, tag: Tag, budget: &Budget, sink: &mut impl FnMut(Chunk<'_>)) {
        while let Some(at) = self.at.filter(|at| *at < upto) {
            let next = self.pending.first_key_value().map_or(upto, |(start, _)| (*start).min(upto));
            if next > at {
                self.missing_bytes += next - at;
                self.gaps += u64::from(self.missed_end != Some(at));
                self.missed_end = Some(next);
                self.at = Some(next);
                sink(Chunk { start: at, end: next, known: &[], tag });
            }
            self.drain(budget, sink);
        }
    }

    fn drain(&mut self, budget: &Budget, sink: &mut impl FnMut(Chunk<'_>)) {
        while let Some(entry) = self.pending.first_entry() {
            let at = self.at.unwrap_or(0);
            if *entry.key() > at {
                return;
            }
            let (start, piece) = entry.remove_entry();
            budget.give(PIECE_LEN + piece.known.len());
            if piece.end > at {
                let chunk = Chunk { start, end: piece.end, known: &piece.known, tag: piece.tag };
                self.hand_on(chunk, at, sink);
            }
        }
    }

    /// The part of a chunk that lies behind `at`.
    fn hand_on(&mut self, chunk: Chunk<'_>, at: u64, sink: &mut impl FnMut(Chunk<'_>)) {
        let known = chunk.known.get((at - chunk.start) as usize..).unwrap_or_default();
        self.at = Some(chunk.end);
        sink(Chunk { start: at, known, ..chunk });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds (start, length, known) and collects what comes out; `None` in a row is a gap that is given up before it.
    fn run(
        stream: &mut Stream,
        budget: usize,
        pieces: &[(u64, u64, usize)],
        acked: u64,
    ) -> Vec<(u64, u64, usize)> {
        let (mut out, budget) = (Vec::new(), Budget::new(budget));
        let mut sink = |chunk: Chunk<'_>| out.push((chunk.start, chunk.end, chunk.known.len()));
        for (start, len, known) in pieces {
            let known = vec![0; *known];
            let chunk = Chunk { start: *start, end: start + len, known: &known, tag: Tag::default() };
            stream.push(chunk, &budget, &mut sink);
        }
        stream.give_up(acked, Tag::default(), &budget, &mut sink);
        out
    }

    #[test]
    fn order_is_restored_and_repeats_are_left_out() {
        let mut stream = Stream::default();
        let out =
            run(&mut stream, 1 << 20, &[(0, 10, 10), (20, 10, 4), (5, 10, 10), (15, 5, 5), (0, 30, 30)], 0);
        assert_eq!(out, [(0, 10, 10), (10, 15, 5), (15, 20, 5), (20, 30, 4)]);
        assert_eq!(stream.missing_bytes, 0);
    }

    #[test]
    fn a_part_that_is_sent_again_replaces_nothing() {
        let mut stream = Stream::default();
        stream.begin(0);
        let out = run(&mut stream, 1 << 20, &[(10, 30, 30), (10, 5, 5), (0, 10, 10)], 0);
        assert_eq!(out, [(0, 10, 10), (10, 40, 30)]);
    }

    #[test]
    fn what_was_acknowledged_and_not_seen_is_unknown() {
        let mut stream = Stream::default();
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
    fn without_room_nobody_waits() {
        let mut stream = Stream::default();
        stream.begin(0);
        let out = run(&mut stream, 2 * PIECE_LEN, &[(10, 1, 1), (20, 1, 1), (30, 1, 1)], 0);
        // There is room for one piece; the third waits for more.
        assert_eq!(out, [(0, 10, 0), (10, 11, 1), (11, 20, 0), (20, 21, 1)]);
    }
}
