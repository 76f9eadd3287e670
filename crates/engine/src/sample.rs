//! One row of the table `sockets`.

use event::{Host, Instant, SocketSample};
use net::TcpInfo;

/// What the application has moved over a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// Payload received.
    pub rx_bytes: u64,
    /// Payload handed to the socket.
    pub tx_bytes: u64,
}

/// The row for what the kernel says and what the application moved.
pub fn socket_sample(t: Instant, host: Host, connection: u32, info: &TcpInfo, moved: Moved) -> SocketSample {
    SocketSample {
        t,
        host,
        connection,
        app_rx_bytes: moved.rx_bytes,
        app_tx_bytes: moved.tx_bytes,
        cwnd_packets: info.cwnd_packets,
        ssthresh_packets: info.ssthresh_packets,
        mss_bytes: info.mss_bytes,
        state: info.state,
        rtt_ns: info.rtt.as_nanos() as u64,
        min_rtt_ns: info.min_rtt.unwrap_or_default().as_nanos() as u64,
        unacked_packets: info.unacked_packets,
        retransmitted_packets: info.retransmitted_packets,
        delivery_rate_bytes_per_s: info.delivery_rate_bytes_per_s,
        pacing_rate_bytes_per_s: info.pacing_rate_bytes_per_s,
        notsent_bytes: info.notsent_bytes,
    }
}
