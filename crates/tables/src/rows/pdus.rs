//! The table `pdus`: PDUs as one end sent or received them. Written by both ends.

use event::{Host, PduKind, PduSeen, Way};

use crate::column::table;

table! {
    /// The table `pdus` as plain columns. A time is 0 if its event did not happen or was not seen.
    Pdus, table "pdus" of pdu: PduSeen;
    /// Time of creation, or of receipt of the last byte.
    t_ns: Vec<u64> = pdu.t,
    /// End that wrote the row.
    host: Vec<Host> = pdu.host,
    /// ISID and TSIH.
    session: Vec<u64> = pdu.id.session,
    /// CID.
    connection: Vec<u32> = pdu.id.connection,
    /// Initiator task tag.
    itt: Vec<u32> = pdu.id.itt,
    /// CmdSN of the command that the PDU belongs to, or 0.
    cmd_sn: Vec<u32> = pdu.id.cmd_sn,
    /// Sent or received.
    direction: Vec<Way> = pdu.way,
    /// Kind of PDU.
    kind: Vec<PduKind> = pdu.kind,
    /// 1 if the PDU carries the status of its command.
    has_status: Vec<u32> = pdu.has_status,
    /// StatSN.
    stat_sn: Vec<u32> = pdu.stat_sn,
    /// DataSN or R2TSN.
    data_sn: Vec<u32> = pdu.data_sn,
    /// Buffer offset.
    offset_bytes: Vec<u32> = pdu.offset_bytes,
    /// Length of the data that the PDU carries or requests.
    len_bytes: Vec<u32> = pdu.len_bytes,
    /// Stream offset of its first byte.
    stream_begin: Vec<u64> = pdu.stream_begin,
    /// Stream offset of its end.
    stream_end: Vec<u64> = pdu.stream_end,
    /// Hand-over of its last byte to the socket.
    socketed_t_ns: Vec<u64> = pdu.socketed,
    /// Entry of its last byte into the qdisc.
    tcp_queued_t_ns: Vec<u64> = pdu.tcp.queued,
    /// Hand-over of its last byte to the device.
    tcp_wire_t_ns: Vec<u64> = pdu.tcp.wire,
    /// Acknowledgement of its last byte.
    tcp_acked_t_ns: Vec<u64> = pdu.tcp.acked,
}
