//! The table `sockets`: samples of every TCP connection. Written by both ends of a load.

use event::{CongestionState, Host, SocketSample};

use super::steered::SteeredColumns;
use crate::column::{Column, Store, record};
use crate::{Row, Visit};

record! {
    /// The table `sockets` as plain columns. Counters run from the start of the connection.
    Sockets of SocketSample;
    /// Time of the sample, CLOCK_MONOTONIC.
    t_ns: Vec<u64> = t,
    /// End that took the sample.
    host: Vec<Host> = host,
    /// Number of the connection within its process.
    connection: Vec<u32> = connection,
    /// Application payload received so far.
    app_rx_bytes: Vec<u64> = app_rx_bytes,
    /// Application payload handed to the socket so far.
    app_tx_bytes: Vec<u64> = app_tx_bytes,
    /// Congestion window.
    cwnd_packets: Vec<u32> = cwnd_packets,
    /// Slow-start threshold; above 2^30 while there is none.
    ssthresh_packets: Vec<u32> = ssthresh_packets,
    /// Maximum segment size for sending.
    mss_bytes: Vec<u32> = mss_bytes,
    /// Congestion state.
    state: Vec<CongestionState> = state,
    /// Smoothed round-trip time.
    rtt_ns: Vec<u64> = rtt_ns,
    /// Mean deviation of the round-trip time.
    rtt_var_ns: Vec<u64> = rtt_var_ns,
    /// Minimum round-trip time.
    min_rtt_ns: Vec<u64> = min_rtt_ns,
    /// Unacknowledged packets.
    unacked_packets: Vec<u32> = unacked_packets,
    /// Packets in flight: unacknowledged, less SACKed and lost ones, plus retransmitted ones.
    in_flight_packets: Vec<u32> = in_flight_packets,
    /// Packets marked lost and not repaired yet.
    lost_packets: Vec<u32> = lost_packets,
    /// Retransmitted packets so far.
    retransmitted_packets: Vec<u32> = retransmitted_packets,
    /// Retransmission timeouts so far.
    timeouts: Vec<u32> = timeouts,
    /// Delivered packets so far; wraps.
    delivered_packets: Vec<u32> = delivered_packets,
    /// Delivered packets with an ECN mark; wraps.
    marked_packets: Vec<u32> = marked_packets,
    /// Packets reported by D-SACK as delivered twice; wraps.
    duplicate_packets: Vec<u32> = duplicate_packets,
    /// Reordering events so far; wraps.
    reorderings: Vec<u32> = reorderings,
    /// Bytes acknowledged by the peer.
    acked_bytes: Vec<u64> = acked_bytes,
    /// Receive window that the peer advertises.
    snd_wnd_bytes: Vec<u32> = snd_wnd_bytes,
    /// Delivery rate as measured by the kernel.
    delivery_rate_bytes_per_s: Vec<u64> = delivery_rate_bytes_per_s,
    /// 1 if the delivery rate is app-limited.
    app_limited: Vec<u32> = is_app_limited,
    /// Pacing rate in force; 2^64 − 1 if unpaced.
    pacing_rate_bytes_per_s: Vec<u64> = pacing_rate_bytes_per_s,
    /// Bytes in the socket that are not sent yet.
    notsent_bytes: Vec<u32> = notsent_bytes,
    /// Time with data to send or unacknowledged.
    busy_ns: Vec<u64> = busy_ns,
    /// Part of it limited by the peer's receive window.
    rwnd_limited_ns: Vec<u64> = rwnd_limited_ns,
    /// Part of it limited by the send buffer.
    sndbuf_limited_ns: Vec<u64> = sndbuf_limited_ns,
    /// Payload not handed to the socket yet.
    unsent_bytes: Vec<u64> = unsent_bytes,
    /// Mean length of the requests since the last sample.
    request_bytes: Vec<u64> = request_bytes,
    /// Command window of the session; 0 if not known.
    command_window: Vec<u32> = command_window,
    /// Idle time of the connection's loop.
    loop_idle_ns: Vec<u64> = loop_idle_ns,
    /// CPU time of the loop's thread.
    loop_cpu_ns: Vec<u64> = loop_cpu_ns,
    /// Input and decision of the connection's policy.
    steered: SteeredColumns = steered,
}

impl Sockets {
    /// The sample in row `row`.
    pub fn sample(&self, row: usize) -> SocketSample {
        self.at(row)
    }
}

impl Row for SocketSample {
    const TABLE: &'static str = "sockets";
    type Columns = Sockets;

    fn push(&self, columns: &mut Sockets) {
        Store::push(columns, self);
    }

    fn visit<V: Visit>(columns: &mut Sockets, visitor: &mut V) -> Result<(), V::Error> {
        Column::visit(columns, Self::TABLE, visitor)
    }
}
