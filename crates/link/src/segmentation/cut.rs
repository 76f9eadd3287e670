//! Segmentation of super-packets into packets of MTU size, as a network card does (TSO).
//!
//! Headers are made for each piece on demand; the payload stays in place. Lengths, the IPv4 identification, sequence
//! number and flags follow RFC 9293 and Linux' own segmentation; the checksum field holds the sum of the
//! pseudo-header, as with checksum offload (virtio 1.2, section 5.1.6.2). Adjacent pieces that are delivered together
//! may share one header, as after GRO: [`Cutter::headers`] takes a range, and `join.rs` joins packets that were sent
//! singly.

use std::ops::Range;

use wire::inet::tcp::{CWR, FIN, PSH};
use wire::inet::{Headers, TCP};

/// Longest headers that are supported: IPv4 and TCP with all options, or IPv6 with some.
pub const HEADERS_MAX: usize = 160;

const V4_TOTAL_LEN: usize = 2;
const V4_ID: usize = 4;
const V4_CHECKSUM: usize = 10;
const V4_ADDRESSES: Range<usize> = 12..20;
const V6_PAYLOAD_LEN: usize = 4;
const V6_HEADER_LEN: usize = 40;
const V6_ADDRESSES: Range<usize> = 8..40;
const TCP_SEQUENCE: usize = 4;
const TCP_FLAGS: usize = 13;
/// Offset of the checksum in the TCP header.
pub const TCP_CHECKSUM: usize = 16;

/// Segmentation of one super-packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cutter {
    headers: Headers,
    payload_per_piece: usize,
    pieces: u16,
}

/// The headers of a piece, or of several in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PieceHeaders {
    bytes: [u8; HEADERS_MAX],
    len: usize,
}

impl Cutter {
    /// For a packet of TCP that begins with its IP header, with `payload_per_piece` bytes in each segment; `None` if
    /// it cannot be cut, or need not be.
    pub fn new(packet: &[u8], payload_per_piece: usize) -> Option<Cutter> {
        let headers = Headers::parse(packet).ok()?;
        let headers_len = headers.ip_header_len + headers.transport_header_len;
        let cuttable = headers.protocol == TCP
            && headers.transport_header_len > 0
            && headers_len <= HEADERS_MAX
            && payload_per_piece > 0
            && headers.payload_len > payload_per_piece;
        let pieces =
            u16::try_from(headers.payload_len.checked_div(payload_per_piece)?.checked_add(1)?).ok()?;
        let pieces = if headers.payload_len % payload_per_piece == 0 { pieces - 1 } else { pieces };
        cuttable.then_some(Cutter { headers, payload_per_piece, pieces })
    }

    /// For a single packet with payload, to which others may be joined; `None` if its headers are too long.
    pub(crate) fn whole(headers: Headers) -> Option<Cutter> {
        let fits = headers.ip_header_len + headers.transport_header_len <= HEADERS_MAX;
        fits.then_some(Cutter { headers, payload_per_piece: headers.payload_len, pieces: 1 })
    }

    /// Adds a piece of `payload_len` bytes.
    pub(crate) const fn lengthen(&mut self, payload_len: usize) {
        self.headers.payload_len += payload_len;
        self.headers.total_len += payload_len;
        self.pieces += 1;
    }

    /// Bytes of IP of all pieces as one packet.
    pub(crate) const fn total_len(&self) -> usize {
        self.headers_len() + self.headers.payload_len
    }

    /// Bytes of payload of each piece but the last.
    pub const fn payload_per_piece(&self) -> usize {
        self.payload_per_piece
    }

    /// Number of pieces; at least two for a super-packet.
    pub const fn pieces(&self) -> u16 {
        self.pieces
    }

    /// Bytes of the headers of each piece.
    pub const fn headers_len(&self) -> usize {
        self.headers.ip_header_len + self.headers.transport_header_len
    }

    /// Offset of the TCP header.
    pub const fn transport_at(&self) -> usize {
        self.headers.ip_header_len
    }

    /// IP version: 4 or 6.
    pub const fn version(&self) -> u8 {
        self.headers.version
    }

    /// Bytes of IP of piece number `piece`, from 0.
    pub fn ip_bytes(&self, piece: u16) -> u32 {
        (self.headers_len() + self.payload(piece..piece + 1).len()) as u32
    }

