//! Link layers of capture files, by their LINKTYPE_ numbers: tcpdump.org/linktypes.html has the format of each.

use super::other::Other;
use super::step::{Header, Step};
use crate::be;

mod kind {
    pub(super) const NULL: u32 = 0;
    pub(super) const ETHERNET: u32 = 1;
    pub(super) const PPP: u32 = 9;
    /// RAW of some BSDs.
    pub(super) const RAW_BSD: [u32; 2] = [12, 14];
    pub(super) const PPP_HDLC: u32 = 50;
    pub(super) const PPP_ETHER: u32 = 51;
    pub(super) const RAW: u32 = 101;
    pub(super) const C_HDLC: u32 = 104;
    pub(super) const LOOP: u32 = 108;
    pub(super) const ENC: u32 = 109;
    pub(super) const LINUX_SLL: u32 = 113;
    pub(super) const PFLOG: u32 = 117;
    pub(super) const PPP_PPPD: u32 = 166;
    pub(super) const PPI: u32 = 192;
    pub(super) const ERF: u32 = 197;
    pub(super) const PPP_WITH_DIR: u32 = 204;
    pub(super) const MPLS: u32 = 219;
    pub(super) const IPV4: u32 = 228;
    pub(super) const IPV6: u32 = 229;
    pub(super) const NFLOG: u32 = 239;
    pub(super) const PKTAP: u32 = 258;
    pub(super) const LINUX_SLL2: u32 = 276;
}

/// LINKTYPE_LINUX_SLL2: its frames name the interface.
const SLL2_LEN: usize = 20;
const SLL2_INTERFACE: usize = 4;

/// A frame of the link layer `link`.
pub(super) fn link(link: u32, bytes: &[u8]) -> Step {
    match link {
        kind::ETHERNET => Step::Next(Header::Ethernet, 0),
        kind::LINUX_SLL => sll(bytes),
        kind::LINUX_SLL2 => sll2(bytes),
        // An address family in front, in the byte order of the host or of the network.
        kind::NULL | kind::LOOP => Step::Next(Header::Ip, 4),
        // Family, security parameters, flags.
        kind::ENC => Step::Next(Header::Ip, 12),
        kind::RAW | kind::IPV4 | kind::IPV6 => Step::Next(Header::Ip, 0),
        _ if kind::RAW_BSD.contains(&link) => Step::Next(Header::Ip, 0),
        kind::PPP | kind::PPP_HDLC => Step::Next(Header::Ppp, 0),
        kind::PPP_PPPD | kind::PPP_WITH_DIR => Step::Next(Header::Ppp, 1),
        kind::PPP_ETHER => Step::Next(Header::Pppoe, 0),
        // Address and control, then an EtherType.
        kind::C_HDLC => Step::Next(Header::Kind, 2),
        kind::MPLS => Step::Next(Header::Mpls, 0),
        kind::PFLOG => pflog(bytes),
        kind::PPI => ppi(bytes),
        kind::PKTAP => pktap(bytes),
        kind::ERF => erf(bytes),
        kind::NFLOG => Step::Next(Header::Nflog, 0),
        _ => Step::Other(Other::LinkLayer(link)),
    }
}

/// Index of the interface that a frame of LINKTYPE_LINUX_SLL2 names: `-i any` has all of a host's in one file.
#[must_use]
pub fn interface_index(link: u32, frame: &[u8]) -> Option<u32> {
    let header = frame.get(..SLL2_LEN).filter(|_| link == kind::LINUX_SLL2)?;
    Some(be::u32_at(header, SLL2_INTERFACE))
}

/// Linux cooked capture: the EtherType at 14, or one of a few other numbers.
fn sll(bytes: &[u8]) -> Step {
    const LLC: u16 = 0x0004;
    match bytes.get(14..16) {
        Some(kind) if be::u16_at(kind, 0) == LLC => Step::Next(Header::Llc, 16),
        Some(_) => Step::Next(Header::Kind, 14),
        None => Step::Other(Other::Cut),
    }
}

/// Its second version: the EtherType at 0, and its packet behind twenty bytes.
fn sll2(bytes: &[u8]) -> Step {
    const LLC: u16 = 0x0004;
    match bytes.get(..SLL2_LEN).map(|header| be::u16_at(header, 0)) {
        Some(LLC) => Step::Next(Header::Llc, SLL2_LEN),
        Some(kind) => Step::Next(Header::EtherType(kind), SLL2_LEN),
        None => Step::Other(Other::Cut),
    }
}

/// OpenBSD's packet filter: the length of the header first, without its padding to four bytes.
fn pflog(bytes: &[u8]) -> Step {
    match bytes.first() {
        Some(len) => Step::Next(Header::Ip, usize::from(*len).next_multiple_of(4)),
        None => Step::Other(Other::Cut),
    }
}

/// Per-Packet Information: little-endian, the length of all headers at 2, the link layer of the rest at 4.
fn ppi(bytes: &[u8]) -> Step {
    match bytes.get(..8) {
        Some(&[_, _, low, high, a, b, c, d]) => {
            inside(usize::from(u16::from_le_bytes([low, high])), u32::from_le_bytes([a, b, c, d]))
        }
        _ => Step::Other(Other::Cut),
    }
}

/// macOS's record of an interface: little-endian, the header's length at 0, the link layer at 8.
fn pktap(bytes: &[u8]) -> Step {
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word));
    match word(0).zip(word(8)) {
        Some((len, link)) => inside(usize::try_from(len).unwrap_or(usize::MAX), link),
        None => Step::Other(Other::Cut),
    }
}

/// A frame of another link layer behind a header of `len` bytes. Each header has eight bytes at least, so that nested
/// ones come to an end.
fn inside(len: usize, link: u32) -> Step {
    const LEN_MAX: usize = 1 << 16;
    if (8..LEN_MAX).contains(&len) {
        Step::Next(Header::Link(link), len)
    } else {
        Step::Other(Other::Damaged)
    }
}

/// Endace's record format: type at 8, whose highest bit announces extension headers of eight bytes, each with the same
/// bit; Ethernet frames begin two bytes behind them.
fn erf(bytes: &[u8]) -> Step {
    const ETHERNET: u8 = 2;
    const MORE: u8 = 0x80;
    const EXTENSIONS_MAX: usize = 8;
    let Some(kind) = bytes.get(8) else { return Step::Other(Other::Cut) };
    if kind & !MORE != ETHERNET {
        return Step::Other(Other::LinkLayer(kind::ERF));
    }
    let (mut at, mut more) = (16, kind & MORE != 0);
    for _ in 0..EXTENSIONS_MAX {
        if !more {
            return Step::Next(Header::Ethernet, at + 2);
        }
        let Some(extension) = bytes.get(at) else { return Step::Other(Other::Cut) };
        more = extension & MORE != 0;
        at += 8;
    }
    Step::Other(Other::Deep)
}
