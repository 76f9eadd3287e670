//! VXLAN (RFC 7348) with its group policy and generic protocol extensions (draft-smith-vxlan-group-policy,
//! draft-ietf-nvo3-vxlan-gpe).

use super::plausible::is_ethernet;
use super::step::{Header, Step};
use super::tunnel::Tunnel;

/// IANA's port, and the one of Linux, Flannel and Cilium from before.
const PORTS: [u16; 2] = [4789, 8472];
const GPE_PORT: u16 = 4790;
const HEADER_LEN: usize = 8;
/// The network identifier is valid.
const VALID: u8 = 0x08;
/// The last byte of the first word names the content.
const GENERIC: u8 = 0x04;

/// A datagram to `port`; `None` if it is no VXLAN. At another port than the usual ones every reserved bit has to be
/// zero and a frame has to follow: container networks choose ports.
pub(super) fn vxlan(port: u16, bytes: &[u8]) -> Option<Step> {
    let header = bytes.get(..HEADER_LEN)?;
    if header[0] & VALID == 0 {
        return None;
    }
    if port == GPE_PORT && header[0] & GENERIC != 0 {
        let next = match header[3] {
            1 | 2 => Header::Ip,
            3 => Header::Ethernet,
            4 => Header::EtherType(0x894f),
            5 => Header::Mpls,
            _ => return None,
        };
        return Some(Step::Tunnel(Tunnel::Vxlan, next, HEADER_LEN));
    }
    let is_strict = header[..4] == [VALID, 0, 0, 0]
        && header[7] == 0
        && is_ethernet(&bytes[HEADER_LEN..])
        && bytes.len() > HEADER_LEN + 14;
    (PORTS.contains(&port) || is_strict).then_some(Step::Tunnel(Tunnel::Vxlan, Header::Ethernet, HEADER_LEN))
}
