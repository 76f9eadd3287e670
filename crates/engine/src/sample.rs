//! One row of the table `sockets`.

mod black_hole;

use std::time::Duration;

use event::{Host, Instant, SocketSample};
use net::{TcpInfo, clock};

use crate::reactor;

pub use black_hole::BlackHole;

/// What the application has moved over a connection, and wants to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// Payload received.
    pub rx_bytes: u64,
    /// Payload handed to the socket.
    pub tx_bytes: u64,
    /// Payload that was not handed to the socket, whatever it waits for.
    pub unsent_bytes: u64,
    /// Mean length of the requests of late; zero if there were none.
    pub request_bytes: u64,
}

/// The longest time between two looks at a connection that moves data: a hundred rows a second, whatever its policy
/// asks for, although a loop wakes a little late.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(9);

/// The row for what the kernel says and what the application moved; to be called on the loop's thread. What the
/// target allows is for the session to add, and how it is steered for who steers it.
pub fn socket_sample(t: Instant, host: Host, connection: u32, info: &TcpInfo, moved: Moved) -> SocketSample {
    SocketSample {
        loop_idle_ns: reactor::idle_ns(),
        loop_cpu_ns: clock::thread_cpu_ns(),
        ..tcp_sample(t, host, connection, info, moved)
    }
}

/// The same of a connection that no loop of ours serves: without its times, one of which costs a system call.
pub fn tcp_sample(t: Instant, host: Host, connection: u32, info: &TcpInfo, moved: Moved) -> SocketSample {
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
        rtt_var_ns: info.rtt_var.as_nanos() as u64,
        min_rtt_ns: info.min_rtt.unwrap_or_default().as_nanos() as u64,
        unacked_packets: info.unacked_packets,
        in_flight_packets: info.in_flight_packets(),
        lost_packets: info.lost_packets,
        retransmitted_packets: info.retransmitted_packets,
        timeouts: info.timeouts,
        delivered_packets: info.delivered_packets,
        marked_packets: info.marked_packets,
        duplicate_packets: info.duplicate_packets,
        reorderings: info.reorderings,
        acked_bytes: info.acked_bytes,
        snd_wnd_bytes: info.snd_wnd_bytes,
        delivery_rate_bytes_per_s: info.delivery_rate_bytes_per_s,
        is_app_limited: info.app_limited,
        pacing_rate_bytes_per_s: info.pacing_rate_bytes_per_s,
        notsent_bytes: info.notsent_bytes,
        busy_ns: info.busy.as_nanos() as u64,
        rwnd_limited_ns: info.receive_window_limited.as_nanos() as u64,
        sndbuf_limited_ns: info.send_buffer_limited.as_nanos() as u64,
        unsent_bytes: moved.unsent_bytes,
        request_bytes: moved.request_bytes,
        command_window: 0,
        loop_idle_ns: 0,
        loop_cpu_ns: 0,
        steered: None,
    }
}
