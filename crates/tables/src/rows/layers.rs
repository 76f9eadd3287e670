//! The table `layers`: a request on its way through the layers of one end. Written by both ends.

use event::{FarTimes, Host, LayerTimes, Layers, NearTimes, Op};

use crate::{Row, Visit};

/// The table `layers` as plain columns. A time is 0 if that did not happen or was not seen.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LayerColumns {
    /// At which end.
    pub host: Vec<Host>,
    /// ISID and TSIH.
    pub session: Vec<u64>,
    /// CID.
    pub connection: Vec<u32>,
    /// Initiator task tag.
    pub itt: Vec<u32>,
    /// Command number.
    pub cmd_sn: Vec<u32>,
    /// Read or write.
    pub op: Vec<Op>,
    /// Number of the LUN.
    pub lun: Vec<u32>,
    /// First byte on the LUN.
    pub offset_bytes: Vec<u64>,
    /// Length.
    pub len_bytes: Vec<u32>,
    /// SCSI status byte.
    pub status: Vec<u32>,
    /// Where its command PDU ends in the stream to the target.
    pub command_stream_end: Vec<u64>,
    /// Where the PDU with its status ends in the stream to the initiator.
    pub status_stream_end: Vec<u64>,
    /// near: the caller issued it.
    pub called_t_ns: Vec<u64>,
    /// near: the SCSI layer made a command of it.
    pub scsi_t_ns: Vec<u64>,
    /// near: taken into the iSCSI queue.
    pub queued_t_ns: Vec<u64>,
    /// near: the command window let it go.
    pub granted_t_ns: Vec<u64>,
    /// near: its first PDU was handed to the sender.
    pub started_t_ns: Vec<u64>,
    /// near: the socket took the last byte of its command PDU.
    pub socketed_t_ns: Vec<u64>,
    /// The last byte of the PDU that this end sends went to the device's queue.
    pub tcp_queued_t_ns: Vec<u64>,
    /// That byte went to the device.
    pub tcp_wire_t_ns: Vec<u64>,
    /// That byte was acknowledged.
    pub tcp_acked_t_ns: Vec<u64>,
    /// far: the header of its command PDU was read.
    pub received_t_ns: Vec<u64>,
    /// far: accepted in the order of command numbers.
    pub parsed_t_ns: Vec<u64>,
    /// far: its execution began.
    pub executed_t_ns: Vec<u64>,
    /// far: its first R2T was handed to the sender.
    pub r2t_first_t_ns: Vec<u64>,
    /// far: the last byte of its data was read, immediate data included.
    pub data_out_last_t_ns: Vec<u64>,
    /// far: the store was called.
    pub store_begin_t_ns: Vec<u64>,
    /// far: the store had done its work.
    pub store_end_t_ns: Vec<u64>,
    /// far: its data, or its status, was queued to be sent.
    pub answered_t_ns: Vec<u64>,
    /// far: the socket took the last byte of the PDU with its status.
    pub sent_t_ns: Vec<u64>,
    /// near: its first Data-In or R2T came.
    pub data_first_t_ns: Vec<u64>,
    /// near: the last byte of its last Data-In came, or its last R2T.
    pub data_last_t_ns: Vec<u64>,
    /// near: its status came.
    pub status_t_ns: Vec<u64>,
    /// near: the caller was told.
    pub completed_t_ns: Vec<u64>,
}

impl Row for Layers {
    const TABLE: &'static str = "layers";
    type Columns = LayerColumns;

