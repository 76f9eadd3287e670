//! Census of a capture's packets: tunnels around TCP, and everything that is not TCP, by name.

use std::collections::BTreeMap;

use serde::Serialize;
use wire::inet::encapsulation::{Other, Tunnel, Tunnels};

/// Kinds of packets that are counted apart; further ones are one kind.
const KINDS_MAX: usize = 64;

/// Packets of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PacketCount {
    /// Name of the kind.
    pub name: String,
    /// Packets.
    pub packets: u64,
}

/// Counts of packets.
#[derive(Debug, Default)]
pub(crate) struct Census {
    others: BTreeMap<Other, u64>,
    beyond: u64,
    tunnels: [u64; Tunnel::ALL.len()],
}

impl Census {
    /// Counts a packet without a TCP segment.
    pub(crate) fn other(&mut self, other: Other) {
        self.others(other, 1);
    }

    /// Counts several.
    pub(crate) fn others(&mut self, other: Other, packets: u64) {
        if let Some(count) = self.others.get_mut(&other) {
            *count += packets;
        } else if self.others.len() < KINDS_MAX {
            self.others.insert(other, packets);
        } else {
            self.beyond += packets;
        }
    }

    /// Counts a TCP segment inside tunnels.
    pub(crate) fn tunnelled(&mut self, tunnels: Tunnels) {
        for tunnel in tunnels.iter() {
            self.tunnels[tunnel as usize] += 1;
        }
    }

    /// Packets that are not TCP, and tunnels around TCP; the most frequent ones first.
    pub(crate) fn finish(self) -> [Vec<PacketCount>; 2] {
        let named = |name: String, packets: u64| PacketCount { name, packets };
        let others = self.others.into_iter().map(|(other, packets)| named(other.to_string(), packets));
        let beyond = (self.beyond > 0).then(|| named("further kinds".to_owned(), self.beyond));
        let tunnels = Tunnel::ALL.into_iter().zip(self.tunnels).filter(|(_, packets)| *packets > 0);
        let tunnels = tunnels.map(|(tunnel, packets)| named(tunnel.name().to_owned(), packets));
        let mut counts = [others.chain(beyond).collect::<Vec<_>>(), tunnels.collect()];
        counts.iter_mut().for_each(|counts| counts.sort_by_key(|count| std::cmp::Reverse(count.packets)));
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_kind_comes_first_and_kinds_are_bounded() {
        let mut census = Census::default();
        (0..1_000).for_each(|kind| census.other(Other::EtherType(kind)));
        census.others(Other::Protocol(1), 5);
        census.others(Other::EtherType(7), 5);
        let [others, tunnels] = census.finish();
        assert_eq!((others[0].packets, others[0].name.as_str()), (941, "further kinds"));
        assert_eq!((others[1].packets, others[1].name.as_str()), (6, "EtherType 0x0007"));
        assert_eq!(others.len(), KINDS_MAX + 1);
        assert!(tunnels.is_empty());
    }
}
