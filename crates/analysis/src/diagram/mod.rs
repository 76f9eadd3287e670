//! The packet transfer diagram: every packet of one connection, from host to host, with the PDUs in it.
//!
//! Made from `packets`, which the emulated path writes, and `pdus`, which both ends write. Of the connection
//! that carried most, a stretch of packets is kept; how much of it is drawn at once is the page's business.

mod flow;
mod pdus;

use std::ops::Range;
use std::path::{Path, PathBuf};

use event::{Direction, Fate, Host, Packet, PduKind};
use tables::{Packets, TableError};

use crate::Span;

pub(crate) use flow::Flows;
use flow::{COLUMNS, SYN, Stream};
pub use flow::{Flow, Hosts};
use pdus::Carried;
pub use pdus::Pdu;
pub(crate) use pdus::inside;

/// FIN and RST of `tcp_flags`.
const ENDS: u32 = 1 | 4;

/// Contents of a packet, by most of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// SCSI Command.
    Command,
    /// Data-In.
    DataIn,
    /// R2T.
    R2t,
    /// Data-Out.
    DataOut,
    /// SCSI Response: a status with a PDU of its own.
    Status,
    /// Pure acknowledgement.
    Ack,
    /// The beginning or the end of the connection.
    Connection,
    /// Another PDU.
    Other,
    /// Bytes of PDUs that were not recorded.
    Unrecorded,
}

/// One packet.
#[derive(Clone, PartialEq, Debug)]
pub struct Arrow {
    /// Sender.
    pub from: Host,
    /// Time at which the path took it from the sender.
    pub sent_ns: u64,
    /// Time of delivery to the receiver; `None` if it was dropped.
    pub received_ns: Option<u64>,
    /// Contents.
    pub kind: Kind,
    /// MTU-sized packets it stands for.
    pub segments: u32,
    /// Bytes of IP.
    pub ip_bytes: u32,
    /// Stream offsets of its payload; empty without payload.
    pub bytes: Range<u64>,
    /// The stream of the other direction is acknowledged up to here.
    pub acked: u64,
    /// Retransmission.
    pub again: bool,
    /// Indices of the diagram's PDUs in it.
    pub pdus: Range<usize>,
}

/// A stretch of one connection.
#[derive(Clone, PartialEq, Debug)]
pub struct Diagram {
    /// The connection.
    pub flow: Flow,
    /// Packets in sending order.
    pub arrows: Vec<Arrow>,
    /// The PDUs in them: the near host's, then the far host's, each in order of their stream.
    pub pdus: Vec<Pdu>,
    /// Packets of the connection that the run has besides.
    pub others: u64,
}

/// Number of MTU-sized packets that some hosts sent in a window, both ways; `None` without a table.
pub fn count(dir: &Path, between: Hosts, window: Span) -> Result<Option<u64>, TableError> {
    let names = ["ingress_t_ns", "direction", "fate", "segments", "src_host", "dst_host"];
    let mut count = 0;
    let walked = tables::read_pieces::<Packet>(dir, Some(&names), |packets| {
        for row in 0..packets.ingress_t_ns.len() {
            // A duplicate is a copy that the path made, not a packet of a host.
            let sent = packets.fate[row] != Fate::Duplicate && between.have(&packets, row);
            if sent && (window.start_ns..window.end_ns).contains(&packets.ingress_t_ns[row]) {
                count += u64::from(packets.segments[row]);
            }
        }
    })?;
    Ok(walked.then_some(count))
}

