//! First packets of a capture file: they tell whether the file continues another one, repeats its traffic, or shows the
//! other direction of it.

use std::collections::HashSet;
use std::net::SocketAddr;

use wire::pcap::Packet;

use super::segment::tcp_segment;
use super::time_span::TimeSpan;

/// Packets that are kept.
const PACKETS: usize = 256;
/// Bytes that are kept of each packet; headers are shorter, those of a tunnel too.
const BYTES: usize = 256;

/// The first packets of a file.
#[derive(Clone, Debug, Default)]
pub struct FirstPackets {
    packets: Vec<Kept>,
}

#[derive(Clone, Debug)]
struct Kept {
    t_ns: u64,
    link: u32,
    interface: u32,
    name: String,
    len: usize,
    bytes: Vec<u8>,
}

impl FirstPackets {
    /// Takes the next packet and the name of its interface; true when enough packets are kept.
    pub fn packet(&mut self, packet: &Packet<'_>, interface: &str) -> bool {
        let bytes = packet.bytes[..packet.bytes.len().min(BYTES)].to_vec();
        self.packets.push(Kept {
            t_ns: packet.t_ns,
            link: packet.link,
            interface: packet.interface,
            name: interface.to_owned(),
            len: packet.len,
            bytes,
        });
        self.packets.len() >= PACKETS
    }

    /// Time of the earliest packet in ns, without a single stamp that is wrong; 0 if there is none.
    pub fn first_ns(&self) -> u64 {
        let mut span = TimeSpan::default();
        self.each(|packet, _| span.take(packet.t_ns, tcp_segment(packet).is_some()));
        span.first_ns()
    }

    /// True if two files show one direction each of the same connections: of each connection in both, one file has what
    /// one end sends and the other file the rest, and at least half of this file's connections are like that.
    pub fn complements(&self, other: &FirstPackets) -> bool {
        let (own, others) = (self.directions(), other.directions());
        let is_one_way = |(src, dst): &&(SocketAddr, SocketAddr)| !own.contains(&(*dst, *src));
        let one_way = own.iter().filter(is_one_way).count();
        let shared = own.iter().filter(|(src, dst)| others.contains(&(*dst, *src))).count();
        let is_disjoint = own.is_disjoint(&others);
        is_disjoint && one_way == own.len() && shared > 0 && shared * 2 >= own.len().min(others.len())
    }

    /// True if two files show the same direction of a connection.
    pub fn shows_same(&self, other: &FirstPackets) -> bool {
        !self.directions().is_disjoint(&other.directions())
    }

    /// Senders and receivers of its segments.
    fn directions(&self) -> HashSet<(SocketAddr, SocketAddr)> {
        let mut directions = HashSet::new();
        self.each(|packet, _| {
            directions.extend(tcp_segment(packet).map(|segment| (segment.src, segment.dst)));
        });
        directions
    }

    /// Passes each packet and the name of its interface to `take`.
    pub(crate) fn each(&self, mut take: impl FnMut(&Packet<'_>, &str)) {
        for kept in &self.packets {
            let Kept { t_ns, link, interface, len, .. } = *kept;
            take(&Packet { t_ns, link, interface, len, bytes: &kept.bytes }, &kept.name);
        }
    }
}
