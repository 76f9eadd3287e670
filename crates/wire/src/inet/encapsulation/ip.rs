//! IPv4 and IPv6 up to the protocol they carry, and the protocols that carry IP again: IP-in-IP (RFC 2003, 2473, 4213),
//! EtherIP (RFC 3378), MPLS in IP (RFC 4023), the authentication header (RFC 4302).

use super::other::Other;
use super::step::{Header, Step};
use super::tunnel::Tunnel;
use crate::be;
use crate::inet::{AUTHENTICATION, DESTINATION, FRAGMENT, HOP_BY_HOP, ICMP, ICMP_V6, ROUTING, TCP, UDP};

const IP_IN_IP: u8 = 4;
const V6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const ETHER_IP: u8 = 97;
const MPLS_IN_IP: u8 = 137;

/// Extension headers of one packet that are passed over: RFC 8200 section 4.1 lists seven, one of them twice.
const EXTENSIONS_MAX: usize = 8;

/// An IP header of either version.
pub(super) fn ip(bytes: &[u8]) -> Step {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => v4(bytes),
        Some(6) => v6(bytes),
        Some(_) => Step::Other(Other::Damaged),
        None => Step::Other(Other::Cut),
    }
}

fn v4(bytes: &[u8]) -> Step {
    let Some(header) = bytes.get(..20) else { return Step::Other(Other::Cut) };
    let len = usize::from(header[0] & 0x0f) * 4;
    if len < 20 {
        return Step::Other(Other::Damaged);
    }
    // More fragments follow, or this is not the first one.
    if be::u16_at(header, 6) & 0x3fff != 0 {
        return Step::Fragment;
    }
    Step::Next(Header::Protocol(header[9]), len)
}

fn v6(bytes: &[u8]) -> Step {
    let Some(header) = bytes.get(..40) else { return Step::Other(Other::Cut) };
    let (mut next, mut at) = (header[6], 40);
    for _ in 0..EXTENSIONS_MAX {
        if !matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION) {
            return Step::Next(Header::Protocol(next), at);
        }
        let Some(extension) = bytes.get(at..at + 8) else { return Step::Other(Other::Cut) };
        let units = usize::from(extension[1]);
        at += match next {
            // A fragment header on a whole packet: RFC 6946.
            FRAGMENT if be::u16_at(extension, 2) & 0xfff9 == 0 => 8,
            FRAGMENT => return Step::Fragment,
            AUTHENTICATION => (units + 2) * 4,
            _ => (units + 1) * 8,
        };
        next = extension[0];
    }
    Step::Other(Other::Deep)
}

/// The bytes behind an IP header.
pub(super) fn behind(protocol: u8, bytes: &[u8]) -> Step {
    match protocol {
        TCP => Step::Tcp,
        UDP => Step::Next(Header::Udp, 0),
        IP_IN_IP | V6_IN_IP => Step::Tunnel(Tunnel::IpInIp, Header::Ip, 0),
        GRE => Step::Next(Header::Gre, 0),
        MPLS_IN_IP => Step::Next(Header::Mpls, 0),
        // Version 3 in the first nibble, the rest reserved.
        ETHER_IP if bytes.first().is_some_and(|byte| byte >> 4 == 3) => {
            Step::Tunnel(Tunnel::EtherIp, Header::Ethernet, 2)
        }
        AUTHENTICATION => match bytes {
            [next, units, ..] => Step::Next(Header::Protocol(*next), (usize::from(*units) + 2) * 4),
            _ => Step::Other(Other::Cut),
        },
        // Destination unreachable, fragmentation needed: RFC 792. Destination unreachable, packet too big: RFC 4443.
        ICMP if bytes.starts_with(&[3, 4]) => Step::Unreachable(Other::PacketTooBig),
        ICMP_V6 if bytes.starts_with(&[2, 0]) => Step::Unreachable(Other::PacketTooBig),
        ICMP if bytes.starts_with(&[3]) => Step::Unreachable(Other::Protocol(ICMP)),
        ICMP_V6 if bytes.starts_with(&[1]) => Step::Unreachable(Other::Protocol(ICMP_V6)),
        _ => Step::Other(Other::Protocol(protocol)),
    }
}
