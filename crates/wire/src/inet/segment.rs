//! A TCP segment in a packet of which perhaps only the first bytes were kept.
//!
//! [`super::Headers`] reads whole packets and refuses others; here lengths come from the headers and the bytes may end
//! anywhere behind the fixed part of the TCP header.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::options::Options;
use super::{AUTHENTICATION, DESTINATION, FRAGMENT, HOP_BY_HOP, ROUTING, TCP};
use crate::be;

/// Fixed part of a TCP header.
const TCP_LEN: usize = 20;

/// A segment as it was on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Sender.
    pub src: SocketAddr,
    /// Receiver.
    pub dst: SocketAddr,
    /// Sequence number of the first byte.
    pub seq: u32,
    /// The byte that is expected next; means nothing without the flag ACK.
    pub ack: u32,
    /// FIN, SYN, RST, PSH, ACK, URG, ECE and CWR, from the lowest bit on.
    pub flags: u8,
    /// The window as it stands in the header, not scaled.
    pub window: u16,
    /// The options, as far as they were captured.
    pub options: Options,
    /// Bytes of IP it had, headers included.
    pub ip_len: usize,
    /// Bytes of payload it had.
    pub len: usize,
    /// The first of them, as many as were kept.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads a packet that begins with its IP header and had `wire_len` bytes; `None` if it is no TCP segment, a later
    /// fragment, or cut off before the end of the fixed TCP header.
    #[must_use]
    pub fn parse(packet: &'a [u8], wire_len: usize) -> Option<Self> {
        let Place { src, dst, tcp_at, total_len } = locate(packet, wire_len)?;
        let tcp = packet.get(tcp_at..)?;
        if tcp.len() < TCP_LEN {
            return None;
        }
        let header_len = usize::from(tcp[12] >> 4) * 4;
        if header_len < TCP_LEN {
            return None;
        }
        let len = total_len.checked_sub(tcp_at + header_len)?;
        let payload = tcp.get(header_len..).unwrap_or_default();
        let options = Options::parse(&tcp[TCP_LEN..header_len.min(tcp.len())]);
        Some(Self {
            src: SocketAddr::new(src, be::u16_at(tcp, 0)),
            dst: SocketAddr::new(dst, be::u16_at(tcp, 2)),
            seq: be::u32_at(tcp, 4),
            ack: be::u32_at(tcp, 8),
            flags: tcp[13],
            window: be::u16_at(tcp, 14),
            options: Options { is_cut: header_len > tcp.len(), ..options },
            ip_len: total_len,
            len,
            payload: &payload[..len.min(payload.len())],
        })
    }
}

/// Addresses and place of a TCP header.
pub(super) struct Place {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    /// Bytes in front of the TCP header.
    pub(super) tcp_at: usize,
    /// Bytes of the packet on the wire, by its header. A length of 0 stands in super-packets of Linux above 65535 bytes:
    /// the frame's length counts then.
    pub(super) total_len: usize,
}

/// Finds the TCP header of a packet that begins with its IP header and had `wire_len` bytes.
pub(super) fn locate(packet: &[u8], wire_len: usize) -> Option<Place> {
    locate_protocol(packet, wire_len, TCP)
}

/// The same of another protocol.
pub(super) fn locate_protocol(packet: &[u8], wire_len: usize, protocol: u8) -> Option<Place> {
    match packet.first()? >> 4 {
        4 => v4(packet, wire_len, protocol),
        6 => v6(packet, wire_len, protocol),
        _ => None,
    }
}

fn v4(packet: &[u8], wire_len: usize, protocol: u8) -> Option<Place> {
    let header = packet.get(..20)?;
    // The length of a first fragment's segment is unknown.
    if be::u16_at(header, 6) & 0x3fff != 0 {
        return None;
    }
    let total_len = match be::u16_at(header, 2) {
        0 => wire_len,
        len => usize::from(len),
    };
    let address =
        |at: usize| IpAddr::V4(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]));
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let tcp_at = behind_extensions(packet, (header[9], header_len), protocol)?;
    (header_len >= 20).then(|| Place { src: address(12), dst: address(16), tcp_at, total_len })
}

fn v6(packet: &[u8], wire_len: usize, protocol: u8) -> Option<Place> {
    let header = packet.first_chunk::<40>()?;
    let total_len = match be::u16_at(header, 4) {
        0 => wire_len,
        len => 40 + usize::from(len),
    };
    let address = |at: usize| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&header[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(bytes))
    };
    let tcp_at = behind_extensions(packet, (header[6], 40), protocol)?;
    Some(Place { src: address(8), dst: address(24), tcp_at, total_len })
}

