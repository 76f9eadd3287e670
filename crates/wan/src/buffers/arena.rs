//! Memory for the packets of a direction: a few large chunks, filled one after the other.
//!
//! A packet takes its own length, so the arena needs no more than the bytes that a path can hold (see
//! [`link::Line::memory_bytes`]), for acknowledgements as for super-packets. The chunk that was emptied last is
//! filled next: a short path stays in the processor's cache.

use link::{Cutter, EMPTY_PART, Handle};
use net::tun::MAX_BYTES;

use super::pieces;

const CHUNK_BYTES: usize = 1 << 20;
/// The end of a chunk stays empty where no largest packet fits.
const _: () = assert!((CHUNK_BYTES / MAX_BYTES) as u64 >= EMPTY_PART, "memory is asked for by this part");
/// Memory that is touched before the run, so that no page fault delays a packet. The rest is only reserved: most
/// paths never use it.
const PREFAULT_BYTES: usize = 256 << 20;

/// Buffers of one direction.
pub(crate) struct Arena {
    chunks: Vec<Chunk>,
    free: Vec<usize>,
    filling: usize,
}

struct Chunk {
    memory: Box<[u8]>,
    used_bytes: usize,
    live_packets: u32,
}

impl Arena {
    /// Room for `limit_bytes` of packets.
    pub(crate) fn new(limit_bytes: u64) -> Arena {
        let limit_chunks = (limit_bytes as usize).div_ceil(CHUNK_BYTES) + 1;
        let touched = limit_chunks.min(PREFAULT_BYTES / CHUNK_BYTES);
        let mut chunks: Vec<Chunk> = (0..limit_chunks).map(|_| Chunk::new()).collect();
        chunks[..touched].iter_mut().for_each(|chunk| chunk.memory.fill(0xa5));
        Arena { free: (1..limit_chunks).rev().collect(), chunks, filling: 0 }
    }

    /// Room for a packet of any size; `None` if the arena is full.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        if self.chunks[self.filling].used_bytes + MAX_BYTES > CHUNK_BYTES {
            // Its live packets bring it back to the free ones, see `release`.
            self.filling = self.free.pop()?;
        }
        let chunk = &mut self.chunks[self.filling];
        Some(&mut chunk.memory[chunk.used_bytes..][..MAX_BYTES])
    }

    /// Stores the first `bytes` of the last room as a packet.
    pub(crate) fn keep(&mut self, bytes: usize) -> Handle {
        let chunk = &mut self.chunks[self.filling];
        let handle = Place { chunk: self.filling, offset: chunk.used_bytes, bytes }.handle();
        chunk.used_bytes += bytes;
        chunk.live_packets += 1;
        handle
    }

    /// Bytes of a stored packet.
    pub(crate) fn bytes(&self, handle: Handle) -> &[u8] {
        let place = Place::of(handle);
        &self.chunks[place.chunk].memory[place.offset..][..place.bytes]
    }

    /// Adds a reference to the last packet: one of its segments needs it too.
    pub(crate) fn share(&mut self, handle: Handle) {
        self.chunks[Place::of(handle).chunk].live_packets += 1;
    }

    /// Reduces the last super-packet to the segments `taken`; the model dropped the others.
    pub(crate) fn keep_pieces(&mut self, handle: Handle, cutter: &Cutter, taken: &[u16]) {
        let place = Place::of(handle);
        let chunk = &mut self.chunks[place.chunk];
        let packet = &mut chunk.memory[place.offset..][..place.bytes];
        chunk.used_bytes = place.offset + pieces::keep(packet, cutter, taken);
    }

    /// Frees the last packet, all of which the model dropped. Its room is reused at once, or a burst of drops would
    /// fill the arena.
    pub(crate) fn take_back(&mut self, handle: Handle) {
        let place = Place::of(handle);
        self.chunks[place.chunk].used_bytes = place.offset;
        self.release(handle);
    }

    /// Drops a reference to a packet, and frees it with the last one.
    pub(crate) fn release(&mut self, handle: Handle) {
        let place = Place::of(handle);
        let chunk = &mut self.chunks[place.chunk];
        chunk.live_packets -= 1;
        if chunk.live_packets == 0 {
            chunk.used_bytes = 0;
            if place.chunk != self.filling {
                self.free.push(place.chunk);
            }
        }
    }
}

