//! Connections of a capture: each segment, in the order of the stamps, goes to the connection of its endpoints and tap.

use std::collections::HashMap;
use std::net::SocketAddr;

use wire::inet::Segment;
use wire::inet::tcp::SYN;

use crate::budget::MemoryBudget;
use crate::connection::{CONNECTION_HELD, TappedConnection};
use crate::events::reports::Reports;
use crate::packets::file_edge::FileEdge;
use crate::packets::packet_ref::PacketRef;
use crate::packets::segment::endpoints;
use crate::packets::time_span::TimeSpan;
use crate::placement::{Placement, place};
use crate::rows::RowSink;

/// Limit of connections; packets of further ones are only counted.
const CONNECTIONS_MAX: usize = 1_024;
/// Memory budget of all connections, in bytes. A table that grows has the old one beside it for a moment.
const HELD_MAX: usize = 256 << 20;

/// Relation of a file's first segments to the connections before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// The segment was there before.
    Repeated,
    /// A known connection goes on with it.
    Continued,
    /// A new connection begins.
    Begun,
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Connections {
    all: Vec<TappedConnection>,
    /// Indices of connections by endpoints: one for each tap, the latest between these ports.
    by_endpoints: HashMap<(SocketAddr, SocketAddr), Vec<usize>>,
    /// Index of the last packet's connection; the next packet usually has the same.
    last: usize,
    budget: MemoryBudget,
    /// Edges between the files so far.
    edges: Vec<FileEdge>,
    /// Time of the segments.
    span: TimeSpan,
    /// The next segment is the first one of a file.
    begins_file: bool,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            by_endpoints: HashMap::new(),
            last: 0,
            budget: MemoryBudget::new(HELD_MAX),
            edges: Vec::new(),
            span: TimeSpan::default(),
            begins_file: false,
        }
    }
}

impl Connections {
    /// Takes a segment; false if there is no room for its connection.
    pub(crate) fn packet(
        &mut self,
        packet: PacketRef,
        (interface, cut_len): (u32, Option<u32>),
        segment: &Segment<'_>,
        rows: &mut dyn RowSink,
    ) -> bool {
        if std::mem::take(&mut self.begins_file) {
            let (from_ns, to_ns) = (self.span.last_ns(), packet.t_ns);
            self.edges.push(FileEdge { from_ns, to_ns, lacks_bytes: false });
        }
        self.span.take(packet.t_ns, true);
        let Some(index) = self.index(segment, interface, packet.t_ns) else { return false };
        self.last = index;
        let connection = &mut self.all[index];
        connection.cut_len = connection.cut_len.max(cut_len);
        if let Some(edge) = connection.enter_file(&self.edges, packet, segment, &self.budget, rows) {
            // Any of the files since then may be the one.
            self.edges[edge..].iter_mut().for_each(|edge| edge.lacks_bytes = true);
        }
        connection.packet(packet, segment, &self.budget, rows);
        true
    }

    /// Begins another file, which may not be the next one: another one may be missing between them.
    pub(crate) fn begin_file(&mut self) {
        self.begins_file = true;
    }

    /// All connections in the order of their first packets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &TappedConnection> {
        self.all.iter()
    }

    /// Ends all connections; `watched_ns` has the time until which the interfaces of a connection were watched.
    pub(crate) fn finish(&mut self, reports: &Reports, watched_ns: impl Fn([u32; 2]) -> u64) {
        for connection in &mut self.all {
            let watched_ns = watched_ns(connection.interfaces());
            let edge = connection.last_edge(&self.edges);
            connection.finish(edge.map_or(watched_ns, |edge| watched_ns.min(edge.from_ns)), &self.budget);
        }
        for report in &reports.kept {
            for connection in &mut self.all {
                connection.report(report, &self.budget);
            }
        }
    }

    /// Relation of a segment to the connections at `interface` so far; `None` if none has its endpoints, or if it says
    /// nothing.
    pub(crate) fn known(&self, interface: u32, segment: &Segment<'_>) -> Option<Known> {
        if segment.len == 0 && segment.flags & SYN == 0 {
            return None;
        }
        let known = self.by_endpoints.get(&endpoints(segment))?.iter().map(|index| &self.all[*index]);
        let mut known = known.filter(|connection| connection.taps.contains(&Some(interface))).peekable();
        known.peek()?;
        Some(match known.any(|connection| connection.repeats(segment)) {
            true => Known::Repeated,
            false if segment.flags & SYN != 0 => Known::Begun,
            false => Known::Continued,
        })
    }

    /// Index of a segment's connection; `None` if there is no room for another one.
    fn index(&mut self, segment: &Segment<'_>, interface: u32, t_ns: u64) -> Option<usize> {
        let last = self.all.get(self.last);
        if last.is_some_and(|connection| connection.continues_with(segment, interface)) {
            return Some(self.last);
        }
        let key = endpoints(segment);
        let known = self.by_endpoints.get(&key).map_or(&[][..], Vec::as_slice);
        let (mut taps, mut before) = ([Some(interface), None], None);
        match place(&self.all, known, segment, interface) {
            Placement::Known(index) | Placement::Joins(index) => {
                let connection = &mut self.all[index];
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
                let connection = &mut self.all[index];
                connection.taps[1 - connection.direction(segment)] = None;
            }
            Placement::New => {}
        }
        if self.all.len() >= CONNECTIONS_MAX || !self.budget.reserve(CONNECTION_HELD) {
            return None;
        }
        self.all.push(TappedConnection::new([segment.src, segment.dst], taps, t_ns, self.edges.len() as u32));
        let index = self.all.len() - 1;
        let indices = self.by_endpoints.entry(key).or_default();
        match indices.iter_mut().find(|known| Some(**known) == before) {
            Some(known) => *known = index,
            None => indices.push(index),
        }
        Some(index)
    }
}
