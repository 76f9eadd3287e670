//! UDP and the tunnels in it: VXLAN, GENEVE (RFC 8926), GTP-U (3GPP TS 29.281), L2TP (RFC 2661), MPLS in UDP
//! (RFC 7510), GRE in UDP (RFC 8086), TZSP.

use super::other::{Other, UDP_PORTS};
use super::step::{Header, Step};
use super::tunnel::Tunnel;
use super::vxlan;
use crate::be;

const UDP_LEN: usize = 8;

mod port {
    pub(super) const L2TP: u16 = 1701;
    pub(super) const GTP_U: u16 = 2152;
    pub(super) const GRE: u16 = 4754;
    pub(super) const GENEVE: u16 = 6081;
    pub(super) const MPLS: u16 = 6635;
    pub(super) const TZSP: u16 = 37008;
}

/// A UDP header. Tunnels are known by their destination port; their source port is a hash of the inner packet.
pub(super) fn udp(bytes: &[u8]) -> Step {
    let Some(header) = bytes.get(..UDP_LEN) else { return Step::Other(Other::Cut) };
    let [src, dst] = [be::u16_at(header, 0), be::u16_at(header, 2)];
    let payload = &bytes[UDP_LEN..];
    let inner = match dst {
        port::GENEVE => geneve(payload),
        port::GTP_U => gtp_u(payload),
        port::L2TP => l2tp(payload),
        port::GRE => Some(Step::Next(Header::Gre, 0)),
        port::MPLS => Some(Step::Next(Header::Mpls, 0)),
        port::TZSP => tzsp(payload),
        _ => vxlan::vxlan(dst, payload),
    };
    match inner {
        Some(Step::Next(next, len)) => Step::Next(next, UDP_LEN + len),
        Some(Step::Tunnel(tunnel, next, len)) => Step::Tunnel(tunnel, next, UDP_LEN + len),
        Some(step) => step,
        None => {
            let known = [dst, src].into_iter().find(|port| UDP_PORTS.iter().any(|(known, _)| known == port));
            Step::Other(Other::Udp(known.unwrap_or(0)))
        }
    }
}

/// RFC 8926 section 3.4: version and length of the options in words, then the protocol.
fn geneve(bytes: &[u8]) -> Option<Step> {
    let header = bytes.get(..8)?;
    let is_version_0 = header[0] >> 6 == 0;
    let len = 8 + usize::from(header[0] & 0x3f) * 4;
    is_version_0.then_some(Step::Tunnel(Tunnel::Geneve, Header::EtherType(be::u16_at(header, 2)), len))
}

/// TS 29.281 section 5: version 1, a message that is a user's packet, then optional fields and extension headers.
fn gtp_u(bytes: &[u8]) -> Option<Step> {
    const USER_PACKET: u8 = 255;
    const VERSION_1: u8 = 0x30;
    const OPTIONAL: u8 = 0x07;
    const EXTENSION: u8 = 0x04;
    let header = bytes.get(..8)?;
    if header[0] & 0xf0 != VERSION_1 || header[1] != USER_PACKET {
        return None;
    }
    if header[0] & OPTIONAL == 0 {
        return Some(Step::Tunnel(Tunnel::GtpU, Header::Ip, 8));
    }
    let mut at = 12;
    let mut next = if header[0] & EXTENSION != 0 { *bytes.get(11)? } else { 0 };
    while next != 0 {
        // Its length in words first, the type of the next one last. An empty one would never end.
        let len = usize::from(*bytes.get(at)?) * 4;
        if len == 0 {
            return None;
        }
        at += len;
        next = *bytes.get(at - 1)?;
    }
    Some(Step::Tunnel(Tunnel::GtpU, Header::Ip, at))
}

/// RFC 2661 section 3.1: a data message of version 2, with optional length, sequence numbers and padding.
fn l2tp(bytes: &[u8]) -> Option<Step> {
    const CONTROL: u16 = 0x8000;
    const LENGTH: u16 = 0x4000;
    const SEQUENCE: u16 = 0x0800;
    const OFFSET: u16 = 0x0200;
    let flags = be::u16_at(bytes.get(..2)?, 0);
    if flags & CONTROL != 0 || flags & 0x000f != 2 {
        return None;
    }
    let has = |flag: u16, len: usize| if flags & flag != 0 { len } else { 0 };
    let mut len = 6 + has(LENGTH, 2) + has(SEQUENCE, 4);
    if flags & OFFSET != 0 {
        len += 2 + usize::from(be::u16_at(bytes.get(len..len + 2)?, 0));
    }
    Some(Step::Tunnel(Tunnel::L2tp, Header::Ppp, len))
}

/// Version 1, type, encapsulated protocol, then tagged fields up to one of type 1.
fn tzsp(bytes: &[u8]) -> Option<Step> {
    const ETHERNET: u16 = 1;
    const PADDING: u8 = 0;
    const END: u8 = 1;
    let header = bytes.get(..4)?;
    if header[0] != 1 || be::u16_at(header, 2) != ETHERNET {
        return None;
    }
    let mut at = 4;
    loop {
        match *bytes.get(at)? {
            END => return Some(Step::Tunnel(Tunnel::Tzsp, Header::Ethernet, at + 1)),
            PADDING => at += 1,
            _ => at += 2 + usize::from(*bytes.get(at + 1)?),
        }
    }
}
