//! Where the IP packet begins in a frame of each kind that capture files hold.
//!
//! Link layers by their LINKTYPE_ number (tcpdump.org): Ethernet with IEEE 802.1Q and 802.1ad tags, Linux "cooked" in
//! both versions, BSD loopback, and IP without any. Frame check sequences and padding are not looked at.

use crate::be;

/// Link layers that are read.
mod link {
    pub(super) const NULL: u32 = 0;
    pub(super) const ETHERNET: u32 = 1;
    pub(super) const RAW: u32 = 101;
    pub(super) const LOOP: u32 = 108;
    pub(super) const LINUX_SLL: u32 = 113;
    pub(super) const IPV4: u32 = 228;
    pub(super) const IPV6: u32 = 229;
    pub(super) const LINUX_SLL2: u32 = 276;
    /// What some BSDs write for RAW.
    pub(super) const RAW_BSD: [u32; 2] = [12, 14];
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// IEEE 802.1Q, 802.1ad, and the type that was used for stacked tags before.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// More tags than this are no frame.
const TAGS_MAX: usize = 4;

/// Bytes in front of the IP packet in a frame of the link layer `link`; `None` if there is no IP packet in it, or the
/// link layer is none of those above.
#[must_use]
pub fn ip_of_frame(link: u32, frame: &[u8]) -> Option<usize> {
    match link {
        link::ETHERNET => ethernet(frame, 12),
        link::LINUX_SLL => ethernet(frame, 14),
        link::LINUX_SLL2 => {
            let kind = be::u16_at(frame.get(..20)?, 0);
            // Tags stand behind the twenty bytes, without the type that comes first elsewhere.
            if TAGS.contains(&kind) { ethernet(frame, 22) } else { is_ip(kind).then_some(20) }
        }
        link::NULL | link::LOOP => (frame.len() >= 4).then_some(4),
        link::RAW | link::IPV4 | link::IPV6 => Some(0),
        _ if link::RAW_BSD.contains(&link) => Some(0),
        _ => None,
    }
}

/// The packet behind the type at `at` and the tags that follow it.
fn ethernet(frame: &[u8], mut at: usize) -> Option<usize> {
    for _ in 0..=TAGS_MAX {
        let kind = be::u16_at(frame.get(at..at + 2)?, 0);
        if !TAGS.contains(&kind) {
            return is_ip(kind).then_some(at + 2);
        }
        at += 4;
    }
    None
}

fn is_ip(kind: u16) -> bool {
    matches!(kind, IPV4 | IPV6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_layer_has_its_packet_at_its_place() {
        let mut frame = [0; 64];
        let mut check = |link, words: &[(usize, u16)], expected| {
            frame.fill(0);
            for (at, word) in words {
                be::put_u16(&mut frame, *at, *word);
            }
            assert_eq!(ip_of_frame(link, &frame), expected, "link layer {link}");
        };
        check(1, &[(12, IPV4)], Some(14));
        check(1, &[(12, 0x8100), (16, IPV6)], Some(18));
        check(1, &[(12, 0x88a8), (16, 0x8100), (20, IPV4)], Some(22));
        check(1, &[(12, 0x0806)], None);
        check(1, &[(12, 0x8100), (16, 0x8100), (20, 0x8100), (24, 0x8100), (28, 0x8100), (32, IPV4)], None);
        check(113, &[(14, IPV4)], Some(16));
        check(113, &[(14, 0x8100), (18, IPV4)], Some(20));
        check(276, &[(0, IPV6)], Some(20));
        check(276, &[(0, 0x8100), (22, IPV4)], Some(24));
        check(276, &[(0, 0x0806)], None);
        check(0, &[], Some(4));
        check(101, &[], Some(0));
        check(12, &[], Some(0));
        check(147, &[], None);
    }

    #[test]
    fn a_frame_that_is_cut_off_has_none() {
        for link in [0, 1, 113, 276] {
            assert_eq!(ip_of_frame(link, &[0x08, 0, 0]), None);
        }
    }
}
