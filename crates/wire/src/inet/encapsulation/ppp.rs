//! PPP (RFC 1661, framing of RFC 1662) and PPP over Ethernet (RFC 2516).

use super::other::Other;
use super::plausible::PPPOE_SESSION;
use super::step::{Header, Step};
use super::tunnel::Tunnel;
use crate::be;

const IPV4: u16 = 0x0021;
const IPV6: u16 = 0x0057;
const MPLS: [u16; 2] = [0x0281, 0x0283];
/// Version 1, type 1.
const PPPOE_VERSION: u8 = 0x11;
const PPPOE_LEN: usize = 6;

/// A PPP packet. Address and control may be left out, and so may the zero byte in front of a small protocol number
/// (RFC 1661 section 6.5, RFC 1662 section 3.1).
pub(super) fn ppp(bytes: &[u8]) -> Step {
    let at = if bytes.starts_with(&[0xff, 0x03]) { 2 } else { 0 };
    let (protocol, len) = match bytes[at..] {
        [small, ..] if small & 1 != 0 => (u16::from(small), 1),
        [high, low, ..] => (u16::from_be_bytes([high, low]), 2),
        _ => return Step::Other(Other::Cut),
    };
    match protocol {
        IPV4 | IPV6 => Step::Next(Header::Ip, at + len),
        _ if MPLS.contains(&protocol) => Step::Next(Header::Mpls, at + len),
        _ => Step::Other(Other::Ppp(protocol)),
    }
}

/// A PPPoE session packet from its version on.
pub(super) fn pppoe(bytes: &[u8]) -> Step {
    match bytes.get(..PPPOE_LEN) {
        None => Step::Other(Other::Cut),
        // Code 0 is session data.
        Some(header) if be::u16_at(header, 0) == u16::from(PPPOE_VERSION) << 8 => {
            Step::Tunnel(Tunnel::Pppoe, Header::Ppp, PPPOE_LEN)
        }
        Some(_) => Step::Other(Other::EtherType(PPPOE_SESSION)),
    }
}
