//! Layout of a super-packet in memory after the model took some of its segments and dropped others.
//!
//! The payload behind the last segment taken is cut off. If much was dropped before it, as when only the short last
//! segment fitted into a queue, the remaining payload is moved together, and a table behind it lists the segments.
//! Otherwise a full queue of such segments would hold many times the memory that it counts.

use std::ops::Range;

use link::Cutter;
use net::tun::HEADER_BYTES;

/// Upper limit of the unused part of a packet in memory; see [`keep`].
const WASTE_PART: usize = link::WASTE_PART as usize;

/// Marks a packet with a table. Devices never set this bit of the header's flags (virtio 1.2, section 5.1.6), and
/// segments are sent with headers of their own.
const MARK: u8 = 0x80;
/// Header fields for the number of table entries and the bytes of payload before the table. Their virtio meaning does
/// not apply to segments, and [`Cut`](net::tun::Cut) does not read them.
const ENTRIES: Range<usize> = 2..4;
const BEFORE: Range<usize> = 8..10;
const ENTRY_BYTES: usize = size_of::<u16>();

/// Reduces `packet`, with the device's header, to the segments `taken` (at least one, in order) and returns its new
/// length. At most one [`WASTE_PART`]th of it is unused.
pub(crate) fn keep(packet: &mut [u8], cutter: &Cutter, taken: &[u16]) -> usize {
    let last = taken[taken.len() - 1];
    let cut_off = HEADER_BYTES + payload(cutter, last).end;
    let first_at = HEADER_BYTES + cutter.headers_len();
    let payload_bytes: usize = taken.iter().map(|piece| payload(cutter, *piece).len()).sum();
    let table_at = first_at + payload_bytes;
    let together = table_at + taken.len() * ENTRY_BYTES;
    let waste = cut_off - table_at;
    if waste * WASTE_PART <= cut_off || together >= cut_off {
        return cut_off;
    }
    let mut at = first_at;
    for piece in taken {
        let Range { start, end } = payload(cutter, *piece);
        packet.copy_within(HEADER_BYTES + start..HEADER_BYTES + end, at);
        at += end - start;
    }
    for (entry, piece) in packet[table_at..together].chunks_exact_mut(ENTRY_BYTES).zip(taken) {
        entry.copy_from_slice(&piece.to_ne_bytes());
    }
    packet[0] |= MARK;
    // Both fit, since an IP packet is limited to 64 KiB.
    packet[ENTRIES].copy_from_slice(&(taken.len() as u16).to_ne_bytes());
    packet[BEFORE].copy_from_slice(&(payload_bytes as u16).to_ne_bytes());
    together
}

/// Payload of adjacent segments of `packet`, all of which were taken.
pub(crate) fn payload_of<'a>(packet: &'a [u8], cutter: &Cutter, pieces: Range<u16>) -> &'a [u8] {
    let ip = &packet[HEADER_BYTES..];
    let place = cutter.payload(pieces.clone());
    if packet[0] & MARK == 0 {
        return &ip[place];
    }
    let field = |at: Range<usize>| usize::from(u16::from_ne_bytes([packet[at.start], packet[at.start + 1]]));
    let table_at = cutter.headers_len() + field(BEFORE);
    let (table, _) = ip[table_at..][..field(ENTRIES) * ENTRY_BYTES].as_chunks();
    let found = table.binary_search_by_key(&pieces.start, |entry| u16::from_ne_bytes(*entry));
    // Those before it are no last ones, and so as long as the first of all.
    let before = found.expect("a piece that was taken") * payload(cutter, 0).len();
    &ip[cutter.headers_len() + before..][..place.len()]
}

