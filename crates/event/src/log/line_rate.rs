//! Rate limit on log lines: a number of lines for each kind and peer in a period, and the number of suppressed ones. A
//! peer that connects and disconnects ten thousand times neither fills a log nor hides another peer's lines in it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::Instant;

/// Lines of one kind and peer in a period, and of one kind from all peers.
const LINES_MAX: u32 = 5;
const LINES_OF_ALL_MAX: u32 = 50;
/// Length of a period.
const PERIOD: Duration = Duration::from_secs(10);
/// Peers that are counted one by one; further ones count as one.
const PEERS_MAX: usize = 1024;

/// The part of an address that stands for one host: an IPv6 host has a network of 64 bits to choose from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PeerAddress(IpAddr);

impl From<IpAddr> for PeerAddress {
    fn from(address: IpAddr) -> PeerAddress {
        PeerAddress(match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
            short => short,
        })
    }
}

/// Lines written in the current period.
#[derive(Debug, Default)]
pub struct LineRate {
    counted: HashMap<(&'static str, Option<PeerAddress>), Counted>,
    /// Last removal of peers without recent lines.
    tidied: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    since: Instant,
    lines: u32,
    left_out: u64,
}

impl LineRate {
    /// Admits a line of this kind at `now`: `Some` with the number of lines like it that were left out before.
    pub fn allow(&mut self, kind: &'static str, peer: IpAddr, now: Instant) -> Option<u64> {
        if self.counted.len() >= PEERS_MAX && now >= self.tidied + PERIOD {
            self.tidied = now;
            self.counted.retain(|(_, peer), counted| peer.is_none() || now < counted.since + PERIOD);
        }
        let peer = Some(PeerAddress::from(peer));
        let is_counted = self.counted.len() < PEERS_MAX || self.counted.contains_key(&(kind, peer));
        let own = if is_counted { self.count((kind, peer), LINES_MAX, now)? } else { 0 };
        let all = self.count((kind, None), LINES_OF_ALL_MAX, now)?;
        Some(own + all)
    }

    fn count(
        &mut self,
        key: (&'static str, Option<PeerAddress>),
        lines_max: u32,
        now: Instant,
    ) -> Option<u64> {
        let fresh = Counted { since: now, lines: 0, left_out: 0 };
        let counted = self.counted.entry(key).or_insert(fresh);
        if now >= counted.since + PERIOD {
            (counted.since, counted.lines) = (now, 0);
        }
        if counted.lines >= lines_max {
            counted.left_out += 1;
            return None;
        }
        counted.lines += 1;
        Some(std::mem::take(&mut counted.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(s)
    }

    #[test]
    fn a_peer_has_a_few_lines_of_each_kind() {
        let mut rate = LineRate::default();
        let (one, other): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let written = (0..18_000).filter(|_| rate.allow("timeout", one, at(1)).is_some()).count();
        assert_eq!(written, 5);
        assert_eq!(rate.allow("timeout", other, at(1)), Some(0), "another peer");
        assert_eq!(rate.allow("reset", one, at(1)), Some(0), "another kind");
        assert_eq!(rate.allow("timeout", one, at(10)), None);
        assert_eq!(rate.allow("timeout", one, at(11)), Some(17_996));
        assert_eq!(rate.allow("timeout", one, at(12)), Some(0));
    }

    #[test]
    fn many_peers_have_a_bound_together() {
        let mut rate = LineRate::default();
        let peer = |n: u32| IpAddr::V4(n.into());
        let written = (0..100_000).filter(|n| rate.allow("timeout", peer(*n), at(1)).is_some()).count();
        assert_eq!(written, 50);
        assert!(rate.counted.len() <= PEERS_MAX + 1, "{}", rate.counted.len());
        assert_eq!(rate.allow("timeout", peer(7_000_000), at(20)), Some(99_950));
        // Addresses of one IPv6 network are one peer.
        let own = (0..100).filter(|n| {
            let address = format!("2001:db8::{n}").parse().unwrap();
            rate.allow("reset", address, at(20)).is_some()
        });
        assert_eq!(own.count(), 5);
    }
}
