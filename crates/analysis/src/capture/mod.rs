//! Anybody's captures: packets in, connections and their iSCSI out. One question per file.
//!
//! [`Analyzer`] takes packets one by one and keeps no more than its limits allow: connections, pieces that wait for a
//! gap, segments that wait for their acknowledgement, commands that wait for their status. Nothing here trusts what a
//! packet says. [`file::read`] feeds a whole file. Which packet and which PDU was what is told to a [`Listener`] while
//! it is read; sums are in [`Capture`]. `docs/analyze.md` says what each figure means.

mod budget;
mod commands;
mod delivery;
mod digests;
mod distribution;
mod drawing;
mod edges;
pub mod file;
mod flow;
mod framer;
mod half;
mod hidden;
mod kind;
mod level;
mod open;
mod plausible;
mod ranges;
mod result;
mod serial;
mod session;
mod stalls;
mod stream;
mod tell;
#[cfg(test)]
mod tests;
mod unacked;
mod verdict;
mod waits;
mod window;

use std::collections::HashMap;
use std::net::SocketAddr;

use wire::inet::tcp::SYN;
use wire::inet::{Segment, ip_of_frame};
use wire::pcap::Packet;

pub use commands::CommandsTold;
pub use delivery::Delivered;
pub use distribution::Durations;
pub use drawing::Drawing;
pub use kind::{Kind, Kinds};
pub use level::Heights;
pub use result::{Capture, Connection, Direction, Framing, Iscsi};
pub use tell::{CommandRow, Listener, PacketRow, PduRow};
pub use waits::TimeUse;
pub use window::CommandWindowUse;

use budget::Budget;
use flow::{FLOW_HELD, Flow};
use stream::Tag;

/// Connections that are followed; packets of others are counted only.
pub const CONNECTIONS_MAX: usize = 1_024;
/// What is held in memory over all connections, in bytes. A table that grows has the old one beside it for a moment.
const HELD_MAX: usize = 256 << 20;
/// A segment with more payload is nothing that a device makes.
const SEGMENT_MAX: usize = 1 << 20;

/// Takes the packets of one capture in the order of the file.
#[derive(Debug)]
pub struct Analyzer {
    flows: Vec<Flow>,
    places: HashMap<(SocketAddr, SocketAddr), usize>,
    budget: Budget,
    packets: u64,
    tcp_packets: u64,
    beyond_packets: u64,
    first_ns: u64,
    last_ns: u64,
}

impl Default for Analyzer {
    fn default() -> Self {
        Self::new()
    }
}

impl Analyzer {
    /// Before the first packet.
    pub fn new() -> Self {
        Self {
            flows: Vec::new(),
            places: HashMap::new(),
            budget: Budget::new(HELD_MAX),
            packets: 0,
            tcp_packets: 0,
            beyond_packets: 0,
            first_ns: 0,
            last_ns: 0,
        }
    }

    /// Takes the next packet.
    pub fn packet(&mut self, packet: &Packet<'_>, listener: &mut dyn Listener) {
        if self.packets == 0 {
            self.first_ns = packet.t_ns;
        }
        self.packets += 1;
        self.last_ns = self.last_ns.max(packet.t_ns);
        let Some(ip_at) = ip_of_frame(packet.link, packet.bytes) else { return };
        let segment = packet.bytes.get(ip_at..).and_then(|ip| Segment::parse(ip, packet.len - ip_at));
        let Some(segment) = segment.filter(|segment| segment.len <= SEGMENT_MAX) else { return };
        self.tcp_packets += 1;
        let key = (segment.src.min(segment.dst), segment.src.max(segment.dst));
        let known = self.places.get(&key).copied();
        // Ports are used again: a SYN behind the data of an old connection begins a new one.
        let place = known.filter(|place| segment.flags & SYN == 0 || !self.flows[*place].is_over(&segment));
        let place = match place {
            Some(place) => place,
            None if self.flows.len() >= CONNECTIONS_MAX || !self.budget.take(FLOW_HELD) => {
                self.beyond_packets += 1;
                return;
            }
            None => {
                self.flows.push(Flow::new(segment.src, segment.dst, packet.t_ns));
                self.places.insert(key, self.flows.len() - 1);
                self.flows.len() - 1
            }
        };
        let tag = Tag { packet: self.packets, t_ns: packet.t_ns };
        self.flows[place].packet(tag, &segment, &self.budget, listener);
    }

    /// Time of the latest packet so far; 0 before the first.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// The capture ends; `cut` says why, if that is not its end.
    pub fn finish(mut self, dropped: u64, cut: Option<String>) -> Capture {
        let first_ns = self.first_ns;
        Capture {
            packets: self.packets,
            tcp_packets: self.tcp_packets,
            beyond_packets: self.beyond_packets,
            dropped,
            begin_s: first_ns as f64 / 1e9,
            begin_ns: first_ns,
            length_s: self.last_ns.saturating_sub(first_ns) as f64 / 1e9,
            cut,
            connections: self.flows.iter_mut().map(|flow| Connection::of(flow, first_ns)).collect(),
        }
    }
}
