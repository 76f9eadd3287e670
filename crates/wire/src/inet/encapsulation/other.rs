//! Packets without a TCP segment that can be read, and their names.

use std::fmt;

/// Reason that a packet has no TCP segment to read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Other {
    /// A link layer that is not supported, by its LINKTYPE_ number.
    LinkLayer(u32),
    /// A protocol over Ethernet, by its EtherType.
    EtherType(u16),
    /// A protocol over IEEE 802.2 LLC, by its destination access point.
    Llc(u8),
    /// A protocol over PPP, by its number.
    Ppp(u16),
    /// A protocol over IP, by its number.
    Protocol(u8),
    /// UDP; the well-known port, or 0.
    Udp(u16),
    /// ICMP's report that a packet was too big for a link: RFC 1191, RFC 8201.
    PacketTooBig,
    /// A fragment whose datagram is not complete in the capture: 4 or 6.
    Fragment(u8),
    /// The headers end behind the bytes that the capture has kept.
    Cut,
    /// A header contradicts itself.
    Damaged,
    /// More nested headers than are followed.
    Deep,
}

/// UDP ports with a name: encrypted protocols, and protocols often mistaken for a fault of the capture.
pub(super) const UDP_PORTS: [(u16, &str); 9] = [
    (53, "DNS"),
    (67, "DHCP"),
    (123, "NTP"),
    (443, "QUIC, encrypted"),
    (500, "IKE"),
    (4500, "ESP in UDP, encrypted"),
    (4791, "RoCEv2"),
    (7471, "STT"),
    (51820, "WireGuard, encrypted"),
];

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |f: &mut fmt::Formatter<'_>, name: &str, kind: &str, number: &dyn fmt::Display| {
            if name.is_empty() { write!(f, "{kind} {number}") } else { f.write_str(name) }
        };
        match *self {
            Self::LinkLayer(link) => {
                let name = link_name(link);
                let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
                write!(f, "link layer {link}{name}, which is not supported")
            }
            Self::EtherType(kind) => named(f, ether_name(kind), "EtherType", &format_args!("{kind:#06x}")),
            Self::Llc(0x42) => f.write_str("spanning tree"),
            Self::Llc(0xfe) => f.write_str("IS-IS"),
            Self::Llc(point) => write!(f, "LLC {point:#04x}"),
            Self::Ppp(protocol) => named(f, ppp_name(protocol), "PPP", &format_args!("{protocol:#06x}")),
            Self::Protocol(protocol) => named(f, protocol_name(protocol), "IP protocol", &protocol),
            Self::Udp(port) => match UDP_PORTS.iter().find(|(known, _)| *known == port) {
                Some((_, name)) => write!(f, "UDP ({name})"),
                None => f.write_str("UDP"),
            },
            Self::PacketTooBig => f.write_str("ICMP packet too big"),
            Self::Fragment(version) => write!(f, "IPv{version} fragments without their rest"),
            Self::Cut => f.write_str("packets cut off within their headers"),
            Self::Damaged => f.write_str("damaged headers"),
            Self::Deep => f.write_str("too many nested headers"),
        }
    }
}

fn ether_name(kind: u16) -> &'static str {
    match kind {
        0x0806 => "ARP",
        0x8035 => "RARP",
        0x8137 => "IPX",
        0x8808 => "Ethernet flow control",
        0x8809 => "LACP",
        0x8863 => "PPPoE discovery",
        0x888e => "EAPOL",
        0x88a2 => "ATA over Ethernet",
        0x88cc => "LLDP",
        0x88e5 => "MACsec (encrypted)",
        0x88f7 => "PTP",
        0x8902 => "CFM",
        0x8906 => "FCoE",
        0x8914 => "FIP",
        0x8915 => "RoCE",
        0x22f3 => "TRILL",
        0x9000 => "loopback test",
        _ => "",
    }
}

fn ppp_name(protocol: u16) -> &'static str {
    match protocol {
        0xc021 => "PPP link control",
        0x8021 | 0x8057 | 0x80fd | 0x8281 => "PPP network control",
        0xc023 | 0xc223 => "PPP authentication",
        0x0053 => "PPP (encrypted)",
        0x00fd => "PPP (compressed)",
        0x003d => "multilink PPP",
        _ => "",
    }
}

fn protocol_name(protocol: u8) -> &'static str {
    match protocol {
        1 => "ICMP",
        2 => "IGMP",
        50 => "ESP (encrypted)",
        58 => "ICMPv6",
        59 => "IPv6 without a payload",
        88 => "EIGRP",
        89 => "OSPF",
        103 => "PIM",
        112 => "VRRP",
        115 => "L2TPv3",
        132 => "SCTP",
        _ => "",
    }
}

fn link_name(link: u32) -> &'static str {
    match link {
        6 => "token ring",
        10 => "FDDI",
        105 => "IEEE 802.11",
        107 => "frame relay",
        119 | 127 | 163 => "IEEE 802.11 with radio headers",
        147..=162 => "private use",
        189 | 220 => "USB",
        224 => "Fibre Channel",
        225 => "Fibre Channel with delimiters",
        247 => "InfiniBand",
        253 => "netlink",
        274 => "Ethernet mPackets",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let check = |other: Other, expected: &str| assert_eq!(other.to_string(), expected);
        check(Other::LinkLayer(105), "link layer 105 (IEEE 802.11), which is not supported");
        check(Other::LinkLayer(999), "link layer 999, which is not supported");
        check(Other::EtherType(0x0806), "ARP");
        check(Other::EtherType(0x1234), "EtherType 0x1234");
        check(Other::Protocol(50), "ESP (encrypted)");
        check(Other::Protocol(99), "IP protocol 99");
        check(Other::Udp(4500), "UDP (ESP in UDP, encrypted)");
        check(Other::Udp(0), "UDP");
        check(Other::Ppp(0x0053), "PPP (encrypted)");
        check(Other::Ppp(0x4001), "PPP 0x4001");
        check(Other::Fragment(4), "IPv4 fragments without their rest");
    }
}
