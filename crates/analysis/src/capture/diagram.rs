//! Packet transfer diagram of a part of one connection, from a capture: collected in a second pass over the file, after
//! the first one has found the busiest connection.
//!
//! A tap sees each packet once. Departure and arrival are estimated as the tap's time minus and plus half of the fastest
//! round trip to that end. Losses behind the tap are unknown.

use std::net::SocketAddr;

use dissect::{ConnectionSummary, DirectionKey, Dissection, Durations, PacketRow, PduRow, RowSink};
use event::{Host, PduKind};
use wire::iscsi::Opcode;

use crate::diagram::{self, Arrow, Diagram, Flow, Pdu};

/// Limit of kept PDUs per packet.
const PDUS_PER_PACKET: usize = 8;
/// FIN, SYN and RST.
const MARKS: u8 = 1 | 2 | 4;

/// Collects the diagram from the rows of a dissection.
#[derive(Debug)]
pub struct DiagramSink {
    initiator: SocketAddr,
    target: SocketAddr,
    /// Capture interfaces: of the initiator's packets, and of the target's.
    interfaces: [u32; 2],
    begin_ns: u64,
    end_ns: u64,
    /// Limit of packets.
    most: usize,
    /// Half of the round trip from the tap to the initiator, and to the target, in ns.
    half_ns: [u64; 2],
    arrows: Vec<Arrow>,
    pdus: Vec<Pdu>,
    packets: u64,
}

impl DiagramSink {
    /// Sink for at most `most` packets from the middle of the busiest connection, iSCSI ones first; `None` without a
    /// connection.
    pub fn new(capture: &Dissection, most: usize) -> Option<DiagramSink> {
        let weight = |connection: &&ConnectionSummary| {
            let payload = connection.directions.iter().map(|direction| direction.payload_bytes).sum::<u64>();
            (connection.iscsi.is_some(), payload)
        };
        let connection = capture.connections.iter().max_by_key(weight)?;
        let [initiator, target] = &connection.directions;
        let half = |ack_rtt: &Option<Durations>| ack_rtt.map_or(0, |rtt| (rtt.min_s * 5e8) as u64);
        let ns = |s: f64| (s * 1e9) as u64;
        let begin_ns = capture.totals.begin_ns.saturating_add(ns(connection.begin_s));
        Some(DiagramSink {
            initiator: initiator.from.parse().ok()?,
            target: target.from.parse().ok()?,
            interfaces: [initiator.interface, target.interface],
            begin_ns: begin_ns.saturating_add(ns(connection.length_s / 2.0)),
            // Ports are reused: later packets belong to another connection.
            end_ns: begin_ns.saturating_add(ns(connection.length_s)).saturating_add(1_000),
            most,
            half_ns: [half(&target.ack_rtt), half(&initiator.ack_rtt)],
            arrows: Vec::new(),
            pdus: Vec::new(),
            packets: 0,
        })
    }

    /// The diagram; `None` without a packet.
    pub fn finish(mut self) -> Option<Diagram> {
        if self.arrows.is_empty() {
            return None;
        }
        self.arrows.sort_by_key(|arrow| arrow.sent_ns);
        self.pdus.sort_by_key(|pdu| (pdu.from == Host::Far, pdu.stream_begin));
        for arrow in self.arrows.iter_mut().filter(|arrow| !arrow.bytes.is_empty()) {
            arrow.pdus = diagram::inside(&self.pdus, arrow.from, &arrow.bytes);
            if arrow.kind == diagram::Kind::Unrecorded {
                arrow.kind = diagram::kind(&self.pdus[arrow.pdus.clone()], &arrow.bytes);
            }
        }
        let flow = Flow {
            near_host: 1,
            near_port: self.initiator.port().into(),
            far_host: 2,
            far_port: self.target.port().into(),
        };
        let others = self.packets - self.arrows.len() as u64;
        Some(Diagram { flow, arrows: self.arrows, pdus: self.pdus, others })
    }

    fn sender(&self, direction: DirectionKey) -> Option<Host> {
        let [near, far] = self.interfaces.map(|number| number == direction.interface);
        match (direction.src, direction.dst) {
            ends if near && ends == (self.initiator, self.target) => Some(Host::Near),
            ends if far && ends == (self.target, self.initiator) => Some(Host::Far),
            _ => None,
        }
    }
}

impl RowSink for DiagramSink {
    fn packet(&mut self, row: &PacketRow) {
        let from = self.sender(row.direction);
        let Some(from) = from.filter(|_| row.t_ns <= self.end_ns) else { return };
        self.packets += 1;
        if row.t_ns < self.begin_ns || self.arrows.len() >= self.most {
            return;
        }
        let [own, other] = if from == Host::Near { [0, 1] } else { [1, 0] };
        self.arrows.push(Arrow {
            from,
            sent_ns: row.t_ns.saturating_sub(self.half_ns[own]),
            received_ns: Some(row.t_ns.saturating_add(self.half_ns[other])),
            kind: match (row.flags & MARKS != 0, row.len) {
                (true, _) => diagram::Kind::Connection,
                (false, 0) => diagram::Kind::Ack,
                (false, _) => diagram::Kind::Unrecorded,
            },
            segments: 1,
            ip_bytes: row.ip_bytes as u32,
            bytes: row.stream_offset..row.stream_offset + row.len as u64,
            acked: row.acked_offset,
            again: row.kind.is_retransmission(),
            pdus: 0..0,
        });
    }

    fn pdu(&mut self, row: &PduRow) {
        let Some(from) = self.sender(row.direction) else { return };
        if row.t_ns < self.begin_ns
            || row.t_ns > self.end_ns
            || self.pdus.len() >= self.most * PDUS_PER_PACKET
        {
            return;
        }
        self.pdus.push(Pdu {
            from,
            kind: kind(row.opcode),
            has_status: row.has_status,
            t_ns: row.t_ns,
            itt: row.itt,
            cmd_sn: row.cmd_sn.unwrap_or(0),
            offset_bytes: row.buffer_offset.unwrap_or(0),
            len_bytes: row.data_len,
            stream_begin: row.start,
            stream_end: row.end,
        });
    }
}

fn kind(opcode: Opcode) -> PduKind {
    match opcode {
        Opcode::ScsiCommand => PduKind::Command,
        Opcode::ScsiResponse => PduKind::Response,
        Opcode::DataIn => PduKind::DataIn,
        Opcode::DataOut => PduKind::DataOut,
        Opcode::R2t => PduKind::R2t,
        Opcode::TaskManagementRequest | Opcode::TaskManagementResponse => PduKind::Management,
        Opcode::NopOut | Opcode::NopIn => PduKind::Nop,
        Opcode::TextRequest | Opcode::TextResponse => PduKind::Text,
        Opcode::LogoutRequest | Opcode::LogoutResponse => PduKind::Logout,
        Opcode::AsyncMessage => PduKind::Async,
        Opcode::Reject => PduKind::Reject,
        _ => PduKind::Other,
    }
}
