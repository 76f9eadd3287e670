//! ICMP reports of packets that did not arrive: destination unreachable (RFC 792, RFC 1812 section 5.2.7.1) with the
//! next hop's MTU (RFC 1191 section 4), destination unreachable and packet too big of ICMPv6 (RFC 4443 sections 3.1, 3.2).
//!
//! A report quotes the beginning of the packet, at least the IP header and eight bytes behind it: ports and sequence number
//! of a TCP segment.

use std::net::{IpAddr, SocketAddr};

use super::segment::locate_protocol;
use super::{ICMP, ICMP_V6, TCP};
use crate::be;

/// Bytes of a report in front of the packet that it quotes.
const REPORT_LEN: usize = 8;
const DESTINATION_UNREACHABLE: [u8; 2] = [3, 1];
const FRAGMENTATION_NEEDED: u8 = 4;
const PACKET_TOO_BIG_V6: u8 = 2;

/// A report about a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Sender of the report: a router, or the host that refuses the segment.
    pub from: IpAddr,
    /// Reason.
    pub reason: UnreachableReason,
    /// Sender of the segment.
    pub src: SocketAddr,
    /// Destination of the segment.
    pub dst: SocketAddr,
    /// Sequence number of the segment.
    pub seq: u32,
    /// Length of its IP packet in bytes.
    pub ip_len: usize,
}

/// Reason of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreachableReason {
    /// The packet is larger than the MTU of the next hop; `None` from a router older than RFC 1191.
    TooBig(Option<u32>),
    /// A code of ICMP.
    V4(u8),
    /// A code of ICMPv6.
    V6(u8),
}

impl Unreachable {
    /// Reads a packet that begins with its IP header; `None` unless it is a report about a TCP segment.
    #[must_use]
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let is_v4 = packet.first()? >> 4 == 4;
        let place = locate_protocol(packet, packet.len(), if is_v4 { ICMP } else { ICMP_V6 })?;
        let (report, quoted) = packet.get(place.tcp_at..)?.split_at_checked(REPORT_LEN)?;
        let mtu = if is_v4 { u32::from(be::u16_at(report, 6)) } else { be::u32_at(report, 4) };
        let too_big = UnreachableReason::TooBig(Some(mtu).filter(|mtu| *mtu > 0));
        let reason = match (is_v4, report[0], report[1]) {
            (true, kind, FRAGMENTATION_NEEDED) if kind == DESTINATION_UNREACHABLE[0] => too_big,
            (true, kind, code) if kind == DESTINATION_UNREACHABLE[0] => UnreachableReason::V4(code),
            (false, PACKET_TOO_BIG_V6, _) => too_big,
            (false, kind, code) if kind == DESTINATION_UNREACHABLE[1] => UnreachableReason::V6(code),
            _ => return None,
        };
        let segment = locate_protocol(quoted, quoted.len(), TCP)?;
        let tcp = quoted.get(segment.tcp_at..segment.tcp_at + 8)?;
        Some(Self {
            from: place.src,
            reason,
            src: SocketAddr::new(segment.src, be::u16_at(tcp, 0)),
            dst: SocketAddr::new(segment.dst, be::u16_at(tcp, 2)),
            seq: be::u32_at(tcp, 4),
            ip_len: segment.total_len,
        })
    }
}