/// Place of `protocol` behind extension headers of IPv6, or behind an authentication header of IPv4.
#[inline]
fn behind_extensions(packet: &[u8], (mut next, mut at): (u8, usize), protocol: u8) -> Option<usize> {
    // Every turn consumes at least eight bytes of the packet.
    while matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION) {
        let extension = packet.get(at..at + 8)?;
        let units = usize::from(extension[1]);
        at += match next {
            // A fragment header on a whole packet: RFC 6946.
            FRAGMENT if be::u16_at(extension, 2) & 0xfff9 == 0 => 8,
            FRAGMENT => return None,
            AUTHENTICATION => (units + 2) * 4,
            _ => (units + 1) * 8,
        };
        next = extension[0];
    }
    (next == protocol).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet of a segment with `len` bytes of payload, each 7, and a window scale.
    fn packet(len: usize) -> Vec<u8> {
        let mut packet = vec![0; 44];
        packet[0] = 0x45;
        be::put_u16(&mut packet, 2, (44 + len) as u16);
        packet[9] = TCP;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        be::put_u16(&mut packet, 20, 40_000);
        be::put_u16(&mut packet, 22, 3260);
        be::put_u32(&mut packet, 24, 0xffff_fff0);
        be::put_u32(&mut packet, 28, 9);
        (packet[32], packet[33]) = (0x60, 0x18);
        be::put_u16(&mut packet, 34, 512);
        packet[40..44].copy_from_slice(&[3, 3, 7, 0]);
        packet.resize(44 + len, 7);
        packet
    }

    #[test]
    fn whole_and_cut_off() {
        let whole = packet(100);
        let segment = Segment::parse(&whole, 144).expect("a segment");
        assert_eq!((segment.src.to_string(), segment.dst.port()), ("10.0.0.1:40000".to_owned(), 3260));
        assert_eq!((segment.seq, segment.ack, segment.flags, segment.window), (0xffff_fff0, 9, 0x18, 512));
        assert_eq!((segment.options.window_scale, segment.len, segment.ip_len), (Some(7), 100, 144));
        assert_eq!(segment.payload, [7; 100]);
        for kept in 0..whole.len() {
            let cut = Segment::parse(&whole[..kept], 144);
            assert_eq!(cut.is_some(), kept >= 40, "{kept} bytes");
            if let Some(cut) = cut {
                assert_eq!((cut.len, cut.payload.len()), (100, kept.saturating_sub(44)));
                assert_eq!(cut.options.is_cut, kept < 44);
            }
        }
    }

    #[test]
    fn padding_is_no_payload_and_length_zero_means_the_frame() {
        let mut padded = packet(0);
        padded.resize(60, 0);
        assert_eq!(Segment::parse(&padded, 60).map(|s| (s.len, s.payload.len())), Some((0, 0)));
        let mut large = packet(0);
        be::put_u16(&mut large, 2, 0);
        assert_eq!(Segment::parse(&large, 100_044).map(|s| s.len), Some(100_000));
    }

    #[test]
    fn v6_with_an_extension() {
        let mut v6 = vec![0; 48];
        (v6[0], v6[6], v6[40]) = (0x60, HOP_BY_HOP, TCP);
        be::put_u16(&mut v6, 4, 8 + 24 + 10);
        v6[23] = 1;
        v6.extend(&packet(10)[20..]);
        let segment = Segment::parse(&v6, v6.len()).expect("a segment");
        assert_eq!((segment.src.to_string(), segment.len), ("[::1]:40000".to_owned(), 10));
    }

    #[test]
    fn behind_an_authentication_header_and_in_an_atomic_fragment() {
        let mut secured = packet(10);
        let inner = secured.split_off(20);
        secured[9] = AUTHENTICATION;
        be::put_u16(&mut secured, 2, 44 + 10 + 16);
        secured.extend([TCP, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4]);
        secured.extend(inner);
        assert_eq!(Segment::parse(&secured, secured.len()).map(|s| (s.len, s.dst.port())), Some((10, 3260)));
        let mut v6 = vec![0; 48];
        (v6[0], v6[6], v6[40]) = (0x60, FRAGMENT, TCP);
        be::put_u16(&mut v6, 4, 8 + 24 + 10);
        v6.extend(&packet(10)[20..]);
        assert_eq!(Segment::parse(&v6, v6.len()).map(|s| s.len), Some(10));
        v6[43] = 1;
        assert_eq!(Segment::parse(&v6, v6.len()), None, "more fragments follow");
    }

    #[test]
    fn what_is_no_segment() {
        let mut fragment = packet(10);
        fragment[6] = 0x20;
        assert_eq!(Segment::parse(&fragment, 54), None);
        let mut short = packet(10);
        be::put_u16(&mut short, 2, 40);
        assert_eq!(Segment::parse(&short, 54), None, "a header behind the packet's end");
    }
}
