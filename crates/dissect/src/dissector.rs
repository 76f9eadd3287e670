//! Dissection of one capture, packet by packet in the order of the file.

use std::collections::HashMap;
use std::io::Read;
use std::net::SocketAddr;

use wire::inet::Segment;
use wire::inet::tcp::SYN;
use wire::pcap::Packet;

use crate::budget::MemoryBudget;
use crate::connection::{CONNECTION_HELD, TappedConnection};
use crate::packets::file::{FileEnd, FileError, read_packets};
use crate::packets::first::FirstPackets;
use crate::packets::interfaces::{Admission, Interfaces};
use crate::packets::packet_ref::PacketRef;
use crate::packets::segment::{endpoints, tcp_segment};
use crate::placement::{Placement, place};
use crate::rows::RowSink;
use crate::summary::connection::ConnectionSummary;
use crate::summary::dissection::{CaptureTotals, Dissection};
use crate::summary::merge;

/// Limit of connections; packets of further ones are only counted.
const CONNECTIONS_MAX: usize = 1_024;
/// Memory budget of all connections, in bytes. A table that grows has the old one beside it for a moment.
const HELD_MAX: usize = 256 << 20;

/// Dissects the packets of one capture in the order of the file.
#[derive(Debug)]
pub struct Dissector {
    connections: Vec<TappedConnection>,
    /// Indices of connections by endpoints: one for each tap, the latest between these ports.
    by_endpoints: HashMap<(SocketAddr, SocketAddr), Vec<usize>>,
    /// Index of the last packet's connection; the next packet usually has the same.
    last: usize,
    interfaces: Interfaces,
    budget: MemoryBudget,
    packets: u64,
    tcp_packets: u64,
    beyond_packets: u64,
    first_ns: u64,
    last_ns: u64,
}

impl Default for Dissector {
    fn default() -> Self {
        Self::new()
    }
}

impl Dissector {
    /// Dissector of all interfaces.
    pub fn new() -> Self {
        Self::with_interfaces(Vec::new())
    }

    /// Dissector of the interfaces with these names or numbers; of all if there is none.
    pub fn with_interfaces(wanted: Vec<String>) -> Self {
        Self {
            connections: Vec::new(),
            by_endpoints: HashMap::new(),
            last: 0,
            interfaces: Interfaces::with_selection(wanted),
            budget: MemoryBudget::new(HELD_MAX),
            packets: 0,
            tcp_packets: 0,
            beyond_packets: 0,
            first_ns: 0,
            last_ns: 0,
        }
    }

    /// Reads and dissects all packets of a file, as [`read_packets`] does with each.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read or is not a capture.
    pub fn read(
        mut self,
        file: impl Read,
        rows: &mut dyn RowSink,
        progress: impl FnMut(u64),
    ) -> Result<Dissection, FileError> {
        let FileEnd { dropped, cut } = read_packets(
            file,
            |packet, interface| {
                self.packet(packet, interface, rows);
                false
            },
            progress,
        )?;
        Ok(self.finish(dropped, cut))
    }

    /// Takes the next packet; `interface` is the name of its interface, empty without one.
    pub fn packet(&mut self, packet: &Packet<'_>, interface: &str, rows: &mut dyn RowSink) {
        if self.packets == 0 {
            self.first_ns = packet.t_ns;
        }
        self.packets += 1;
        self.last_ns = self.last_ns.max(packet.t_ns);
        let admission = self.interfaces.admit(packet.interface, interface, packet.len as u64);
        if admission == Admission::Deselected {
            return;
        }
        let Some(segment) = tcp_segment(packet) else { return };
        self.tcp_packets += 1;
        let index = match admission {
            Admission::From(interface) => self.index(&segment, interface, packet.t_ns),
            Admission::Deselected | Admission::Beyond => None,
        };
        let Some(index) = index else {
            self.beyond_packets += 1;
            return;
        };
        self.last = index;
        self.connections[index].kept(packet.bytes.len(), packet.len);
        let packet = PacketRef { number: self.packets, t_ns: packet.t_ns };
        self.connections[index].packet(packet, &segment, &self.budget, rows);
    }

    /// Index of a segment's connection; `None` if there is no room for another one.
    fn index(&mut self, segment: &Segment<'_>, interface: u32, t_ns: u64) -> Option<usize> {
        let last = self.connections.get(self.last);
        if last.is_some_and(|connection| connection.continues_with(segment, interface)) {
            return Some(self.last);
        }
        let key = endpoints(segment);
        let known = self.by_endpoints.get(&key).map_or(&[][..], Vec::as_slice);
        let (mut taps, mut before) = ([Some(interface), None], None);
        match place(&self.connections, known, segment, interface) {
            Placement::Known(index) | Placement::Joins(index) => {
                let connection = &mut self.connections[index];
                let direction = connection.direction(segment);
                connection.taps[direction] = Some(interface);
                // Ports are reused: a SYN after the data of an old connection begins a new one.
                if !connection.is_over(segment) {
                    return Some(index);
                }
                taps[1] = connection.taps[1 - direction];
                before = Some(index);
            }
            Placement::Splits(index) => {
                let connection = &mut self.connections[index];
                connection.taps[1 - connection.direction(segment)] = None;
            }
            Placement::New => {}
        }
        if self.connections.len() >= CONNECTIONS_MAX || !self.budget.reserve(CONNECTION_HELD) {
            return None;
        }
        self.connections.push(TappedConnection::new([segment.src, segment.dst], taps, t_ns));
        let index = self.connections.len() - 1;
        let indices = self.by_endpoints.entry(key).or_default();
        match indices.iter_mut().find(|known| Some(**known) == before) {
            Some(known) => *known = index,
            None => indices.push(index),
        }
        Some(index)
    }

    /// True if the first packets of a file were in this capture before. Such a file does not continue the capture: it was
    /// made at another tap, perhaps by another clock.
    pub fn has_seen(&self, first: &FirstPackets) -> bool {
        // Endpoints between which a new connection begins.
        let mut begun = Vec::new();
        first.are_mostly_known(|packet, name| {
            let interface = self.interfaces.number(packet.interface, name)?;
            let segment = tcp_segment(packet)?;
            if segment.len == 0 && segment.flags & SYN == 0 {
                return None;
            }
            let key = endpoints(&segment);
            let known = self.by_endpoints.get(&key)?.iter().map(|index| &self.connections[*index]);
            let mut known = known.filter(|connection| connection.taps.contains(&Some(interface)));
            let was_there = known.any(|connection| connection.repeats(&segment));
            if segment.flags & SYN != 0 && !was_there {
                begun.push(key);
            }
            Some(was_there && !begun.contains(&key))
        })
    }

    /// Time of the latest packet in ns; 0 before the first packet.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Ends the capture. `dropped` packets were lost by the capturing host; `cut` is the reason of a premature end.
    pub fn finish(mut self, dropped: u64, cut: Option<String>) -> Dissection {
        let first_ns = self.first_ns;
        let connections =
            self.connections.iter_mut().map(|connection| ConnectionSummary::new(connection, first_ns));
        let connections = merge::unique(connections.collect());
        let totals = CaptureTotals {
            packets: self.packets,
            tcp_packets: self.tcp_packets,
            beyond_packets: self.beyond_packets,
            dropped,
            begin_s: first_ns as f64 / 1e9,
            begin_ns: first_ns,
            length_s: self.last_ns.saturating_sub(first_ns) as f64 / 1e9,
            cut,
            interfaces: self.interfaces.finish(),
        };
        Dissection { totals, connections }
    }
}
