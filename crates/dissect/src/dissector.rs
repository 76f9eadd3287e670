//! Dissection of one capture: packets of the file to TCP segments, put in the order of their stamps, without copies, then
//! to connections.

use std::io::Read;
use std::net::SocketAddr;

use wire::inet::Segment;
use wire::inet::encapsulation::{Content, Inner, Other, decapsulate, interface_index};
use wire::inet::identity::{Identity, digest};
use wire::pcap::Packet;

use crate::connections::{Connections, Known};
use crate::events::reports::Reports;
use crate::packets::census::Census;
use crate::packets::copies::{Copies, Repetition, Sight};
use crate::packets::file::{FileEnd, FileError, read_packets};
use crate::packets::first::FirstPackets;
use crate::packets::fragments::Fragments;
use crate::packets::interfaces::{Admission, InterfaceId, Interfaces};
use crate::packets::order::Order;
use crate::packets::packet_ref::PacketRef;
use crate::packets::segment::{SEGMENT_MAX, endpoints, tcp_segment};
use crate::packets::time_span::TimeSpan;
use crate::packets::window::{LATE_MAX_NS, SortWindow};
use crate::rows::RowSink;
use crate::summary::connection::ConnectionSummary;
use crate::summary::dissection::{CaptureTotals, Dissection};
use crate::summary::merge;

/// LINKTYPE_RAW: a reassembled packet begins with its IP header.
const RAW: u32 = 101;

/// Dissects the packets of one capture.
#[derive(Debug, Default)]
pub struct Dissector {
    connections: Connections,
    interfaces: Interfaces,
    window: SortWindow<Arrived>,
    order: Order,
    copies: Copies,
    fragments: Fragments,
    reports: Reports,
    census: Census,
    packets: u64,
    tcp_packets: u64,
    /// TCP packets that have left the window, without copies.
    passed: u64,
    beyond_packets: u64,
    span: TimeSpan,
}

/// Facts about a packet that waits for its turn.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    /// Interface; `None` beyond the limit of those.
    interface: Option<u32>,
    /// Number in its file.
    in_file: u64,
    /// Bytes of the IP packet on the wire.
    wire_len: u32,
    /// Bytes of the frame that the capture has kept, if it has cut it.
    cut_len: Option<u32>,
    repetition: Repetition,
}

impl Dissector {
    /// Dissector of all interfaces.
    pub fn new() -> Self {
        Self::default()
    }

    /// Dissector of the interfaces with these names or numbers; of all if there is none.
    pub fn with_interfaces(wanted: Vec<String>) -> Self {
        Self { interfaces: Interfaces::with_selection(wanted), ..Self::default() }
    }

    /// Reads and dissects all packets of a file. `progress` receives the number of bytes read so far.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read or is not a capture.
    pub fn read(
        mut self,
        file: impl Read,
        rows: &mut dyn RowSink,
        progress: impl FnMut(u64),
    ) -> Result<Dissection, FileError> {
        let FileEnd { dropped, cut } = self.read_file(file, rows, progress)?;
        Ok(self.finish(dropped, cut, rows))
    }