    /// Range of the payload of adjacent pieces within the packet.
    pub fn payload(&self, pieces: Range<u16>) -> Range<usize> {
        assert!(
            pieces.start < pieces.end && pieces.end <= self.pieces,
            "pieces {pieces:?} of {}",
            self.pieces
        );
        let at = |piece: u16| usize::from(piece) * self.payload_per_piece;
        let (start, end) = (at(pieces.start), at(pieces.end).min(self.headers.payload_len));
        self.headers_len() + start..self.headers_len() + end
    }

    /// TCP flags of adjacent pieces of a packet with `flags`.
    pub const fn flags(&self, flags: u8, pieces: Range<u16>) -> u8 {
        let behind_the_first = if pieces.start > 0 { CWR } else { 0 };
        let before_the_last = if pieces.end < self.pieces { FIN | PSH } else { 0 };
        flags & !behind_the_first & !before_the_last
    }

    /// Headers of adjacent pieces of `packet`, the one that this segmentation was made for.
    pub fn headers(&self, packet: &[u8], pieces: Range<u16>) -> PieceHeaders {
        let len = self.headers_len();
        let mut made = PieceHeaders { bytes: [0; HEADERS_MAX], len };
        made.bytes[..len].copy_from_slice(&packet[..len]);
        let payload = self.payload(pieces.clone());
        let bytes = &mut made.bytes[..len];
        let (ip, tcp) = bytes.split_at_mut(self.headers.ip_header_len);
        // At most 65 535: the length field of a super-packet has 16 bits.
        let total_len = (len + payload.len()) as u16;
        let addresses = if self.headers.version == 4 {
            put(ip, V4_TOTAL_LEN, total_len);
            put(ip, V4_ID, take(ip, V4_ID).wrapping_add(pieces.start));
            put(ip, V4_CHECKSUM, 0);
            let sum = !fold(sum(ip));
            put(ip, V4_CHECKSUM, sum);
            V4_ADDRESSES
        } else {
            put(ip, V6_PAYLOAD_LEN, total_len - V6_HEADER_LEN as u16);
            V6_ADDRESSES
        };
        let before = (payload.start - len) as u32;
        let sequence = [0, 1, 2, 3].map(|byte| tcp[TCP_SEQUENCE + byte]);
        let sequence = u32::from_be_bytes(sequence).wrapping_add(before);
        tcp[TCP_SEQUENCE..][..4].copy_from_slice(&sequence.to_be_bytes());
        tcp[TCP_FLAGS] = self.flags(tcp[TCP_FLAGS], pieces.clone());
        let tcp_len = tcp.len() + payload.len();
        put(tcp, TCP_CHECKSUM, fold(sum(&ip[addresses]) + u32::from(TCP) + tcp_len as u32));
        made
    }
}

impl PieceHeaders {
    /// Adds `flags` to the TCP header.
    pub(crate) const fn with_flags(mut self, transport_at: usize, flags: u8) -> PieceHeaders {
        self.bytes[transport_at + TCP_FLAGS] |= flags;
        self
    }

    /// The IP and the TCP header.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn take(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// The sum of RFC 1071 over at most 64 KiB, not folded; headers have an even length.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]))).sum()
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const SEQUENCE: u32 = u32::MAX - 2_000;

    /// A super-packet of TCP with 12 bytes of options, all flags set that matter.
    pub(crate) fn super_packet(version: u8, payload_len: usize) -> Vec<u8> {
        let tcp_len = 32 + payload_len;
        let mut packet = match version {
            4 => {
                let mut ip = vec![0x45, 2, 0, 0, 0xff, 0xff, 0x40, 0, 64, TCP, 0xa5, 0xa5];
                ip.extend([198, 18, 0, 1, 198, 18, 0, 2]);
                put(&mut ip, V4_TOTAL_LEN, (20 + tcp_len) as u16);
                ip
            }
            _ => {
                let mut ip = vec![0x60, 0x20, 0, 7, 0, 0, TCP, 64];
                ip.extend(0..32);
                put(&mut ip, V6_PAYLOAD_LEN, tcp_len as u16);
                ip
            }
        };
        packet.extend([0x0c, 0xbc, 0x80, 0x01]);
        packet.extend(SEQUENCE.to_be_bytes());
        packet.extend([1, 2, 3, 4, 8 << 4, CWR | 0x10 | PSH | FIN, 1, 0, 0xa5, 0xa5, 0, 0]);
        packet.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        packet.extend((0..payload_len).map(|n| (n * 7 + n / 251) as u8));
        packet
    }