impl Diagram {
    /// Packet diagram of the busiest connection `between` some hosts: at most `most` packets from `start_ns` on.
    /// Packets come from `dir`, PDUs from the directory of each host in `hosts`. `None` without a table, or without
    /// packets then.
    pub fn collect(
        dir: &Path,
        hosts: &[PathBuf],
        between: Hosts,
        start_ns: u64,
        most: usize,
    ) -> Result<Option<Diagram>, TableError> {
        let mut flows = Flows::default();
        let walked = tables::read_pieces::<Packet>(dir, Some(&COLUMNS), |packets| {
            let rows = (0..packets.seq.len()).filter(|row| between.have(&packets, *row));
            rows.for_each(|row| flows.add(&packets, row));
        })?;
        let (true, Some(flow)) = (walked, flows.busiest()) else { return Ok(None) };
        let mut walk =
            Walk { flow, start_ns, most, streams: Default::default(), arrows: Vec::new(), total: 0 };
        tables::read_pieces::<Packet>(dir, Some(&COLUMNS), |packets| {
            (0..packets.seq.len()).for_each(|row| walk.take(&packets, row));
        })?;
        walk.first_only();
        let Walk { mut arrows, total, .. } = walk;
        if arrows.is_empty() {
            return Ok(None);
        }
        let pdus = pdus::of_packets(hosts, &carried(&arrows))?;
        for arrow in arrows.iter_mut().filter(|arrow| !arrow.bytes.is_empty()) {
            arrow.pdus = inside(&pdus, arrow.from, &arrow.bytes);
            if arrow.kind == Kind::Unrecorded {
                arrow.kind = kind(&pdus[arrow.pdus.clone()], &arrow.bytes);
            }
        }
        let others = total - arrows.len() as u64;
        Ok(Some(Diagram { flow, arrows, pdus, others }))
    }
}

/// Follows one connection through the table, which has each direction in order.
struct Walk {
    flow: Flow,
    start_ns: u64,
    most: usize,
    streams: [Stream; 2],
    arrows: Vec<Arrow>,
    total: u64,
}

impl Walk {
    fn take(&mut self, packets: &Packets, row: usize) {
        // A duplicate is a copy that the path made, not a packet of a host.
        if Flow::of(packets, row) != Some(self.flow) || packets.fate[row] == Fate::Duplicate {
            return;
        }
        let (from, own) = match packets.direction[row] {
            Direction::NearToFar => (Host::Near, 0),
            Direction::FarToNear => (Host::Far, 1),
        };
        let (payload, flags) = (packets.payload_bytes[row], packets.tcp_flags[row]);
        let place = self.streams[own].place(packets.seq[row], payload, flags);
        let acked = self.streams[1 - own].unwrap(packets.ack[row]).unwrap_or(0);
        self.total += 1;
        if packets.ingress_t_ns[row] < self.start_ns {
            return;
        }
        let (begin, again) = place.unwrap_or((0, false));
        let delivered = packets.fate[row] == Fate::Delivered;
        self.arrows.push(Arrow {
            from,
            sent_ns: packets.ingress_t_ns[row],
            received_ns: delivered.then_some(packets.egress_t_ns[row]),
            kind: match (flags & (SYN | ENDS) != 0, payload) {
                (true, _) => Kind::Connection,
                (false, 0) => Kind::Ack,
                (false, _) => Kind::Unrecorded,
            },
            segments: packets.segments[row],
            ip_bytes: packets.ip_bytes[row],
            bytes: if place.is_some() { begin..begin + u64::from(payload) } else { 0..0 },
            acked,
            again,
            pdus: 0..0,
        });
        if self.arrows.len() >= self.most.saturating_mul(4) {
            self.first_only();
        }
    }

    /// Keeps the first packets in order of time.
    fn first_only(&mut self) {
        self.arrows.sort_by_key(|arrow| arrow.sent_ns);
        self.arrows.truncate(self.most);
    }
}

fn carried(arrows: &[Arrow]) -> Vec<Carried> {
    let first_time = arrows.iter().filter(|arrow| !arrow.again && !arrow.bytes.is_empty());
    first_time.map(|a| Carried { from: a.from, t_ns: a.sent_ns, bytes: a.bytes.clone() }).collect()
}

/// Contents with most bytes in the packet; the first one on a tie.
pub(crate) fn kind(pdus: &[Pdu], bytes: &Range<u64>) -> Kind {
    let overlap = |pdu: &Pdu| pdu.stream_end.min(bytes.end).saturating_sub(pdu.stream_begin.max(bytes.start));
    let most = pdus.iter().rev().max_by_key(|pdu| overlap(pdu));
    most.map_or(Kind::Unrecorded, |pdu| match pdu.kind {
        PduKind::Command => Kind::Command,
        PduKind::DataIn => Kind::DataIn,
        PduKind::R2t => Kind::R2t,
        PduKind::DataOut => Kind::DataOut,
        PduKind::Response => Kind::Status,
        _ => Kind::Other,
    })
}