    /// The same for one of several files that follow each other.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read or is not a capture.
    pub fn read_file(
        &mut self,
        file: impl Read,
        rows: &mut dyn RowSink,
        progress: impl FnMut(u64),
    ) -> Result<FileEnd, FileError> {
        let each = |packet: &Packet<'_>, interface: &str| {
            self.packet(packet, interface, rows);
            false
        };
        let end = read_packets(file, each, progress)?;
        self.end_file(rows);
        Ok(end)
    }

    /// Takes the next packet of the file; `interface` is the name of its interface, empty without one. Rows of it follow
    /// as soon as no earlier packet can come.
    pub fn packet(&mut self, packet: &Packet<'_>, interface: &str, rows: &mut dyn RowSink) {
        self.packets += 1;
        self.numbered_packet(packet, interface, self.packets, rows);
    }

    /// The same for one of several files that are read side by side; `number` is that in its file.
    pub fn packet_of(&mut self, packet: &Packet<'_>, interface: &str, number: u64, rows: &mut dyn RowSink) {
        self.packets += 1;
        self.numbered_packet(packet, interface, number, rows);
    }

    fn numbered_packet(&mut self, packet: &Packet<'_>, interface: &str, number: u64, rows: &mut dyn RowSink) {
        let index = interface_index(packet.link, packet.bytes);
        let id = InterfaceId { written: packet.interface, name: interface, index };
        let admission = self.interfaces.admit(id, packet.len as u64);
        let before = self.tcp_packets;
        let stamp = (number, packet.t_ns);
        match admission {
            Admission::From(interface) => {
                self.frame(stamp, Some(interface), packet.link, (packet.bytes, packet.len), rows);
            }
            Admission::Beyond => self.frame(stamp, None, packet.link, (packet.bytes, packet.len), rows),
            Admission::Deselected => {}
        }
        let is_tcp = self.tcp_packets > before;
        self.span.take(packet.t_ns, is_tcp);
        if admission != Admission::Beyond {
            self.interfaces.stamp(packet.t_ns, is_tcp);
        }
    }

    /// Takes a frame of `wire_len` bytes, of which some were kept.
    fn frame(
        &mut self,
        (number, t_ns): (u64, u64),
        interface: Option<u32>,
        link: u32,
        (bytes, wire_len): (&[u8], usize),
        rows: &mut dyn RowSink,
    ) {
        let inner = match decapsulate(link, bytes) {
            Content::Tcp(inner) => inner,
            Content::Fragment(inner) => {
                let ip = &bytes[inner.ip_at..];
                if let Some((whole, len)) = self.fragments.push(interface.unwrap_or(u32::MAX), ip) {
                    // A fragment inside completes another one of a bounded number of datagrams, or nothing.
                    self.frame((number, t_ns), interface, RAW, (&whole, len), rows);
                }
                return;
            }
            Content::Unreachable(inner, other) => {
                let tap = interface.unwrap_or(u32::MAX);
                self.reports.take(&bytes[inner.ip_at..], tap, number, t_ns);
                return self.census.other(other);
            }
            Content::Other(other) => return self.census.other(other),
        };
        let Inner { ip_at, tunnels } = inner;
        let (link_header, ip) = bytes.split_at(ip_at);
        let cut_len = (bytes.len() < wire_len).then_some(bytes.len() as u32);
        let wire_len = wire_len.saturating_sub(ip_at);
        let identity = Identity::parse(ip, wire_len).filter(|identity| identity.len <= SEGMENT_MAX);
        let Some(identity) = identity else { return self.census.other(Other::Cut) };
        self.tcp_packets += 1;
        self.census.tunnelled(tunnels);
        let sight = Sight {
            interface: interface.unwrap_or(u32::MAX),
            link: digest(link_header),
            is_tunnelled: !tunnels.is_empty(),
        };
        let is_sorted = !self.window.is_beyond(t_ns);
        let repetition = self.copies.observe((self.tcp_packets, t_ns), is_sorted, &identity, sight);
        let wire_len = u32::try_from(wire_len).unwrap_or(u32::MAX);
        let arrived = Arrived { interface, in_file: number, wire_len, cut_len, repetition };
        let position = self.window.push(t_ns, self.tcp_packets, arrived, ip);
        self.order.observe(sight.interface, t_ns, position);
        while self.window.is_full() {
            self.release(rows);
        }
    }

    /// Passes the earliest packet on; false if none waits.
    fn release(&mut self, rows: &mut dyn RowSink) -> bool {
        let Some(waiting) = self.window.pop() else { return false };
        let Arrived { interface, in_file, wire_len, cut_len, repetition } = waiting.about;
        if !self.copies.is_copy(waiting.number, repetition)
            && let Some(segment) = Segment::parse(self.window.bytes(&waiting), wire_len as usize)
        {
            self.passed += 1;
            let packet = PacketRef { number: self.passed, in_file, t_ns: waiting.t_ns };
            let is_followed = interface.is_some_and(|interface| {
                self.connections.packet(packet, (interface, cut_len), &segment, rows)
            });
            self.beyond_packets += u64::from(!is_followed);
        }
        self.window.forget(&waiting);
        true
    }

    /// Ends one of several files: all of its packets are passed on.
    pub fn end_file(&mut self, rows: &mut dyn RowSink) {
        while self.release(rows) {}
        self.window.restart();
        self.connections.begin_file();
    }

    /// True if the first packets of a file were in this capture before. Such a file does not continue the capture: it was
    /// made at another tap, perhaps by another clock.
    pub fn has_seen(&self, first: &FirstPackets) -> bool {
        // Endpoints between which a new connection begins.
        let mut begun = Vec::new();
        let mut answers = [0_usize; 2];
        self.each_known(first, |endpoints, known| {
            if known == Known::Begun {
                begun.push(endpoints);
            }
            answers[usize::from(known == Known::Repeated && !begun.contains(&endpoints))] += 1;
        });
        answers[1] > answers[0]
    }

    /// True if a file goes on with this capture though it begins a moment before that ends, as files of several rings do:
    /// its first packets go on with known connections, and none of them was there before.
    pub fn goes_on_with(&self, first: &FirstPackets) -> bool {
        let overlap_ns = self.last_ns().saturating_sub(first.first_ns());
        let (mut continued, mut repeated) = (0, 0);
        self.each_known(first, |_, known| {
            continued += usize::from(known == Known::Continued);
            repeated += usize::from(known == Known::Repeated);
        });
        overlap_ns <= LATE_MAX_NS && continued > 0 && repeated == 0
    }

    /// Calls `each` with the endpoints of those first packets whose connections have an answer.
    fn each_known(&self, first: &FirstPackets, mut each: impl FnMut((SocketAddr, SocketAddr), Known)) {
        first.each(|packet, name| {
            let index = interface_index(packet.link, packet.bytes);
            let id = InterfaceId { written: packet.interface, name, index };
            let Some(interface) = self.interfaces.number(id) else { return };
            let Some(segment) = tcp_segment(packet) else { return };
            if let Some(known) = self.connections.known(interface, &segment) {
                each(endpoints(&segment), known);
            }
        });
    }

    /// Time of the latest packet in ns; 0 before the first packet.
    pub fn last_ns(&self) -> u64 {
        self.span.last_ns()
    }

    /// Ends the capture; packets that still wait have their rows. `dropped` packets were lost by the capturing host; `cut`
    /// is the reason of a premature end.
    pub fn finish(mut self, dropped: u64, cut: Option<String>, rows: &mut dyn RowSink) -> Dissection {
        while self.release(rows) {}
        let first_ns = self.span.first_ns();
        let order = self.order.finish();
        // Wrong stamps would be a long silence.
        let watched_ns = |taps| if order.beyond == 0 { self.interfaces.watched_ns(taps) } else { 0 };
        self.connections.finish(&self.reports, watched_ns);
        let connections = self.connections.iter();
        let connections = connections.map(|connection| ConnectionSummary::new(connection, first_ns));
        let connections = merge::unique(connections.collect());
        for (other, packets) in self.fragments.finish() {
            self.census.others(other, packets);
        }
        let [others, tunnels] = self.census.finish();
        let totals = CaptureTotals {
            packets: self.packets,
            tcp_packets: self.tcp_packets,
            beyond_packets: self.beyond_packets,
            dropped,
            begin_s: first_ns as f64 / 1e9,
            begin_ns: first_ns,
            length_s: self.span.last_ns().saturating_sub(first_ns) as f64 / 1e9,
            cut,
            interfaces: self.interfaces.finish(),
            order,
            copies: self.copies.counts,
            others,
            tunnels,
        };
        Dissection { totals, connections }
    }
}
