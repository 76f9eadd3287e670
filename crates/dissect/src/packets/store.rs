//! Bytes of packets that wait, in pieces that are filled one after the other and used again when they are empty.

/// Size of a piece in bytes; a longer packet has one of its own.
const PIECE_LEN: usize = 256 << 10;

/// Place of a packet's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    piece: u32,
    at: u32,
    len: u32,
}

/// Bytes of many packets.
#[derive(Debug, Default)]
pub(super) struct Store {
    pieces: Vec<Piece>,
    /// Numbers of empty pieces.
    empty: Vec<u32>,
    /// Number of the piece that is being filled.
    current: u32,
    /// Bytes of the pieces that are not empty.
    held: usize,
}

#[derive(Debug, Default)]
struct Piece {
    bytes: Vec<u8>,
    /// Packets in it.
    packets: u32,
}

impl Store {
    /// Keeps the bytes of a packet.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Place {
        let current = self.current as usize;
        let has_room = |piece: &Piece| piece.bytes.capacity() - piece.bytes.len() >= bytes.len();
        if !self.pieces.get(current).is_some_and(has_room) {
            self.begin_piece(bytes.len());
        }
        let piece = &mut self.pieces[self.current as usize];
        let at = piece.bytes.len() as u32;
        piece.bytes.extend_from_slice(bytes);
        piece.packets += 1;
        Place { piece: self.current, at, len: bytes.len() as u32 }
    }

    /// Bytes of a packet.
    pub(super) fn bytes(&self, place: Place) -> &[u8] {
        &self.pieces[place.piece as usize].bytes[place.at as usize..][..place.len as usize]
    }

    /// Forgets a packet.
    pub(super) fn forget(&mut self, place: Place) {
        let piece = &mut self.pieces[place.piece as usize];
        piece.packets -= 1;
        if piece.packets == 0 && place.piece != self.current {
            self.discard(place.piece);
        }
    }

    /// Bytes that pieces take, without the empty ones.
    pub(super) fn held_bytes(&self) -> usize {
        self.held
    }

    fn begin_piece(&mut self, len: usize) {
        if self.pieces.get(self.current as usize).is_some_and(|piece| piece.packets == 0) {
            self.discard(self.current);
        }
        self.current = self.empty.pop().unwrap_or_else(|| {
            self.pieces.push(Piece::default());
            self.pieces.len() as u32 - 1
        });
        let piece = &mut self.pieces[self.current as usize];
        piece.bytes.reserve_exact(len.max(PIECE_LEN));
        self.held += piece.bytes.capacity();
    }

    fn discard(&mut self, number: u32) {
        let piece = &mut self.pieces[number as usize];
        self.held -= piece.bytes.capacity();
        piece.bytes.clear();
        if piece.bytes.capacity() > PIECE_LEN {
            piece.bytes = Vec::new();
        }
        self.empty.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_used_again() {
        let mut store = Store::default();
        let packet = vec![7; 1_000];
        for _ in 0..10_000 {
            let places = [store.push(&packet), store.push(&[]), store.push(&packet[..1])];
            assert_eq!(store.bytes(places[0]), packet);
            assert_eq!(store.bytes(places[2]), [7]);
            places.into_iter().for_each(|place| store.forget(place));
        }
        assert!(store.pieces.len() <= 2, "{} pieces", store.pieces.len());
        assert_eq!(store.held_bytes(), PIECE_LEN);
    }

    #[test]
    fn a_packet_that_stays_holds_one_piece() {
        let mut store = Store::default();
        let stays = store.push(&[1]);
        for _ in 0..10 {
            let long = store.push(&vec![2; 3 * PIECE_LEN]);
            store.forget(long);
        }
        store.push(&[3]);
        assert_eq!(store.bytes(stays), [1]);
        assert!(store.held_bytes() <= 2 * PIECE_LEN, "{} bytes", store.held_bytes());
    }
}
