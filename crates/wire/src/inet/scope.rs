//! Packets that no router passes on, because their addresses mean something on one link only.
//!
//! RFC 4291 sections 2.5.2, 2.5.6 and 2.7 for IPv6; RFC 3927 section 7, RFC 5771 section 4 and RFC 1812 section 5.3.5.1
//! for IPv4.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Headers;

/// True if `packet`, with the lengths `headers`, is for its own link only: a kernel's router solicitations, multicast
/// reports and duplicate address detection, and link-local traffic of programs.
#[must_use]
pub fn stays_on_link(packet: &[u8], headers: &Headers) -> bool {
    match headers.version {
        4 => [12, 16].into_iter().filter_map(|at| address(packet, at)).any(|of| v4_stays(Ipv4Addr::from(of))),
        _ => [8, 24].into_iter().filter_map(|at| address(packet, at)).any(|of| v6_stays(Ipv6Addr::from(of))),
    }
}

fn address<const N: usize>(packet: &[u8], at: usize) -> Option<[u8; N]> {
    packet.get(at..)?.first_chunk().copied()
}

fn v4_stays(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_link_local() || address.is_broadcast() || address.is_unspecified() || [a, b, c] == [224, 0, 0]
}

fn v6_stays(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.octets();
    // The low half of the second octet of a multicast address is its scope: 1 a device, 2 a link.
    let is_near_group = first == 0xff && second & 0x0f <= 2;
    address.is_unicast_link_local() || address.is_unspecified() || is_near_group
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::be;

    fn check(from: &str, to: &str) -> bool {
        let mut packet = match (from.parse(), to.parse()) {
            (Ok(from), Ok(to)) => {
                let (from, to): (Ipv4Addr, Ipv4Addr) = (from, to);
                let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0];
                packet.extend(from.octets().into_iter().chain(to.octets()));
                packet
            }
            _ => {
                let [from, to] = [from, to].map(|address| address.parse::<Ipv6Addr>().expect("an address"));
                let mut packet = vec![0x60, 0, 0, 0, 0, 8, 58, 255];
                packet.extend(from.octets().into_iter().chain(to.octets()));
                be::put_u16(&mut packet, 4, 8);
                packet
            }
        };
        packet.extend([0; 8]);
        stays_on_link(&packet, &Headers::parse(&packet).expect("a packet"))
    }

    #[test]
    fn what_is_for_one_link_stays_there() {
        for (from, to) in [
            ("fe80::1", "ff02::2"),
            ("::", "ff02::16"),
            ("::", "ff02::1:ff00:1"),
            ("2001:2::1", "ff01::1"),
            ("2001:2::1", "fe80::2"),
            ("fe80::1", "2001:2::2"),
            ("198.18.0.1", "224.0.0.22"),
            ("198.18.0.1", "255.255.255.255"),
            ("169.254.3.4", "198.18.0.2"),
            ("0.0.0.0", "198.18.0.2"),
        ] {
            assert!(check(from, to), "{from} to {to}");
        }
    }

    #[test]
    fn anything_else_goes_on() {
        for (from, to) in [
            ("2001:2::1", "2001:2::2"),
            ("fec0::1", "ff05::2"),
            ("2001:2::1", "ff0e::1"),
            ("198.18.0.1", "198.18.0.2"),
            ("198.18.0.1", "224.0.1.1"),
            ("198.18.0.1", "239.1.2.3"),
        ] {
            assert!(!check(from, to), "{from} to {to}");
        }
    }
}