impl UnreachableReason {
    /// The reason in words; `None` for a code that no RFC assigns.
    #[must_use]
    pub const fn text(self) -> Option<&'static str> {
        Some(match self {
            Self::TooBig(_) => "packet too big for the next hop",
            Self::V4(0) => "network unreachable",
            Self::V4(1) => "host unreachable",
            Self::V4(2) => "protocol unreachable",
            Self::V4(3) | Self::V6(4) => "port unreachable",
            Self::V4(5) => "source route failed",
            Self::V4(6) => "destination network unknown",
            Self::V4(7) => "destination host unknown",
            Self::V4(8) => "source host isolated",
            Self::V4(9) => "network administratively prohibited",
            Self::V4(10) => "host administratively prohibited",
            Self::V4(11) => "network unreachable for the type of service",
            Self::V4(12) => "host unreachable for the type of service",
            Self::V4(13) | Self::V6(1) => "communication administratively prohibited",
            Self::V4(14) => "host precedence violation",
            Self::V4(15) => "precedence cutoff in effect",
            Self::V6(0) => "no route to the destination",
            Self::V6(2) => "beyond the scope of the source address",
            Self::V6(3) => "address unreachable",
            Self::V6(5) => "source address refused by policy",
            Self::V6(6) => "route rejected",
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first 28 bytes of a segment of 8 960 bytes.
    fn quoted_v4() -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0x23, 0, 0, 9, 0x40, 0, 63, TCP, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
        packet.extend([0x0c, 0xbc, 0x9c, 0x40, 0, 0, 0x10, 0]);
        packet
    }

    fn report_v4(kind: u8, code: u8, mtu: u16) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 56, 0, 0, 0, 0, 64, ICMP, 0, 0, 192, 0, 2, 9, 10, 0, 0, 2];
        packet.extend([kind, code, 0, 0, 0, 0]);
        packet.extend(mtu.to_be_bytes());
        packet.extend(quoted_v4());
        packet
    }

    #[test]
    fn fragmentation_needed_quotes_its_segment() {
        let found = Unreachable::parse(&report_v4(3, 4, 1_400)).expect("a report");
        let expected = Unreachable {
            from: [192, 0, 2, 9].into(),
            reason: UnreachableReason::TooBig(Some(1_400)),
            src: ([10, 0, 0, 2], 3260).into(),
            dst: ([10, 0, 0, 1], 40_000).into(),
            seq: 0x1000,
            ip_len: 8_960,
        };
        assert_eq!(found, expected);
        let old = Unreachable::parse(&report_v4(3, 4, 0)).expect("a report");
        assert_eq!(old.reason, UnreachableReason::TooBig(None));
        let filter = Unreachable::parse(&report_v4(3, 13, 0)).expect("a report");
        assert_eq!(filter.reason.text(), Some("communication administratively prohibited"));
    }

    #[test]
    fn packet_too_big_of_version_6() {
        let mut quoted = vec![0x60, 0, 0, 0, 0x22, 0xd8, TCP, 63];
        quoted.extend([2; 16]);
        quoted.extend([1; 16]);
        quoted.extend([0x0c, 0xbc, 0x9c, 0x40, 0, 0, 0, 7]);
        let mut packet = vec![0x60, 0, 0, 0, 0, 56, ICMP_V6, 64];
        packet.extend([9; 16]);
        packet.extend([2; 16]);
        packet.extend([2, 0, 0, 0, 0, 0, 5, 0]);
        packet.extend(quoted);
        let found = Unreachable::parse(&packet).expect("a report");
        assert_eq!((found.reason, found.seq), (UnreachableReason::TooBig(Some(1_280)), 7));
        assert_eq!((found.ip_len, found.src.port()), (8_960, 3260));
        packet[40..42].copy_from_slice(&[1, 4]);
        let found = Unreachable::parse(&packet).expect("a report");
        assert_eq!(found.reason.text(), Some("port unreachable"));
    }

    #[test]
    fn any_cut_and_any_disturbance_ends_well() {
        let whole = report_v4(3, 4, 1_400);
        for len in 0..whole.len() {
            assert_eq!(Unreachable::parse(&whole[..len]), None, "{len} bytes");
            for disturbance in [0x01, 0x0f, 0x40, 0x80, 0xff] {
                let mut disturbed = whole.clone();
                disturbed[len] ^= disturbance;
                let _ = Unreachable::parse(&disturbed);
            }
        }
        assert_eq!(Unreachable::parse(&report_v4(8, 0, 0)), None, "an echo");
    }
}
