//! The packet transfer diagram of a stretch of one connection, from a capture: a second walk through the file, when it
//! is known which connection is worth it.
//!
//! A tap sees each packet once. When it left its sender and when it arrived is estimated: the tap's time less and plus
//! half of the fastest round trip to that end. Whether it arrived at all is not known.

use std::net::SocketAddr;

use event::{Host, PduKind};
use wire::iscsi::Opcode;

use crate::diagram::{self, Arrow, Diagram, Flow, Pdu};

use super::result::{Capture, Connection};
use super::tell::{Listener, PacketRow, PduRow};

/// PDUs that are kept for each packet at most.
const PDUS_PER_PACKET: usize = 8;
/// FIN, SYN and RST.
const MARKS: u8 = 1 | 2 | 4;

/// Collects the diagram while the file is read.
#[derive(Debug)]
pub struct Drawing {
    initiator: SocketAddr,
    target: SocketAddr,
    /// That show what the initiator sends, and the target.
    interfaces: [u32; 2],
    begin_ns: u64,
    end_ns: u64,
    most: usize,
    /// Half of the round trip from the tap to the initiator, and to the target.
    half_ns: [u64; 2],
    arrows: Vec<Arrow>,
    pdus: Vec<Pdu>,
    packets: u64,
}

impl Drawing {
    /// Of at most `most` packets from the middle of the connection that has most to show; `None` if there is none.
    pub fn of(capture: &Capture, most: usize) -> Option<Drawing> {
        let weight = |connection: &&Connection| {
            let payload = connection.directions.iter().map(|direction| direction.payload_bytes).sum::<u64>();
            (connection.iscsi.is_some(), payload)
        };
        let connection = capture.connections.iter().max_by_key(weight)?;
        let [initiator, target] = &connection.directions;
        let half = |ack_rtt: &Option<super::Durations>| ack_rtt.map_or(0, |rtt| (rtt.min_s * 5e8) as u64);
        let ns = |s: f64| (s * 1e9) as u64;
        let begin_ns = capture.begin_ns.saturating_add(ns(connection.begin_s));
        Some(Drawing {
            initiator: initiator.from.parse().ok()?,
            target: target.from.parse().ok()?,
            interfaces: [initiator.interface, target.interface],
            begin_ns: begin_ns.saturating_add(ns(connection.length_s / 2.0)),
            // Ports are used again: what comes later is another connection.
            end_ns: begin_ns.saturating_add(ns(connection.length_s)).saturating_add(1_000),
            most,
            half_ns: [half(&target.ack_rtt), half(&initiator.ack_rtt)],
            arrows: Vec::new(),
            pdus: Vec::new(),
            packets: 0,
        })
    }

    /// The diagram; `None` if nothing passed.
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

    fn from(&self, interface: u32, src: SocketAddr, dst: SocketAddr) -> Option<Host> {
        let [near, far] = self.interfaces.map(|number| number == interface);
        match (src, dst) {
            ends if near && ends == (self.initiator, self.target) => Some(Host::Near),
            ends if far && ends == (self.target, self.initiator) => Some(Host::Far),
            _ => None,
        }
    }
}

impl Listener for Drawing {
    fn packet(&mut self, row: &PacketRow) {
        let from = self.from(row.interface, row.src, row.dst);
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
            bytes: row.place..row.place + row.len as u64,
            acked: row.acked,
            again: row.kind.is_again(),
            pdus: 0..0,
        });
    }

    fn pdu(&mut self, row: &PduRow) {
        let Some(from) = self.from(row.interface, row.src, row.dst) else { return };
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
