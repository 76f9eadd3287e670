//! Ethernet: EtherTypes, tags, IEEE 802.3 with LLC and SNAP (IEEE 802.3, 802.1Q, 802.2, RFC 1042).

use super::other::Other;
use super::plausible::{ADDRESSES_LEN, IPV4, IPV6, MACSEC, MPLS, PPPOE_SESSION, TAGS};
use super::step::{Header, Step};
use super::tunnel::Tunnel;
use crate::be;

const TRANSPARENT_BRIDGING: u16 = 0x6558;
const PPP: u16 = 0x880b;
const JUMBO_LLC: u16 = 0x8870;
const PROVIDER_BACKBONE: u16 = 0x88e7;
const SERVICE_HEADER: u16 = 0x894f;

/// Larger values of a type field are EtherTypes, others lengths: IEEE 802.3 section 3.2.6.
const LENGTH_MAX: u16 = 1_500;

/// A frame from its destination address on.
pub(super) fn ethernet(bytes: &[u8]) -> Step {
    kind_at(bytes, ADDRESSES_LEN)
}

/// An EtherType or a length.
pub(super) fn kind(bytes: &[u8]) -> Step {
    kind_at(bytes, 0)
}

fn kind_at(bytes: &[u8], at: usize) -> Step {
    let Some(kind) = bytes.get(at..at + 2) else { return Step::Other(Other::Cut) };
    let next = match be::u16_at(kind, 0) {
        kind if kind <= LENGTH_MAX => Header::Llc,
        kind => Header::EtherType(kind),
    };
    Step::Next(next, at + 2)
}

/// The bytes behind an EtherType.
pub(super) fn behind(kind: u16, bytes: &[u8]) -> Step {
    if let Some((_, len)) = TAGS.iter().find(|(tag, _)| *tag == kind) {
        return kind_at(bytes, *len);
    }
    match kind {
        IPV4 | IPV6 => Step::Next(Header::Ip, 0),
        TRANSPARENT_BRIDGING => Step::Next(Header::Ethernet, 0),
        PPP => Step::Next(Header::Ppp, 0),
        PPPOE_SESSION => Step::Next(Header::Pppoe, 0),
        JUMBO_LLC => Step::Next(Header::Llc, 0),
        // IEEE 802.1ah: an instance tag of four bytes in front of the customer's frame.
        PROVIDER_BACKBONE => Step::Next(Header::Ethernet, 4),
        MACSEC => macsec(bytes),
        SERVICE_HEADER => service_header(bytes),
        _ if MPLS.contains(&kind) => Step::Next(Header::Mpls, 0),
        _ => Step::Other(Other::EtherType(kind)),
    }
}

/// IEEE 802.2: a SNAP header (RFC 1042), or IP by its access point (RFC 948).
pub(super) fn llc(bytes: &[u8]) -> Step {
    match *bytes {
        [0xaa, 0xaa, 0x03, 0, 0, 0 | 0xf8, ..] => kind_at(bytes, 6),
        // Cisco's discovery and spanning tree, and other protocols of organisations.
        [0xaa, 0xaa, 0x03, _, _, _, ..] => Step::Other(Other::Llc(0xaa)),
        [0x06, 0x06, 0x03, ..] => Step::Next(Header::Ip, 3),
        [point, _, _, ..] => Step::Other(Other::Llc(point)),
        _ => Step::Other(Other::Cut),
    }
}

/// IEEE 802.1AE section 9: a tag of six bytes, of fourteen with the channel identifier. The flags E and C mark data as
/// encrypted or changed.
fn macsec(bytes: &[u8]) -> Step {
    const CHANNEL: u8 = 0x20;
    const ENCRYPTED_OR_CHANGED: u8 = 0x0c;
    let Some(flags) = bytes.first() else { return Step::Other(Other::Cut) };
    if flags & ENCRYPTED_OR_CHANGED != 0 {
        return Step::Other(Other::EtherType(MACSEC));
    }
    match kind_at(bytes, if flags & CHANNEL != 0 { 14 } else { 6 }) {
        Step::Next(next, len) => Step::Tunnel(Tunnel::MacSec, next, len),
        step => step,
    }
}

/// RFC 8300 section 2.2: the length in words, then the encapsulated packet.
fn service_header(bytes: &[u8]) -> Step {
    let Some(base) = bytes.get(..4) else { return Step::Other(Other::Cut) };
    let len = usize::from(base[1] & 0x3f) * 4;
    match base[3] {
        _ if len < 8 => Step::Other(Other::Damaged),
        1 | 2 => Step::Next(Header::Ip, len),
        3 => Step::Next(Header::Ethernet, len),
        5 => Step::Next(Header::Mpls, len),
        _ => Step::Other(Other::EtherType(SERVICE_HEADER)),
    }
}
