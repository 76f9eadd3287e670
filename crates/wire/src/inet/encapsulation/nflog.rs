//! Linux netfilter's log (LINKTYPE_NFLOG of tcpdump.org): a header, then attributes, one of which is the packet.

use super::other::Other;
use super::step::{Header, Step};

/// Address family, version, resource.
const HEADER_LEN: usize = 4;
/// NFULA_PAYLOAD of linux/netfilter/nfnetlink_log.h.
const PAYLOAD: u16 = 9;
/// Length and type of an attribute.
const ATTRIBUTE_LEN: usize = 4;

/// A logged packet. Attributes are in the byte order of the logging host, which nothing names: a length that exceeds the
/// record is of the other order.
pub(super) fn nflog(bytes: &[u8]) -> Step {
    let mut at = HEADER_LEN;
    while let Some(attribute) = bytes.get(at..at + ATTRIBUTE_LEN) {
        let [len, kind] = [[attribute[0], attribute[1]], [attribute[2], attribute[3]]];
        let is_little = usize::from(u16::from_le_bytes(len)) <= usize::from(u16::from_be_bytes(len));
        let read = if is_little { u16::from_le_bytes } else { u16::from_be_bytes };
        let (len, kind) = (usize::from(read(len)), read(kind));
        if kind == PAYLOAD {
            return Step::Next(Header::Ip, at + ATTRIBUTE_LEN);
        }
        if len < ATTRIBUTE_LEN {
            return Step::Other(Other::Damaged);
        }
        at += len.next_multiple_of(4);
    }
    Step::Other(Other::Cut)
}