    /// Completes the checksum as the receiving device would and verifies the segment.
    fn tcp_is_right(cutter: &Cutter, headers: &[u8], payload: &[u8]) -> bool {
        let ip_len = cutter.transport_at();
        let mut segment = [&headers[ip_len..], payload].concat();
        let partial = fold(sum(&segment));
        put(&mut segment, TCP_CHECKSUM, !partial);
        let addresses = if cutter.version() == 4 { V4_ADDRESSES } else { V6_ADDRESSES };
        let pseudo = sum(&headers[addresses]) + u32::from(TCP) + segment.len() as u32;
        fold(u32::from(fold(sum(&segment))) + pseudo) == 0xffff
    }

    #[test]
    fn pieces_are_packets_of_their_own_and_hold_everything_once() {
        for (version, payload_len, per_piece, pieces) in [
            (4, 10_000, 1_448, 7),
            (4, 2_896, 1_448, 2),
            (6, 10_000, 1_428, 8),
            (6, 9_000, 8_928, 2),
            (4, 64_000, 1, 64_000),
        ] {
            let packet = super_packet(version, payload_len);
            let cutter = Cutter::new(&packet, per_piece).expect("a super-packet");
            assert_eq!(cutter.pieces(), pieces);
            let mut payload = Vec::new();
            for piece in (0..pieces).step_by(if pieces > 100 { 997 } else { 1 }) {
                let range = cutter.payload(piece..piece + 1);
                let made = cutter.headers(&packet, piece..piece + 1);
                let whole = [made.bytes(), &packet[range.clone()]].concat();
                let read = Headers::parse(&whole).expect("a packet");
                assert_eq!(read.total_len, whole.len(), "its length field is right");
                assert_eq!(cutter.ip_bytes(piece) as usize, whole.len());
                if version == 4 {
                    assert_eq!(fold(sum(&whole[..20])), 0xffff, "the header's checksum");
                    assert_eq!(take(&whole, V4_ID), 0xffff_u16.wrapping_add(piece));
                }
                let tcp = &whole[cutter.transport_at()..];
                let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
                assert_eq!(sequence, SEQUENCE.wrapping_add(piece as u32 * per_piece as u32));
                let (first, last) = (piece == 0, piece + 1 == pieces);
                let flags = 0x10 | if first { CWR } else { 0 } | if last { PSH | FIN } else { 0 };
                assert_eq!(tcp[TCP_FLAGS], flags, "piece {piece} of {pieces}");
                assert!(tcp_is_right(&cutter, made.bytes(), &packet[range.clone()]));
                payload.extend_from_slice(&packet[range]);
            }
            if pieces <= 100 {
                assert_eq!(payload, packet[cutter.headers_len()..]);
            }
        }
    }

    #[test]
    fn pieces_in_a_row_make_a_super_packet_again() {
        let packet = super_packet(4, 10_000);
        let cutter = Cutter::new(&packet, 1_448).expect("a super-packet");
        let all = cutter.headers(&packet, 0..7);
        assert_eq!(cutter.payload(0..7), 52..10_052);
        // Only the checksums were left for a device to make.
        assert_eq!(all.bytes()[..10], packet[..10]);
        assert_eq!(all.bytes()[12..36], packet[12..36]);
        let middle = cutter.headers(&packet, 2..5);
        assert!(tcp_is_right(&cutter, middle.bytes(), &packet[cutter.payload(2..5)]));
        assert_eq!(take(middle.bytes(), V4_TOTAL_LEN), 52 + 3 * 1_448);
        assert_eq!(middle.bytes()[20 + TCP_FLAGS], 0x10);
    }

    #[test]
    fn what_cannot_be_cut_is_left_whole() {
        let packet = super_packet(4, 3_000);
        assert_eq!(Cutter::new(&packet, 3_000), None, "one piece");
        assert_eq!(Cutter::new(&packet, 0), None);
        assert_eq!(Cutter::new(&[], 1_448), None);
        for len in 0..packet.len() {
            assert_eq!(Cutter::new(&packet[..len], 1_448), None, "cut off after {len} bytes");
        }
        let mut datagram = packet.clone();
        datagram[9] = 17;
        assert_eq!(Cutter::new(&datagram, 1_448), None);
    }
}
