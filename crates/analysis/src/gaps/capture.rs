//! The packets of a capture, as its [`Listener`]: gaps of the connection that carried most, at the tap by which it is
//! told.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::{Drawing, Gaps, PASSAGES_MAX, Passage};
use crate::capture::{Capture, Connection, Direction, Listener, PacketRow};
use crate::line::ETHERNET_BYTES;

/// Directions of connections that are followed.
const WAYS_MAX: usize = 64;
/// Packets of all of them together that are kept.
const PASSAGES_ALL_MAX: usize = 1_000_000;
/// Headers in front of the payload of a segment: IPv4 and TCP with timestamps.
const HEADERS_BYTES: u32 = crate::line::HEADER_BYTES + ETHERNET_BYTES;
/// SYN, FIN and RST.
const NOT_JUST_ACK: u8 = 2 | 1 | 4;

/// Takes packets while a capture is read.
#[derive(Debug, Default)]
pub struct Listening {
    ways: HashMap<Name, Way>,
    /// Of all ways.
    kept: usize,
}

/// By what a way is known: the interface that shows it, who sends and who gets it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Name {
    interface: u32,
    src: SocketAddr,
    dst: SocketAddr,
}

/// What one end of a connection sent.
#[derive(Debug, Default)]
struct Way {
    data: Vec<Passage>,
    acks: Vec<Passage>,
    payload_bytes: u64,
    largest: u32,
}

impl Listening {
    /// The gaps of the connection that carried most one way, of those that are told; `None` if its packets were too few.
    #[must_use]
    pub fn finish(mut self, capture: &Capture) -> Option<Gaps> {
        let told = capture.connections.iter().flat_map(ways);
        let carried = |(data, _): &(Name, Name)| self.ways.get(data).map(|way| (way.payload_bytes, *data));
        let (data, acks) = told.max_by_key(carried)?;
        let mut data = self.ways.remove(&data)?;
        let mss = data.largest_packet();
        for passage in &mut data.data {
            passage.segments = passage.bytes.div_ceil(mss).max(1);
            passage.bytes = passage.bytes.saturating_add(passage.segments.saturating_mul(HEADERS_BYTES));
        }
        let acks = self.ways.remove(&acks).unwrap_or_default();
        Gaps::of(&data.data, &acks.acks, Drawing::default())
    }
}

/// Both ways of a connection, each with the one that acknowledges it.
fn ways(connection: &Connection) -> Vec<(Name, Name)> {
    let [first, second] = &connection.directions;
    let name = |Direction { interface, from, to, .. }: &Direction| {
        Some(Name { interface: *interface, src: from.parse().ok()?, dst: to.parse().ok()? })
    };
    match (name(first), name(second)) {
        (Some(first), Some(second)) => vec![(first, second), (second, first)],
        _ => Vec::new(),
    }
}

impl Way {
    /// Payload of a packet that is none of several: the largest one, unless that is more than a jumbo frame holds.
    fn largest_packet(&self) -> u32 {
        if self.largest <= 9_000 { self.largest.max(1) } else { 1_448 }
    }
}

impl Listener for Listening {
    fn packet(&mut self, row: &PacketRow) {
        let names = Name { interface: row.interface, src: row.src, dst: row.dst };
        if self.kept >= PASSAGES_ALL_MAX {
            return;
        }
        if self.ways.len() >= WAYS_MAX && !self.ways.contains_key(&names) {
            return;
        }
        let way = self.ways.entry(names).or_default();
        let bytes = u32::try_from(row.len).unwrap_or(u32::MAX);
        let passage = Passage { sent_ns: row.t_ns, arrived_ns: None, bytes, segments: 1, unseen_ns: 0 };
        if row.len > 0 && way.data.len() < PASSAGES_MAX {
            way.payload_bytes += u64::from(bytes);
            way.largest = way.largest.max(bytes);
            way.data.push(passage);
            self.kept += 1;
        } else if row.len == 0 && row.flags & NOT_JUST_ACK == 0 && way.acks.len() < PASSAGES_MAX {
            // Its row does not say what it acknowledges.
            way.acks.push(passage);
            self.kept += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Kind;

    #[test]
    fn what_is_kept_is_bounded_over_all_connections() {
        let mut listening = Listening { kept: PASSAGES_ALL_MAX - 2, ..Listening::default() };
        for port in 1..=5 {
            listening.packet(&PacketRow {
                packet: 1,
                t_ns: 0,
                interface: 0,
                src: ([198, 18, 0, 1], port).into(),
                dst: ([198, 18, 0, 2], 3260).into(),
                seq: 0,
                len: 100,
                place: 0,
                acked: 0,
                ip_bytes: 152,
                flags: 16,
                kind: Kind::New,
                ack_rtt_ns: None,
                flight_bytes: 100,
            });
        }
        assert_eq!((listening.ways.len(), listening.kept), (2, PASSAGES_ALL_MAX));
    }
}
