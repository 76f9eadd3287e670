//! The hosts of a path by name, with the addresses and the number that follow from it: `near`, `near2`, … `far16`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::Side;

/// Most hosts at one end.
pub const HOSTS_MAX: u8 = 16;

/// Prefix lengths of the addresses.
const IPV4_BITS: u8 = 24;
const IPV6_BITS: u8 = 64;
/// Offset of the last number of an address from the host's place, for near2 and for far2 on.
const NEAR_AHEAD: u32 = 10;
const FAR_AHEAD: u32 = 100;

/// A host of a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostName {
    side: Side,
    /// 1 for the first of its side, at most [`HOSTS_MAX`].
    place: u8,
}

impl HostName {
    /// Host number `place` of `side`, from 1; `None` for a number out of range.
    pub fn new(side: Side, place: u8) -> Option<HostName> {
        (1..=HOSTS_MAX).contains(&place).then_some(HostName { side, place })
    }

    /// The first `count` hosts of `side`.
    pub(crate) fn first(side: Side, count: u8) -> impl Iterator<Item = HostName> + Clone {
        (1..=count.min(HOSTS_MAX)).map(move |place| HostName { side, place })
    }

    /// End of the path.
    pub const fn side(self) -> Side {
        self.side
    }

    /// Index among the hosts of its side, from 0.
    pub(crate) const fn index(self) -> usize {
        self.place as usize - 1
    }

    /// Its number in tables: 0 for near, 1 for near2, 100 for far, 101 for far2.
    pub const fn number(self) -> u32 {
        let first = match self.side {
            Side::Near => 0,
            Side::Far => 100,
        };
        first + self.index() as u32
    }

    /// Its address in the range for benchmarks (RFC 2544, appendix C.2.2).
    pub const fn ipv4(self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, 0, self.last() as u8)
    }

    /// Address in the range for benchmarks (RFC 5180, section 8); its last digits equal those of the IPv4 address.
    pub const fn ipv6(self) -> Ipv6Addr {
        let last = self.last() as u16;
        let digits = last / 100 * 0x100 + last / 10 % 10 * 0x10 + last % 10;
        Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, digits)
    }

    /// Its address of the family that the path is used with.
    pub fn address(self, only_ipv6: bool) -> IpAddr {
        if only_ipv6 { self.ipv6().into() } else { self.ipv4().into() }
    }

    /// All its addresses, with the prefix lengths.
    pub(crate) fn addresses(self, only_ipv6: bool) -> Vec<(IpAddr, u8)> {
        let v4 = (!only_ipv6).then_some((self.ipv4().into(), IPV4_BITS));
        v4.into_iter().chain([(self.ipv6().into(), IPV6_BITS)]).collect()
    }

    /// The host that a packet is for, by its IP header; `None` if that is no address of a host.
    pub(crate) fn of_destination(ip: &[u8]) -> Option<HostName> {
        match ip.first()? >> 4 {
            4 => match *ip.get(16..20)? {
                [198, 18, 0, last] => HostName::of_last(last.into()),
                _ => None,
            },
            6 => {
                let (network, digits) = ip.get(24..40)?.split_at(14);
                let [high, low] = [digits[0], digits[1]].map(u32::from);
                let is_ours = network == &HostName::from(Side::Near).ipv6().octets()[..14];
                let is_decimal = high < 10 && low >> 4 < 10 && low & 0xf < 10;
                (is_ours && is_decimal)
                    .then(|| HostName::of_last(high * 100 + (low >> 4) * 10 + (low & 0xf)))?
            }
            _ => None,
        }
    }

    const fn last(self) -> u32 {
        match (self.side, self.place) {
            (Side::Near, 1) => 1,
            (Side::Far, 1) => 2,
            (Side::Near, place) => NEAR_AHEAD + place as u32,
            (Side::Far, place) => FAR_AHEAD + place as u32,
        }
    }

    fn of_last(last: u32) -> Option<HostName> {
        let (side, place) = match last {
            1 => (Side::Near, 1),
            2 => (Side::Far, 1),
            last if last >= FAR_AHEAD + 2 => (Side::Far, last - FAR_AHEAD),
            last if last >= NEAR_AHEAD + 2 => (Side::Near, last - NEAR_AHEAD),
            _ => return None,
        };
        HostName::new(side, u8::try_from(place).ok()?)
    }
}

impl From<Side> for HostName {
    /// The first host of a side.
    fn from(side: Side) -> HostName {
        HostName { side, place: 1 }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            1 => f.write_str(self.side.name()),
            place => write!(f, "{}{place}", self.side.name()),
        }
    }
}

impl FromStr for HostName {
    type Err = String;

    fn from_str(s: &str) -> Result<HostName, String> {
        let all = [Side::Near, Side::Far].into_iter().flat_map(|side| HostName::first(side, HOSTS_MAX));
        all.into_iter().find(|name| name.to_string() == s).ok_or_else(|| {
            format!("'{s}' is no host; there are near, near2 to near{HOSTS_MAX}, far, far2 to far{HOSTS_MAX}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = HostName> {
        [Side::Near, Side::Far].into_iter().flat_map(|side| HostName::first(side, HOSTS_MAX))
    }

    #[test]
    fn names_numbers_and_addresses() {
        for (name, number, v4, v6) in [
            ("near", 0, "198.18.0.1", "2001:2::1"),
            ("far", 100, "198.18.0.2", "2001:2::2"),
            ("near2", 1, "198.18.0.12", "2001:2::12"),
            ("near16", 15, "198.18.0.26", "2001:2::26"),
            ("far2", 101, "198.18.0.102", "2001:2::102"),
            ("far16", 115, "198.18.0.116", "2001:2::116"),
        ] {
            let host: HostName = name.parse().expect(name);
            assert_eq!((host.to_string().as_str(), host.number()), (name, number));
            assert_eq!((host.ipv4().to_string(), host.ipv6().to_string()), (v4.to_owned(), v6.to_owned()));
        }
        for wrong in ["", "near1", "near0", "near17", "far02", "middle", "near2 "] {
            assert!(wrong.parse::<HostName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn packets_find_their_host() {
        let mut v4 = vec![0x45; 20];
        let mut v6 = vec![0x60; 40];
        for host in all() {
            v4[16..].copy_from_slice(&host.ipv4().octets());
            v6[24..].copy_from_slice(&host.ipv6().octets());
            assert_eq!(
                (HostName::of_destination(&v4), HostName::of_destination(&v6)),
                (Some(host), Some(host))
            );
        }
        for other in [[198, 18, 0, 3], [198, 18, 0, 11], [198, 18, 0, 27], [198, 18, 0, 255], [224, 0, 0, 1]]
        {
            v4[16..].copy_from_slice(&other);
            assert_eq!(HostName::of_destination(&v4), None, "{other:?}");
        }
        for other in ["2001:2::c", "2001:2::1:1", "ff02::2", "2001:2::999"] {
            v6[24..].copy_from_slice(&other.parse::<Ipv6Addr>().expect("an address").octets());
            assert_eq!(HostName::of_destination(&v6), None, "{other}");
        }
        for len in 0..20 {
            assert_eq!(HostName::of_destination(&v4[..len]), None);
        }
    }
}
