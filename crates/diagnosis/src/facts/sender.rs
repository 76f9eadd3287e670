//! TCP at the end that sends the data, over all of its connections, by the source of each number.

use serde::Serialize;

/// TCP at the sender of the data.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct TcpSender {
    /// Shares of the time, mean over the connections.
    #[serde(flatten)]
    pub time: SenderTime,
    /// Windows, packets and rates.
    #[serde(flatten)]
    pub traffic: SenderTraffic,
    /// Cuts of the congestion window.
    #[serde(flatten)]
    pub cuts: CwndCuts,
    /// Begin of the load.
    #[serde(flatten)]
    pub ramp: RampFacts,
    /// Settings of the socket.
    #[serde(flatten)]
    pub socket: SenderSocket,
}

/// Shares of the time, 0 to 1, from TCP_INFO.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct SenderTime {
    /// Data waiting in the socket.
    pub backlogged: f64,
    /// Limited by the peer's window.
    pub receive_window: f64,
    /// Limited by the send buffer.
    pub send_buffer: f64,
    /// Socket empty while the connection has more to write: the socket takes no more, and no window is full.
    pub starved: f64,
    /// Limited by the congestion window.
    pub congestion_window: f64,
    /// Limited by pacing.
    pub pacing: f64,
}

/// Windows, packets and rates, from TCP_INFO.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct SenderTraffic {
    /// Mean congestion window in bytes, summed over all connections.
    pub cwnd_bytes: f64,
    /// Mean bytes in flight, summed over all connections.
    pub flight_bytes: f64,
    /// Mean smoothed round-trip time in seconds.
    pub rtt_s: f64,
    /// Maximum segment size in bytes.
    pub mss_bytes: f64,
    /// Packets retransmitted.
    pub retransmitted: f64,
    /// Packets sent, estimated from bytes and segment size.
    pub packets: f64,
    /// Mean pacing rate in bytes per second, summed over all connections; `None` without pacing.
    pub pacing_bytes_per_s: Option<f64>,
    /// The same for a rate that never changed: a cap, set from outside.
    pub pacing_cap_bytes_per_s: Option<f64>,
}

/// Reductions of the congestion window, in number.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct CwndCuts {
    /// By the sending host's own device (CWR without a loss), in the window of the figures.
    #[serde(rename = "local_cuts")]
    pub local: f64,
    /// The same before that window: a congestion window takes long to recover over a long path.
    #[serde(rename = "earlier_local_cuts")]
    pub earlier_local: f64,
    /// By losses and timeouts, before that window.
    pub earlier_losses: f64,
    /// Restarts from a small window after a pause, without a loss.
    pub restarts: f64,
}

/// Begin of a load, from the bytes that arrive.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct RampFacts {
    /// Share of the time before the load reaches its later rate.
    #[serde(rename = "ramp")]
    pub share: f64,
    /// Later rate: payload bytes per second of the second half.
    pub plateau_bytes_per_s: f64,
    /// True while congestion windows still open at the end of the load: the final rate was not seen.
    pub is_growing: bool,
}

/// Settings of the sender's socket, recorded at login.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct SenderSocket {
    /// True with Nagle's algorithm on.
    pub has_nagle: Option<bool>,
    /// Limit of the send buffer of one connection, in bytes.
    pub buffer_most_bytes: Option<f64>,
}
