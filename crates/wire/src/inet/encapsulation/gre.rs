//! GRE (RFC 2784, RFC 2890; NVGRE: RFC 7637), its variant for PPTP (RFC 2637), and ERSPAN inside it
//! (draft-foschiano-erspan-03).

use super::other::Other;
use super::step::{Header, Step};
use super::tunnel::Tunnel;
use crate::be;

/// Protocol number of GRE, for packets whose content is not known.
const GRE: u8 = 47;

const CHECKSUM: u16 = 0x8000;
/// Source routes of RFC 1701, which are not in use.
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
/// Acknowledgement number present, in the variant of PPTP.
const ACKNOWLEDGEMENT: u16 = 0x0080;
const VERSION: u16 = 0x0007;

/// Type I has no header of its own and no sequence number, type II a header of eight bytes.
const ERSPAN_I_II: u16 = 0x88be;
const ERSPAN_II_LEN: usize = 8;
const ERSPAN_III: u16 = 0x22eb;
const ERSPAN_III_LEN: usize = 12;
/// A platform's subheader follows that of type III.
const ERSPAN_III_MORE: u8 = 0x01;
const ERSPAN_III_MORE_LEN: usize = 8;

/// A GRE header.
pub(super) fn gre(bytes: &[u8]) -> Step {
    let Some(header) = bytes.get(..4) else { return Step::Other(Other::Cut) };
    let (flags, protocol) = (be::u16_at(header, 0), be::u16_at(header, 2));
    let has = |flag: u16| usize::from(flags & flag != 0) * 4;
    match flags & VERSION {
        0 if flags & ROUTING == 0 => {
            let len = 4 + has(CHECKSUM) + has(KEY) + has(SEQUENCE);
            match protocol {
                ERSPAN_I_II if flags & SEQUENCE == 0 => Step::Tunnel(Tunnel::Erspan, Header::Ethernet, len),
                ERSPAN_I_II => Step::Tunnel(Tunnel::Erspan, Header::Ethernet, len + ERSPAN_II_LEN),
                ERSPAN_III => erspan_iii(bytes, len),
                _ => Step::Tunnel(Tunnel::Gre, Header::EtherType(protocol), len),
            }
        }
        // PPTP: the key is always there, and a packet without a sequence number has no payload.
        1 if flags & SEQUENCE != 0 => {
            Step::Tunnel(Tunnel::L2tp, Header::Ppp, 8 + has(SEQUENCE) + has(ACKNOWLEDGEMENT))
        }
        _ => Step::Other(Other::Protocol(GRE)),
    }
}

/// A header of twelve bytes: version, VLAN and session; time; group tag, frame type and flags.
fn erspan_iii(bytes: &[u8], at: usize) -> Step {
    let Some(header) = bytes.get(at..at + ERSPAN_III_LEN) else { return Step::Other(Other::Cut) };
    let more = if header[11] & ERSPAN_III_MORE != 0 { ERSPAN_III_MORE_LEN } else { 0 };
    // Frame type: five bits behind the first of the eleventh byte.
    let next = match header[10] >> 2 & 0x1f {
        0 => Header::Ethernet,
        2 => Header::Ip,
        _ => return Step::Other(Other::Protocol(GRE)),
    };
    Step::Tunnel(Tunnel::Erspan, next, at + ERSPAN_III_LEN + more)
}
