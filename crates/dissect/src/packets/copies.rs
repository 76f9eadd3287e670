//! Copies of packets: the same transmission, captured more than once.
//!
//! Mirror ports of both directions, `-i any` over a bond, a bridge or a router, drivers that
//! log a packet at several layers: the second sight of a packet follows the first within microseconds, and everything
//! that its sender wrote is the same (`wire::inet::identity`). A packet counts once, with the earliest stamp of its copies:
//! an answer may be stamped between two of them.
//!
//! A retransmission is no copy. Where the sender numbers its packets (the identification of IPv4), the number tells them
//! apart, however soon it follows. Without numbers (IPv6, IPv4 packets with identification 0 or a constant one) a
//! retransmission may be the same to the last bit: its timestamp option (RFC 7323) ticks once a millisecond. It is rare,
//! and a tap that copies does it to nearly all packets of a direction, acknowledgements included. So repeated packets
//! without numbers are copies in a direction of which at least half is repeated, over the last thousands of packets and
//! those that wait in the sort window. The limit of a millisecond is far above the delay of mirrors and drivers, and
//! below any retransmission by time: minimum RTO 200 ms and tail loss probes of two clock ticks, 2 ms (Linux), RTO 1 s
//! (RFC 6298). What remains are fast retransmissions on paths shorter than a millisecond, and resends of a device that
//! had no room.

use std::collections::HashMap;

use serde::Serialize;
use wire::inet::Identity;

/// Time in ns between the stamps of a packet and its copy.
const APART_MAX_NS: u64 = 1_000_000;
/// Buckets of packets that are remembered; [`WAYS`] each. Together as many as the sort window has, which is a millisecond
/// of 1500-byte packets at 190 Gb/s.
const BUCKETS: usize = 4_096;
const WAYS: usize = 4;
/// Superseded packets that are remembered: as many as wait in the sort window, twice. More are left over where a clock was
/// set back.
const SUPERSEDED_MAX: usize = 32_768;
/// Directions whose share of repeated packets is known; one of another connection replaces the older one.
const DIRECTIONS: usize = 4_096;
/// Packets of a direction after which their number is halved: recent ones decide.
const RECENT: u32 = 4_096;

/// Copies by the change that tells how they were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CopyCounts {
    /// Copies; they are counted nowhere else.
    pub packets: u64,
    /// Byte for byte the same in front of the IP packet: two ports of a mirror, or a driver that logs a packet twice.
    pub identical: u64,
    /// Another link layer: other addresses or tags, another direction of `-i any`.
    pub other_link: u64,
    /// Another TTL: taken before and behind a router.
    pub other_ttl: u64,
    /// Taken inside a tunnel and outside of it.
    pub other_tunnel: u64,
    /// Packets that two interfaces show within a millisecond: no copies, each counts at its own interface.
    pub other_interface: u64,
}

/// Way on which a packet came to the capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sight {
    pub(crate) interface: u32,
    /// Digest of the bytes in front of the IP packet.
    pub(crate) link: u64,
    pub(crate) is_tunnelled: bool,
}

/// Relation of a packet to the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Repetition {
    /// Not seen before.
    #[default]
    New,
    /// Seen before.
    Repeated {
        cause: Cause,
        /// The sender's number says that it is the same transmission.
        numbered: bool,
        /// Place of its direction.
        direction: u16,
    },
}

/// Difference between a packet and its copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    Identical,
    Link,
    Ttl,
    Tunnel,
}

/// Packets of the last millisecond.
#[derive(Debug)]
pub(crate) struct Copies {
    /// Packets in the sort window of which an earlier copy came later in the file.
    superseded: HashMap<u64, Repetition>,
    /// Low bits of the digests of each bucket: few bytes, which stay in the cache, answer for nearly all packets.
    tags: Vec<[u32; WAYS]>,
    buckets: Vec<[Seen; WAYS]>,
    directions: Vec<Direction>,
    /// Way of each bucket that its next packet takes.
    next_ways: Vec<u8>,
    pub(crate) counts: CopyCounts,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    digest: u64,
    t_ns: u64,
    /// Number in the order of the file.
    number: u64,
    interface: u32,
    /// Low bits of the link's digest.
    link: u16,
    hops: u8,
    is_tunnelled: bool,
}

/// Packets of one direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    key: u64,
    new: u32,
    repeated: u32,
    /// Identification of the last new packet.
    last_id: u16,
    /// It was the one of the packet before.
    is_constant: bool,
}

