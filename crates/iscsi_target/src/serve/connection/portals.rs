//! Portals of a target as SendTargets names them (RFC 7143 appendix C): addresses that its initiator can reach, as far
//! as this end can know.

use std::net::{IpAddr, SocketAddr};

use proto::discovery::{DiscoveredTarget, TargetAddress};

use crate::lun::PORTAL_GROUP_TAG;

/// Portals of a target.
#[derive(Clone, Debug)]
pub(crate) struct Portals {
    iqn: String,
    listening: Vec<Portal>,
    /// Addresses to name instead: those of a translator in front of this host.
    given: Vec<TargetAddress>,
}

/// One address with its port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portal {
    pub(crate) address: SocketAddr,
    /// IPv6 alone; another takes the IPv4 connections.
    pub(crate) is_v6_only: bool,
}

impl Portals {
    /// Portals of a target that listens.
    pub(crate) fn of(iqn: &str, listening: Vec<Portal>, given: &[TargetAddress]) -> Portals {
        Portals { iqn: iqn.to_owned(), listening, given: given.to_vec() }
    }

    /// Answer to SendTargets on a connection that has reached this host at `local`. Without configured addresses the
    /// target names the address that the initiator has reached.
    pub(crate) fn named(&self, local: SocketAddr) -> Vec<DiscoveredTarget> {
        let reached = local.ip().to_canonical();
        let addresses = match self.given.is_empty() || reached.is_loopback() {
            true => self.reachable(reached),
            false => self.given.clone(),
        };
        vec![DiscoveredTarget { name: self.iqn.clone(), addresses }]
    }

    fn reachable(&self, reached: IpAddr) -> Vec<TargetAddress> {
        let mut addresses = Vec::new();
        for portal in &self.listening {
            let own = portal.address.ip().to_canonical();
            let ip = if own.is_unspecified() { reached } else { own };
            let is_there = !own.is_unspecified() || portal.takes(reached);
            let is_of_use =
                (!ip.is_loopback() || reached.is_loopback()) && (!is_of_link(ip) || is_of_link(reached));
            let (host, port) = (ip.to_string(), portal.address.port());
            let address = TargetAddress { host, port, portal_group_tag: Some(PORTAL_GROUP_TAG) };
            if is_there && is_of_use && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }
}

impl Portal {
    /// Returns true if connections to an address of that family arrive here, where this portal is of all addresses.
    fn takes(&self, address: IpAddr) -> bool {
        match self.address.is_ipv4() {
            true => address.is_ipv4(),
            false => address.is_ipv6() || !self.is_v6_only,
        }
    }
}

/// Returns true for an IPv6 address of one link: hosts elsewhere, and those that came over IPv4, cannot use it without
/// a zone, which SendTargets does not name.
fn is_of_link(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(listening: &[(&str, bool)], given: &[&str], local: &str, expected: &[&str]) {
        let portal = |(text, is_v6_only): &(&str, bool)| Portal {
            address: text.parse().unwrap(),
            is_v6_only: *is_v6_only,
        };
        let portals = Portals {
            iqn: "iqn.a".to_owned(),
            listening: listening.iter().map(portal).collect(),
            given: given.iter().map(|text| text.parse().unwrap()).collect(),
        };
        let named = portals.named(local.parse().unwrap());
        let named: Vec<_> = named[0].addresses.iter().map(ToString::to_string).collect();
        assert_eq!(named, expected);
    }

    #[test]
    fn addresses_where_something_listens_and_that_can_be_reached() {
        let all_v4 = ("0.0.0.0:3260", false);
        check(&[all_v4], &[], "192.0.2.1:3260", &["192.0.2.1:3260,1"]);
        check(&[all_v4], &[], "127.0.0.1:3260", &["127.0.0.1:3260,1"]);
        check(&[("[::]:3260", false)], &[], "[::ffff:192.0.2.1]:3260", &["192.0.2.1:3260,1"]);
        check(&[("[::]:3260", false)], &[], "[2001:db8::1]:3260", &["[2001:db8::1]:3260,1"]);
        let both = [all_v4, ("[::]:3261", true)];
        check(&both, &[], "192.0.2.1:3260", &["192.0.2.1:3260,1"]);
        check(&both, &[], "[2001:db8::1]:3261", &["[2001:db8::1]:3261,1"]);
        // The IPv4 listener does not listen at an IPv6 address.
        check(&[all_v4, ("[2001:db8::1]:3260", false)], &[], "[2001:db8::1]:3260", &["[2001:db8::1]:3260,1"]);
        let with_loopback = [("127.0.0.1:3260", false), ("[::1]:3260", false), ("192.0.2.1:3260", false)];
        check(&with_loopback, &[], "192.0.2.1:3260", &["192.0.2.1:3260,1"]);
        let here = ["127.0.0.1:3260,1", "[::1]:3260,1", "192.0.2.1:3260,1"];
        check(&with_loopback, &[], "127.0.0.1:3260", &here);
        let with_link = [("[fe80::7]:3260", false), ("192.0.2.1:3260", false)];
        check(&with_link, &[], "192.0.2.1:3260", &["192.0.2.1:3260,1"]);
        check(&with_link, &[], "[fe80::7]:3260", &["[fe80::7]:3260,1", "192.0.2.1:3260,1"]);
    }

    #[test]
    fn an_address_that_is_given_is_named_to_others() {
        let (listening, given) =
            ([("10.0.0.7:3260", false)], ["san.example.org:13260,1", "[2001:db8::7]:3260,1"]);
        check(&listening, &given, "10.0.0.7:3260", &given);
        check(&listening, &given, "127.0.0.1:3260", &["10.0.0.7:3260,1"]);
    }
}