impl Chunk {
    fn new() -> Chunk {
        Chunk { memory: vec![0; CHUNK_BYTES].into_boxed_slice(), used_bytes: 0, live_packets: 0 }
    }
}

/// Layout of a [`Handle`]: 20 bits each for length and offset, the chunk above them.
struct Place {
    chunk: usize,
    offset: usize,
    bytes: usize,
}

const FIELD_BITS: u32 = 20;

impl Place {
    fn handle(&self) -> Handle {
        Handle(
            (self.chunk as u64) << (2 * FIELD_BITS) | (self.offset as u64) << FIELD_BITS | self.bytes as u64,
        )
    }

    fn of(handle: Handle) -> Place {
        let mask = (1 << FIELD_BITS) - 1;
        Place {
            chunk: (handle.0 >> (2 * FIELD_BITS)) as usize,
            offset: (handle.0 >> FIELD_BITS & mask) as usize,
            bytes: (handle.0 & mask) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(arena: &mut Arena, bytes: usize, mark: u8) -> Option<Handle> {
        arena.room()?[..bytes].fill(mark);
        Some(arena.keep(bytes))
    }

    #[test]
    fn packets_keep_their_bytes_in_any_order_of_release() {
        let mut arena = Arena::new(3 << 20);
        let kept: Vec<Handle> =
            (0..40).map(|n| keep(&mut arena, 60_000 + usize::from(n), n).expect("room for 40")).collect();
        for (n, handle) in kept.iter().enumerate().rev() {
            assert!(arena.bytes(*handle).iter().all(|byte| usize::from(*byte) == n));
            assert_eq!(arena.bytes(*handle).len(), 60_000 + n);
            arena.release(*handle);
        }
    }

    #[test]
    fn it_holds_what_was_asked_and_no_more() {
        let limit: u64 = 8 << 20;
        for bytes in [50, 1_510, 9_010, MAX_BYTES] {
            let mut arena = Arena::new(limit + limit.div_ceil(14));
            let mut held = Vec::new();
            while let Some(handle) = keep(&mut arena, bytes, 1) {
                held.push(handle);
            }
            let held_bytes = (held.len() * bytes) as u64;
            assert!(held_bytes >= limit && held_bytes <= limit * 3 / 2, "{bytes}: {held_bytes}");
            held.drain(..).for_each(|handle| arena.release(handle));
            assert!(keep(&mut arena, bytes, 2).is_some(), "what was released is there again");
        }
    }

    #[test]
    fn what_the_model_drops_takes_no_room() {
        let mut arena = Arena::new(1 << 20);
        let held = keep(&mut arena, 1500, 1).expect("room");
        for _ in 0..1_000 {
            let dropped = keep(&mut arena, 60_000, 2).expect("room for one more");
            arena.take_back(dropped);
        }
        assert_eq!(arena.bytes(held), [1; 1500]);
    }

    #[test]
    fn a_packet_lives_as_long_as_its_last_piece() {
        let mut arena = Arena::new(1 << 20);
        let shared = keep(&mut arena, 60_000, 3).expect("room");
        for _ in 0..40 {
            arena.share(shared);
        }
        (0..40).for_each(|_| arena.release(shared));
        let other = keep(&mut arena, 60_000, 4).expect("room for another");
        assert!(arena.bytes(shared).iter().all(|byte| *byte == 3) && shared != other);
        arena.release(shared);
        arena.release(other);
        assert_eq!(keep(&mut arena, 60_000, 5), Some(shared), "all is free again");
    }

    #[test]
    fn a_path_that_is_nearly_empty_stays_in_one_place() {
        let mut arena = Arena::new(8 << 20);
        let first = keep(&mut arena, 1500, 1).expect("room");
        arena.release(first);
        assert_eq!(keep(&mut arena, 1500, 1), Some(first));
    }
}