impl Default for Copies {
    fn default() -> Self {
        Self {
            tags: vec![[0; WAYS]; BUCKETS],
            buckets: vec![[Seen::NONE; WAYS]; BUCKETS],
            directions: vec![Direction::default(); DIRECTIONS],
            next_ways: vec![0; BUCKETS],
            superseded: HashMap::new(),
            counts: CopyCounts::default(),
        }
    }
}

impl Copies {
    /// Takes a packet in the order of the file, by which `number` counts. `is_sorted` is false if packets with a later
    /// stamp have left the sort window.
    pub(crate) fn observe(
        &mut self,
        (number, t_ns): (u64, u64),
        is_sorted: bool,
        identity: &Identity,
        sight: Sight,
    ) -> Repetition {
        let seen = Seen {
            digest: identity.digest,
            t_ns,
            number,
            interface: sight.interface,
            link: sight.link as u16,
            hops: identity.hops,
            is_tunnelled: sight.is_tunnelled,
        };
        // The bucket by the high bits, the tag by the low ones.
        let place = (identity.digest >> 32) as usize % BUCKETS;
        let (tag, tags, bucket) = (identity.digest as u32, &mut self.tags[place], &mut self.buckets[place]);
        let (mut cause, mut later) = (None, None);
        if tags.contains(&tag) {
            let is_same =
                |other: &&Seen| other.digest == seen.digest && other.t_ns.abs_diff(t_ns) <= APART_MAX_NS;
            let way = bucket.iter().position(|other| is_same(&other) && other.interface == seen.interface);
            cause = way.map(|way| bucket[way].difference(&seen));
            if let Some(first) =
                way.map(|way| &mut bucket[way]).filter(|first| is_sorted && t_ns < first.t_ns)
            {
                later = Some(first.number);
                *first = seen;
            }
            let is_elsewhere = cause.is_none() && bucket.iter().any(|other| is_same(&other));
            self.counts.other_interface += u64::from(is_elsewhere);
        }
        if cause.is_none() {
            let next = &mut self.next_ways[place];
            let way = usize::from(*next) % WAYS;
            (tags[way], bucket[way]) = (tag, seen);
            *next = next.wrapping_add(1);
        }
        let place = (identity.direction >> 32) as usize % DIRECTIONS;
        let direction = &mut self.directions[place];
        if direction.key != identity.direction {
            *direction = Direction { key: identity.direction, ..Direction::default() };
        }
        let id = identity.id.unwrap_or(0);
        match cause {
            None => {
                direction.add_new(id);
                Repetition::New
            }
            Some(cause) => {
                direction.repeated = direction.repeated.saturating_add(1);
                let numbered = id != 0 && !direction.is_constant;
                let repeated = Repetition::Repeated { cause, numbered, direction: place as u16 };
                let Some(later) = later else { return repeated };
                if self.superseded.len() >= SUPERSEDED_MAX {
                    self.superseded.clear();
                }
                self.superseded.insert(later, repeated);
                Repetition::New
            }
        }
    }

    /// Decides about a packet that leaves the sort window; true if it is a copy, which is counted.
    pub(crate) fn is_copy(&mut self, number: u64, mut repetition: Repetition) -> bool {
        if !self.superseded.is_empty() {
            repetition = self.superseded.remove(&number).unwrap_or(repetition);
        }
        let Repetition::Repeated { cause, numbered, direction } = repetition else { return false };
        let is_usual = self.directions[usize::from(direction)].is_copied();
        if !numbered && !is_usual {
            return false;
        }
        self.counts.packets += 1;
        *match cause {
            Cause::Identical => &mut self.counts.identical,
            Cause::Link => &mut self.counts.other_link,
            Cause::Ttl => &mut self.counts.other_ttl,
            Cause::Tunnel => &mut self.counts.other_tunnel,
        } += 1;
        true
    }
}

impl Seen {
    /// No packet: its stamp is near no other.
    const NONE: Self =
        Self { digest: 0, t_ns: u64::MAX, number: 0, interface: 0, link: 0, hops: 0, is_tunnelled: false };

    fn difference(&self, other: &Seen) -> Cause {
        match () {
            () if self.is_tunnelled != other.is_tunnelled => Cause::Tunnel,
            () if self.hops != other.hops => Cause::Ttl,
            () if self.link != other.link => Cause::Link,
            () => Cause::Identical,
        }
    }
}