    fn push(&self, columns: &mut LayerColumns) {
        let (near, far) = match self.times {
            LayerTimes::Near(near) => (near, FarTimes::default()),
            LayerTimes::Far(far) => (NearTimes::default(), far),
        };
        columns.host.push(self.times.host());
        columns.session.push(self.id.session);
        columns.connection.push(self.id.connection);
        columns.itt.push(self.id.itt);
        columns.cmd_sn.push(self.id.cmd_sn);
        columns.op.push(self.op);
        columns.lun.push(u32::from(self.lun));
        columns.offset_bytes.push(self.offset_bytes);
        columns.len_bytes.push(self.len_bytes);
        columns.status.push(u32::from(self.status));
        columns.command_stream_end.push(self.command_stream_end);
        columns.status_stream_end.push(self.status_stream_end);
        columns.called_t_ns.push(near.called.as_nanos());
        columns.scsi_t_ns.push(near.scsi.as_nanos());
        columns.queued_t_ns.push(near.queued.as_nanos());
        columns.granted_t_ns.push(near.granted.as_nanos());
        columns.started_t_ns.push(near.started.as_nanos());
        columns.socketed_t_ns.push(near.socketed.as_nanos());
        columns.tcp_queued_t_ns.push(self.tcp.queued.as_nanos());
        columns.tcp_wire_t_ns.push(self.tcp.wire.as_nanos());
        columns.tcp_acked_t_ns.push(self.tcp.acked.as_nanos());
        columns.received_t_ns.push(far.received.as_nanos());
        columns.parsed_t_ns.push(far.parsed.as_nanos());
        columns.executed_t_ns.push(far.executed.as_nanos());
        columns.r2t_first_t_ns.push(far.r2t_first.as_nanos());
        columns.data_out_last_t_ns.push(far.data_out_last.as_nanos());
        columns.store_begin_t_ns.push(far.store_begin.as_nanos());
        columns.store_end_t_ns.push(far.store_end.as_nanos());
        columns.answered_t_ns.push(far.answered.as_nanos());
        columns.sent_t_ns.push(far.sent.as_nanos());
        columns.data_first_t_ns.push(near.data_first.as_nanos());
        columns.data_last_t_ns.push(near.data_last.as_nanos());
        columns.status_t_ns.push(near.status.as_nanos());
        columns.completed_t_ns.push(near.completed.as_nanos());
    }

    fn visit<V: Visit>(columns: &mut LayerColumns, visitor: &mut V) -> Result<(), V::Error> {
        visitor.word("host", &mut columns.host)?;
        visitor.u64("session", &mut columns.session)?;
        visitor.u32("connection", &mut columns.connection)?;
        visitor.u32("itt", &mut columns.itt)?;
        visitor.u32("cmd_sn", &mut columns.cmd_sn)?;
        visitor.word("op", &mut columns.op)?;
        visitor.u32("lun", &mut columns.lun)?;
        visitor.u64("offset_bytes", &mut columns.offset_bytes)?;
        visitor.u32("len_bytes", &mut columns.len_bytes)?;
        visitor.u32("status", &mut columns.status)?;
        visitor.u64("command_stream_end", &mut columns.command_stream_end)?;
        visitor.u64("status_stream_end", &mut columns.status_stream_end)?;
        visitor.u64("called_t_ns", &mut columns.called_t_ns)?;
        visitor.u64("scsi_t_ns", &mut columns.scsi_t_ns)?;
        visitor.u64("queued_t_ns", &mut columns.queued_t_ns)?;
        visitor.u64("granted_t_ns", &mut columns.granted_t_ns)?;
        visitor.u64("started_t_ns", &mut columns.started_t_ns)?;
        visitor.u64("socketed_t_ns", &mut columns.socketed_t_ns)?;
        visitor.u64("tcp_queued_t_ns", &mut columns.tcp_queued_t_ns)?;
        visitor.u64("tcp_wire_t_ns", &mut columns.tcp_wire_t_ns)?;
        visitor.u64("tcp_acked_t_ns", &mut columns.tcp_acked_t_ns)?;
        visitor.u64("received_t_ns", &mut columns.received_t_ns)?;
        visitor.u64("parsed_t_ns", &mut columns.parsed_t_ns)?;
        visitor.u64("executed_t_ns", &mut columns.executed_t_ns)?;
        visitor.u64("r2t_first_t_ns", &mut columns.r2t_first_t_ns)?;
        visitor.u64("data_out_last_t_ns", &mut columns.data_out_last_t_ns)?;
        visitor.u64("store_begin_t_ns", &mut columns.store_begin_t_ns)?;
        visitor.u64("store_end_t_ns", &mut columns.store_end_t_ns)?;
        visitor.u64("answered_t_ns", &mut columns.answered_t_ns)?;
        visitor.u64("sent_t_ns", &mut columns.sent_t_ns)?;
        visitor.u64("data_first_t_ns", &mut columns.data_first_t_ns)?;
        visitor.u64("data_last_t_ns", &mut columns.data_last_t_ns)?;
        visitor.u64("status_t_ns", &mut columns.status_t_ns)?;
        visitor.u64("completed_t_ns", &mut columns.completed_t_ns)
    }
}