fn payload(cutter: &Cutter, piece: u16) -> Range<usize> {
    cutter.payload(piece..piece + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use event::{BitRate, Instant};
    use link::{Line, Path, Shape, Stage, wire_bytes};
    use net::tun::MAX_BYTES;

    use super::*;
    use crate::buffers::Arena;
    use crate::forwarding::super_packet;

    const MSS: usize = 1448;

    /// A super-packet with `payload_bytes` that count up in pairs, and how to cut it.
    fn numbered(payload_bytes: usize) -> (Vec<u8>, Cutter) {
        let mut packet = super_packet(payload_bytes);
        let first_at = packet.len() - payload_bytes;
        for (n, pair) in packet[first_at..].chunks_mut(2).enumerate() {
            let bytes = (n as u16).to_be_bytes();
            pair.copy_from_slice(&bytes[..pair.len()]);
        }
        let cutter = Cutter::new(&packet[HEADER_BYTES..], MSS).expect("a super-packet");
        (packet, cutter)
    }

    #[test]
    fn every_piece_that_was_taken_keeps_its_payload() {
        let (whole, cutter) = numbered(44 * MSS + 7);
        let all: Vec<u16> = (0..45).collect();
        let every = |step| all.iter().copied().step_by(step).collect::<Vec<_>>();
        for taken in [
            vec![44],
            vec![0],
            vec![20],
            vec![0, 44],
            vec![3, 4, 5, 9, 43, 44],
            every(2),
            every(3),
            every(11),
            all.clone(),
            all[1..].to_vec(),
            all[..44].to_vec(),
            all[30..44].to_vec(),
        ] {
            let mut packet = whole.clone();
            let kept = keep(&mut packet, &cutter, &taken);
            let needed = HEADER_BYTES
                + cutter.headers_len()
                + taken.iter().map(|piece| payload(&cutter, *piece).len() + ENTRY_BYTES).sum::<usize>();
            assert!(kept - kept / WASTE_PART <= needed, "{taken:?}: {kept} kept, {needed} needed");
            // The next packet comes to lie there.
            packet[kept..].fill(0xa5);
            assert_eq!(Cutter::new(&packet[HEADER_BYTES..], MSS), Some(cutter), "{taken:?}");
            for run in taken.chunk_by(|piece, next| piece + 1 == *next) {
                let pieces = run[0]..run[run.len() - 1] + 1;
                let expected = &whole[HEADER_BYTES..][cutter.payload(pieces.clone())];
                assert!(payload_of(&packet, &cutter, pieces) == expected, "{run:?} of {taken:?}");
            }
        }
    }

    /// A queue that always has room for the short last segment of a super-packet, and seldom for another.
    #[test]
    fn a_direction_that_keeps_its_limit_never_runs_out_of_memory() {
        let rate = BitRate(1_000_000_000);
        let line = Line::plain(Shape { delay: Duration::from_millis(100), rate, queue_bytes: 25_000_000 });
        let (mut path, mut arena) = (Path::new(&line.shape), Arena::new(line.memory_bytes()));
        let (whole, cutter) = numbered(44 * MSS + 7);
        // A sender at four times the rate for two seconds of the model's time.
        let gap = rate.time_for(whole.len() as u64) / 4;
        let (mut now, mut longest) = (Instant::ZERO, 0);
        while now < Instant::ZERO + Duration::from_secs(2) {
            now += gap;
            while let Some((_, packet)) = path.pop(now) {
                arena.release(packet.handle);
            }
            let room = arena.room().expect("room, as the queue is within its limit");
            assert_eq!(room.len(), MAX_BYTES);
            room[..whole.len()].copy_from_slice(&whole);
            let handle = arena.keep(whole.len());
            let mut taken = Vec::new();
            for piece in 0..cutter.pieces() {
                let ip_bytes = cutter.ip_bytes(piece);
                let packet = link::Packet::new(handle, now, ip_bytes, wire_bytes(ip_bytes, 1, 0), 1);
                if path.push(now, link::Packet { piece: Some(piece), ..packet }).is_ok() {
                    arena.share(handle);
                    taken.push(piece);
                }
            }
            longest = longest.max(taken.len());
            match taken.is_empty() {
                true => arena.take_back(handle),
                false => {
                    arena.keep_pieces(handle, &cutter, &taken);
                    arena.release(handle);
                }
            }
        }
        assert_eq!(longest, 45, "the queue was empty once");
    }
}
