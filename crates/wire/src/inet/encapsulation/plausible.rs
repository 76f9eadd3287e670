//! EtherTypes, and tests that recognise the content of formats without a type field.

use crate::be;
use crate::inet::{DESTINATION, FRAGMENT, HOP_BY_HOP, ROUTING, TCP, UDP};

pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
pub(super) const MPLS: [u16; 2] = [0x8847, 0x8848];
pub(super) const PPPOE_SESSION: u16 = 0x8864;
pub(super) const MACSEC: u16 = 0x88e5;

/// Tags: their EtherType, and the bytes from there to the next EtherType, without the tag's own.
pub(super) const TAGS: [(u16, usize); 8] = [
    // IEEE 802.1Q, 802.1ad, and the types of stacked tags before that standard.
    (0x8100, 2),
    (0x88a8, 2),
    (0x9100, 2),
    (0x9200, 2),
    (0x9300, 2),
    // VN-Tag of Cisco's fabric extenders, IEEE 802.1BR, HSR (IEC 62439-3).
    (0x8926, 4),
    (0x893f, 6),
    (0x892f, 4),
];

/// Both addresses, in bytes.
pub(super) const ADDRESSES_LEN: usize = 12;
/// True if a frame is likely to begin here: the test of formats without a type field.
pub(super) fn is_ethernet(bytes: &[u8]) -> bool {
    let Some(kind) = bytes.get(ADDRESSES_LEN..ADDRESSES_LEN + 2) else { return false };
    let version = bytes.get(ADDRESSES_LEN + 2).map(|byte| byte >> 4);
    match be::u16_at(kind, 0) {
        IPV4 => version.is_none_or(|version| version == 4),
        IPV6 => version.is_none_or(|version| version == 6),
        ARP | PPPOE_SESSION | MACSEC => true,
        kind => MPLS.contains(&kind) || TAGS.iter().any(|(tag, _)| *tag == kind),
    }
}

/// True if an IP header is likely to begin here: version, length and checksum of IPv4, a known protocol of IPv6.
pub(super) fn is_ip(bytes: &[u8]) -> bool {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => {
            let len = usize::from(bytes[0] & 0x0f) * 4;
            len >= 20 && bytes.get(..len).is_some_and(|header| checksum(header) == 0xffff)
        }
        Some(6) => bytes.get(..40).is_some_and(|header| {
            let next = header[6];
            matches!(next, TCP | UDP | 58 | HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION | 50 | 51)
        }),
        _ => false,
    }
}

/// One's complement sum of 16-bit words: RFC 1071. All ones over a header with its checksum.
fn checksum(header: &[u8]) -> u16 {
    let sum = header.chunks_exact(2).map(|word| u32::from(be::u16_at(word, 0))).sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}
