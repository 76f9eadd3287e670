//! The table `pdus`: PDUs as one end made or received them. Written by both ends.

use event::{Host, PduKind, PduSeen, Way};

use crate::{Row, Visit};

/// The table `pdus` as plain columns. A time is 0 if that did not happen or was not seen.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pdus {
    /// When it was made, or when its last byte was read.
    pub t_ns: Vec<u64>,
    /// At which end.
    pub host: Vec<Host>,
    /// ISID and TSIH.
    pub session: Vec<u64>,
    /// CID.
    pub connection: Vec<u32>,
    /// Initiator task tag.
    pub itt: Vec<u32>,
    /// Number of the command it belongs to, or 0.
    pub cmd_sn: Vec<u32>,
    /// Sent or received.
    pub direction: Vec<Way>,
    /// What it is.
    pub kind: Vec<PduKind>,
    /// 1 if it carries the status of its command.
    pub has_status: Vec<u32>,
    /// StatSN.
    pub stat_sn: Vec<u32>,
    /// DataSN or R2TSN.
    pub data_sn: Vec<u32>,
    /// Buffer offset.
    pub offset_bytes: Vec<u32>,
    /// Data that it carries or asks for.
    pub len_bytes: Vec<u32>,
    /// Where it begins in its stream.
    pub stream_begin: Vec<u64>,
    /// Where it ends in its stream.
    pub stream_end: Vec<u64>,
    /// The socket took its last byte.
    pub socketed_t_ns: Vec<u64>,
    /// Its last byte went to the device's queue.
    pub tcp_queued_t_ns: Vec<u64>,
    /// Its last byte went to the device.
    pub tcp_wire_t_ns: Vec<u64>,
    /// Its last byte was acknowledged.
    pub tcp_acked_t_ns: Vec<u64>,
}

impl Row for PduSeen {
    const TABLE: &'static str = "pdus";
    type Columns = Pdus;

    fn push(&self, columns: &mut Pdus) {
        columns.t_ns.push(self.t.as_nanos());
        columns.host.push(self.host);
        columns.session.push(self.id.session);
        columns.connection.push(self.id.connection);
        columns.itt.push(self.id.itt);
        columns.cmd_sn.push(self.id.cmd_sn);
        columns.direction.push(self.way);
        columns.kind.push(self.kind);
        columns.has_status.push(u32::from(self.has_status));
        columns.stat_sn.push(self.stat_sn);
        columns.data_sn.push(self.data_sn);
        columns.offset_bytes.push(self.offset_bytes);
        columns.len_bytes.push(self.len_bytes);
        columns.stream_begin.push(self.stream_begin);
        columns.stream_end.push(self.stream_end);
        columns.socketed_t_ns.push(self.socketed.as_nanos());
        columns.tcp_queued_t_ns.push(self.tcp.queued.as_nanos());
        columns.tcp_wire_t_ns.push(self.tcp.wire.as_nanos());
        columns.tcp_acked_t_ns.push(self.tcp.acked.as_nanos());
    }

    fn visit<V: Visit>(columns: &mut Pdus, visitor: &mut V) -> Result<(), V::Error> {
        visitor.u64("t_ns", &mut columns.t_ns)?;
        visitor.word("host", &mut columns.host)?;
        visitor.u64("session", &mut columns.session)?;
        visitor.u32("connection", &mut columns.connection)?;
        visitor.u32("itt", &mut columns.itt)?;
        visitor.u32("cmd_sn", &mut columns.cmd_sn)?;
        visitor.word("direction", &mut columns.direction)?;
        visitor.word("kind", &mut columns.kind)?;
        visitor.u32("has_status", &mut columns.has_status)?;
        visitor.u32("stat_sn", &mut columns.stat_sn)?;
        visitor.u32("data_sn", &mut columns.data_sn)?;
        visitor.u32("offset_bytes", &mut columns.offset_bytes)?;
        visitor.u32("len_bytes", &mut columns.len_bytes)?;
        visitor.u64("stream_begin", &mut columns.stream_begin)?;
        visitor.u64("stream_end", &mut columns.stream_end)?;
        visitor.u64("socketed_t_ns", &mut columns.socketed_t_ns)?;
        visitor.u64("tcp_queued_t_ns", &mut columns.tcp_queued_t_ns)?;
        visitor.u64("tcp_wire_t_ns", &mut columns.tcp_wire_t_ns)?;
        visitor.u64("tcp_acked_t_ns", &mut columns.tcp_acked_t_ns)
    }
}
