//! A packet as the model sees it: sizes, arrival time and a handle, never its bytes.

use event::Instant;

/// Ethernet overhead of each packet on the wire: preamble and start delimiter 8, header 14, frame check sequence 4,
/// inter-packet gap 12 (IEEE 802.3, clause 4). 1 Gb/s at MTU 1500 carries 941.5 Mb/s of TCP payload with timestamps.
pub const FRAMING_BYTES: u32 = 38;

/// Identifies the bytes of a packet for their owner; opaque to the model.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle(pub u64);

/// A packet, or a super-packet that stands for several of MTU size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Bytes of the packet.
    pub handle: Handle,
    /// Arrival at the path.
    pub arrived: Instant,
    /// Bytes of IP in memory: the headers of a super-packet count once.
    pub ip_bytes: u32,
    /// Bytes it takes on the wire, see [`wire_bytes`].
    pub wire_bytes: u32,
    /// MTU-sized packets it stands for.
    pub segments: u16,
    /// Index of the segment within its super-packet; `None` if it is the whole of `handle`.
    pub piece: Option<u16>,
    /// Sequence number within the direction, from 1, assigned by the path.
    pub number: u64,
    /// Uncertainty of `arrived`: time since the device was last polled. The model ignores it.
    pub unseen_ns: u64,
    /// Index of the sending host at its end, from 0. The model ignores it.
    pub from: u8,
    /// Index of the receiving host at the other end, from 0. The model ignores it.
    pub to: u8,
    /// True if a copy follows, so that the bytes are still needed.
    pub again: bool,
}

impl Packet {
    /// A packet without a number, which the path assigns.
    pub const fn new(
        handle: Handle,
        arrived: Instant,
        ip_bytes: u32,
        wire_bytes: u32,
        segments: u16,
    ) -> Packet {
        Packet {
            handle,
            arrived,
            ip_bytes,
            wire_bytes,
            segments,
            piece: None,
            number: 0,
            unseen_ns: 0,
            from: 0,
            to: 0,
            again: false,
        }
    }
}

/// Bytes that `segments` packets take on the wire if together they hold `ip_bytes` with the headers counted
/// once: each but the first repeats `header_bytes` (IP and TCP), each is framed.
pub const fn wire_bytes(ip_bytes: u32, segments: u16, header_bytes: u32) -> u32 {
    let segments = if segments == 0 { 1 } else { segments as u32 };
    ip_bytes.saturating_add((segments - 1) * header_bytes).saturating_add(segments * FRAMING_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_super_packet_takes_what_its_segments_take() {
        // 10 segments of 1448 bytes of payload behind 52 bytes of headers.
        assert_eq!(wire_bytes(52 + 14_480, 10, 52), 10 * 1538);
        assert_eq!(wire_bytes(1500, 1, 52), 1538);
        assert_eq!(wire_bytes(84, 0, 0), 122, "a count of nothing is one packet");
    }
}
