//! The table `kernel`: tracepoints of connections and block devices. Written by `farlun wan --trace-kernel`.

use event::{CongestionState, Host, KernelEvent, KernelPoint, Op};

use crate::column::table;

table! {
    /// The table `kernel` as plain columns. A value that its event does not carry is 0 or `None`.
    KernelPoints, table "kernel" of point: KernelPoint;
    /// Time of the event, CLOCK_MONOTONIC.
    t_ns: Vec<u64> = point.t,
    /// Kind of event.
    event: Vec<KernelEvent> = point.event,
    /// End of the path; `None` for block devices.
    host: Vec<Option<Host>> = point.host,
    /// Number of the host.
    host_number: Vec<u32> = point.host_number,
    /// Number of the host at the other end of the connection.
    peer_number: Vec<u32> = point.peer_number,
    /// TCP port of the host.
    local_port: Vec<u32> = u32::from(point.local_port),
    /// TCP port of its peer.
    remote_port: Vec<u32> = u32::from(point.remote_port),
    /// Congestion window.
    cwnd_packets: Vec<u32> = point.cwnd_packets,
    /// Slow-start threshold; above 2^30 if unset.
    ssthresh_packets: Vec<u32> = point.ssthresh_packets,
    /// Smoothed round-trip time.
    srtt_ns: Vec<u64> = point.srtt_ns,
    /// Send window: receive window that the peer advertises.
    snd_wnd_bytes: Vec<u32> = point.snd_wnd_bytes,
    /// Receive window advertised to the peer.
    rcv_wnd_bytes: Vec<u32> = point.rcv_wnd_bytes,
    /// SND.NXT: next sequence number to be sent.
    snd_nxt: Vec<u32> = point.snd_nxt,
    /// SND.UNA: first sequence number not acknowledged.
    snd_una: Vec<u32> = point.snd_una,
    /// Payload of the received segment.
    data_bytes: Vec<u32> = point.data_bytes,
    /// New congestion state.
    state: Vec<Option<CongestionState>> = point.state,
    /// Number of the block device.
    device: Vec<u32> = point.device,
    /// Read or write on the block device.
    op: Vec<Option<Op>> = point.op,
    /// Offset of the first byte on the block device.
    offset_bytes: Vec<u64> = point.offset_bytes,
    /// Length of the request.
    len_bytes: Vec<u32> = point.len_bytes,
}
