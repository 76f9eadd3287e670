//! Anybody's captures: packets in, connections and their iSCSI out. One question per file.
//!
//! [`Analyzer`] takes packets one by one and keeps no more than its limits allow: connections, pieces that wait for a
//! gap, segments that wait for their acknowledgement, commands that wait for their status. Nothing here trusts what a
//! packet says. [`file::read`] feeds a whole file. Which packet and which PDU was what is told to a [`Listener`] while
//! it is read; sums are in [`Capture`]. `docs/analyze.md` says what each figure means.

mod aborts;
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
mod holes;
mod interfaces;
mod kind;
mod level;
mod login;
mod open;
mod opening;
mod plausible;
mod ranges;
mod remedies;
mod result;
mod serial;
mod session;
mod stalls;
mod stream;
mod taps;
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
pub use interfaces::Interface;
pub use kind::{Kind, Kinds};
pub use level::Heights;
pub use login::Agreed;
pub use opening::Opening;
pub use result::{Capture, Connection, Direction, Framing, Iscsi};
pub use taps::shared;
pub use tell::{CommandRow, Listener, PacketRow, PduRow};
pub use waits::TimeUse;
pub use window::CommandWindowUse;

use budget::Budget;
use flow::{FLOW_HELD, Flow};
use interfaces::{Admitted, Interfaces};
use stream::Tag;
use taps::Tap;

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
    /// Where the flows of a connection stand: one for each tap that sees it, the latest between these ports.
    places: HashMap<(SocketAddr, SocketAddr), Vec<usize>>,
    /// Where the last packet's stands: the next one's is mostly the same.
    last: usize,
    interfaces: Interfaces,
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
        Self::of_interfaces(Vec::new())
    }

    /// The same for packets of these interfaces alone, which are names or numbers; of all if there is none.
    pub fn of_interfaces(wanted: Vec<String>) -> Self {
        Self {
            flows: Vec::new(),
            places: HashMap::new(),
            last: 0,
            interfaces: Interfaces::wanted(wanted),
            budget: Budget::new(HELD_MAX),
            packets: 0,
            tcp_packets: 0,
            beyond_packets: 0,
            first_ns: 0,
            last_ns: 0,
        }
    }

    /// Takes the next packet; `interface` is the name of its interface, empty if that has none.
    pub fn packet(&mut self, packet: &Packet<'_>, interface: &str, listener: &mut dyn Listener) {
        if self.packets == 0 {
            self.first_ns = packet.t_ns;
        }
        self.packets += 1;
        self.last_ns = self.last_ns.max(packet.t_ns);
        let admitted = self.interfaces.admit(packet.interface, interface, packet.len as u64);
        if admitted == Admitted::No {
            return;
        }
        let Some(segment) = segment(packet) else { return };
        self.tcp_packets += 1;
        let place = match admitted {
            Admitted::From(interface) => self.place(&segment, interface, packet.t_ns),
            Admitted::No | Admitted::Beyond => None,
        };
        let Some(place) = place else {
            self.beyond_packets += 1;
            return;
        };
        self.last = place;
        let tag = Tag { packet: self.packets, t_ns: packet.t_ns };
        self.flows[place].packet(tag, &segment, &self.budget, listener);
    }

    /// Where the flow of a segment stands; `None` if there is no room for another one.
    fn place(&mut self, segment: &Segment<'_>, interface: u32, t_ns: u64) -> Option<usize> {
        if self.flows.get(self.last).is_some_and(|flow| flow.goes_on_with(segment, interface)) {
            return Some(self.last);
        }
        let key = ends(segment);
        let known = self.places.get(&key).map_or(&[][..], Vec::as_slice);
        let tap = taps::tap(&self.flows, known, segment, interface);
        let (mut shown, mut before) = ([Some(interface), None], None);
        match tap {
            Tap::Of(place) | Tap::Joins(place) => {
                let flow = &mut self.flows[place];
                let direction = flow.direction(segment);
                flow.taps[direction] = Some(interface);
                // Ports are used again: a SYN behind the data of an old connection begins a new one.
                if !flow.is_over(segment) {
                    return Some(place);
                }
                shown[1] = flow.taps[1 - direction];
                before = Some(place);
            }
            Tap::Splits(place) => {
                let flow = &mut self.flows[place];
                flow.taps[1 - flow.direction(segment)] = None;
            }
            Tap::New => {}
        }
        if self.flows.len() >= CONNECTIONS_MAX || !self.budget.take(FLOW_HELD) {
            return None;
        }
        self.flows.push(Flow::new([segment.src, segment.dst], shown, t_ns));
        let place = self.flows.len() - 1;
        let places = self.places.entry(key).or_default();
        match places.iter_mut().find(|known| Some(**known) == before) {
            Some(known) => *known = place,
            None => places.push(place),
        }
        Some(place)
    }

    /// Whether the packets that a file begins with were there before: then it does not go on with this capture, but was
    /// made at another tap, whose clock may be another one.
    pub fn has(&self, opening: &Opening) -> bool {
        // Connections that begin anew between the same ports.
        let mut begun = Vec::new();
        opening.is_in(|packet, name| {
            let interface = self.interfaces.number(packet.interface, name)?;
            let segment = segment(packet).filter(|segment| segment.len > 0 || segment.flags & SYN != 0)?;
            let known = self.places.get(&ends(&segment))?.iter().map(|place| &self.flows[*place]);
            let mut known = known.filter(|flow| flow.taps.contains(&Some(interface)));
            let was_there = known.any(|flow| flow.repeats(&segment));
            if segment.flags & SYN != 0 && !was_there {
                begun.push(ends(&segment));
            }
            Some(was_there && !begun.contains(&ends(&segment)))
        })
    }

    /// Time of the latest packet so far; 0 before the first.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// The capture ends; `cut` says why, if that is not its end.
    pub fn finish(mut self, dropped: u64, cut: Option<String>) -> Capture {
        let first_ns = self.first_ns;
        let connections = self.flows.iter_mut().map(|flow| Connection::of(flow, first_ns)).collect();
        Capture {
            packets: self.packets,
            tcp_packets: self.tcp_packets,
            beyond_packets: self.beyond_packets,
            dropped,
            begin_s: first_ns as f64 / 1e9,
            begin_ns: first_ns,
            length_s: self.last_ns.saturating_sub(first_ns) as f64 / 1e9,
            cut,
            interfaces: self.interfaces.told(),
            connections: taps::told_once(connections),
        }
    }
}

/// The TCP segment in a packet.
fn segment<'a>(packet: &Packet<'a>) -> Option<Segment<'a>> {
    let ip_at = ip_of_frame(packet.link, packet.bytes)?;
    let segment = Segment::parse(packet.bytes.get(ip_at..)?, packet.len - ip_at);
    segment.filter(|segment| segment.len <= SEGMENT_MAX)
}

/// Both ends of its connection, in an order that is that of neither direction.
fn ends(segment: &Segment<'_>) -> (SocketAddr, SocketAddr) {
    (segment.src.min(segment.dst), segment.src.max(segment.dst))
}
