//! The table `layers`: the times of a request at the layers of one end. Written by both ends.

use event::{FarTimes, Host, LayerTimes, Layers, NearTimes, Op};

use crate::column::table;

table! {
    /// The table `layers` as plain columns. A time is 0 if its event did not happen or was not seen.
    LayerColumns, table "layers" of request: Layers, let (near, far) = of_both_ends(&request.times);
    /// End that wrote the row.
    host: Vec<Host> = request.times.host(),
    /// ISID and TSIH.
    session: Vec<u64> = request.id.session,
    /// CID.
    connection: Vec<u32> = request.id.connection,
    /// Initiator task tag.
    itt: Vec<u32> = request.id.itt,
    /// CmdSN.
    cmd_sn: Vec<u32> = request.id.cmd_sn,
    /// Read or write.
    op: Vec<Op> = request.op,
    /// Number of the LUN.
    lun: Vec<u32> = u32::from(request.lun),
    /// Offset of the first byte on the LUN.
    offset_bytes: Vec<u64> = request.offset_bytes,
    /// Transfer length.
    len_bytes: Vec<u32> = request.len_bytes,
    /// SCSI status byte.
    status: Vec<u32> = u32::from(request.status),
    /// Stream offset of the end of the command PDU, near to far.
    command_stream_end: Vec<u64> = request.command_stream_end,
    /// Stream offset of the end of the PDU with the status, far to near.
    status_stream_end: Vec<u64> = request.status_stream_end,
    /// near: issue by the caller.
    called_t_ns: Vec<u64> = near.called,
    /// near: conversion into a SCSI command.
    scsi_t_ns: Vec<u64> = near.scsi,
    /// near: entry into the iSCSI queue.
    queued_t_ns: Vec<u64> = near.queued,
    /// near: admission by the command window.
    granted_t_ns: Vec<u64> = near.granted,
    /// near: hand-over of the first PDU to the send queue.
    started_t_ns: Vec<u64> = near.started,
    /// near: hand-over of the last byte of the command PDU to the socket.
    socketed_t_ns: Vec<u64> = near.socketed,
    /// Entry of the last byte of this end's PDU into the qdisc.
    tcp_queued_t_ns: Vec<u64> = request.tcp.queued,
    /// Hand-over of that byte to the device.
    tcp_wire_t_ns: Vec<u64> = request.tcp.wire,
    /// Acknowledgement of that byte.
    tcp_acked_t_ns: Vec<u64> = request.tcp.acked,
    /// far: receipt of the header of the command PDU.
    received_t_ns: Vec<u64> = far.received,
    /// far: acceptance in CmdSN order.
    parsed_t_ns: Vec<u64> = far.parsed,
    /// far: begin of execution.
    executed_t_ns: Vec<u64> = far.executed,
    /// far: hand-over of the first R2T to the send queue.
    r2t_first_t_ns: Vec<u64> = far.r2t_first,
    /// far: receipt of the last byte of write data, immediate data included.
    data_out_last_t_ns: Vec<u64> = far.data_out_last,
    /// far: begin of the call of the backing store.
    store_begin_t_ns: Vec<u64> = far.store_begin,
    /// far: end of the call of the backing store.
    store_end_t_ns: Vec<u64> = far.store_end,
    /// far: hand-over of the read data, or of the status, to the send queue.
    answered_t_ns: Vec<u64> = far.answered,
    /// far: hand-over of the last byte of the PDU with the status to the socket.
    sent_t_ns: Vec<u64> = far.sent,
    /// near: receipt of the first Data-In or R2T.
    data_first_t_ns: Vec<u64> = near.data_first,
    /// near: receipt of the last byte of the last Data-In, or of the last R2T.
    data_last_t_ns: Vec<u64> = near.data_last,
    /// near: receipt of the status.
    status_t_ns: Vec<u64> = near.status,
    /// near: completion to the caller.
    completed_t_ns: Vec<u64> = near.completed,
}

/// Times of both ends; those of the other end are 0.
#[inline]
fn of_both_ends(times: &LayerTimes) -> (NearTimes, FarTimes) {
    match *times {
        LayerTimes::Near(near) => (near, FarTimes::default()),
        LayerTimes::Far(far) => (NearTimes::default(), far),
    }
}