impl Direction {
    fn add_new(&mut self, id: u16) {
        if self.new >= RECENT {
            (self.new, self.repeated) = (self.new / 2, self.repeated / 2);
        }
        self.is_constant = self.new > 0 && self.last_id == id;
        self.last_id = id;
        self.new += 1;
    }

    /// True if at least half of its packets are repeated.
    fn is_copied(&self) -> bool {
        self.repeated.saturating_mul(2) >= self.new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;
    const HERE: Sight = Sight { interface: 0, link: 1, is_tunnelled: false };

    fn packet(digest: u64, id: Option<u16>) -> Identity {
        Identity {
            digest: digest.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            direction: 7 << 32,
            id,
            len: 0,
            hops: 64,
        }
    }

    /// Copies among packets (time in µs, digest, identification) that are decided about at the end.
    fn copies(packets: &[(u64, u64, Option<u16>)]) -> u64 {
        let mut copies = Copies::default();
        let observe = |(number, (t, digest, id)): (u64, &(u64, u64, Option<u16>))| {
            (number, copies.observe((number, t * US), true, &packet(*digest, *id), HERE))
        };
        let seen: Vec<(u64, Repetition)> = (1..).zip(packets).map(observe).collect();
        seen.into_iter().filter(|(number, repetition)| copies.is_copy(*number, *repetition)).count() as u64
    }

    #[test]
    fn every_packet_twice() {
        for id in [None, Some(0), Some(9)] {
            let twice: Vec<_> = (0..500).flat_map(|n| [(n * 20, n, id), (n * 20 + 5, n, id)]).collect();
            assert_eq!(copies(&twice), 500, "{id:?}");
        }
    }

    #[test]
    fn copies_that_lag_behind_are_found_from_the_first_one_on() {
        let all: Vec<_> = (0..300).chain(0..300).zip(0..).map(|(digest, t)| (t, digest, None)).collect();
        assert_eq!(copies(&all), 300);
    }

    #[test]
    fn the_earliest_stamp_counts() {
        let mut copies = Copies::default();
        let mut see =
            |number, t, is_sorted| copies.observe((number, t * US), is_sorted, &packet(5, Some(5)), HERE);
        let seen =
            [(1, see(1, 20, true)), (2, see(2, 10, true)), (3, see(3, 15, true)), (4, see(4, 5, false))];
        let copied = seen.map(|(number, repetition)| copies.is_copy(number, repetition));
        assert_eq!(copied, [true, false, true, true], "the last one came too late to be sorted");
    }

    #[test]
    fn one_copy_of_a_numbered_packet_is_one() {
        let mut packets: Vec<_> = (1..100).map(|n| (n * 10, u64::from(n as u16), Some(n as u16))).collect();
        packets.push((991, 99, Some(99)));
        assert_eq!(copies(&packets), 1);
    }

    #[test]
    fn a_retransmission_is_no_copy() {
        let again = |id: fn(u64) -> Option<u16>| -> Vec<_> {
            let mut packets: Vec<_> = (1..100).map(|n| (n * 10, n, id(n))).collect();
            packets.extend((50..60).map(|n| (900 + n, n, id(n))));
            packets
        };
        assert_eq!(copies(&again(|_| None)), 0, "IPv6");
        assert_eq!(copies(&again(|_| Some(0))), 0, "no identification");
        assert_eq!(copies(&again(|_| Some(1))), 0, "a constant one");
        assert_eq!(copies(&[(0, 1, Some(1)), (2_000, 1, Some(1))]), 0, "two milliseconds later");
    }

    #[test]
    fn the_cause_is_told_from_the_difference() {
        let mut copies = Copies::default();
        let mut see = |t, sight, hops| {
            let found = copies.observe((t, t), true, &Identity { hops, ..packet(5, Some(5)) }, sight);
            copies.is_copy(t, found)
        };
        assert!(!see(0, HERE, 64));
        assert!(see(1, HERE, 64));
        assert!(see(2, Sight { link: 2, ..HERE }, 64));
        assert!(see(3, Sight { link: 2, ..HERE }, 63));
        assert!(see(4, Sight { link: 2, is_tunnelled: true, ..HERE }, 64));
        assert!(!see(5, Sight { interface: 1, ..HERE }, 64), "another tap");
        let expected = CopyCounts {
            packets: 4,
            identical: 1,
            other_link: 1,
            other_ttl: 1,
            other_tunnel: 1,
            other_interface: 1,
        };
        assert_eq!(copies.counts, expected);
    }
}
