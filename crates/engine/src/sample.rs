//! One row of the table `sockets`.

use event::{Host, Instant, SocketSample};
use net::{TcpInfo, clock};

use crate::reactor;

/// What the application has moved over a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// Payload received.
    pub rx_bytes: u64,
    /// Payload handed to the socket.
    pub tx_bytes: u64,
    /// Payload that was not handed to the socket, whatever it waits for.
    pub unsent_bytes: u64,
}

/// The row for what the kernel says and what the application moved; to be called on the loop's thread. What the
/// target allows is for the session to add.
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
        unsent_bytes: moved.unsent_bytes,
        peer_window_bytes: info.peer_window_bytes,
        busy_ns: info.busy.as_nanos() as u64,
        receive_window_limited_ns: info.receive_window_limited.as_nanos() as u64,
        send_buffer_limited_ns: info.send_buffer_limited.as_nanos() as u64,
        command_window: 0,
        loop_idle_ns: reactor::idle_ns(),
        loop_cpu_ns: clock::thread_cpu_ns(),
    }
}
