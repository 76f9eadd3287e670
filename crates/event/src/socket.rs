//! One sample of a TCP connection: what the kernel says of it and what the application moved.

use crate::Instant;

/// Which end of the path a sample was taken at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Host {
    /// The initiator's side.
    Near,
    /// The target's side.
    Far,
}

/// Linux's congestion state of a connection (`tcpi_ca_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionState {
    /// Nothing is wrong.
    Open,
    /// Duplicate ACKs or SACK seen, no cut yet.
    Disorder,
    /// The window was cut by a local or ECN signal; nothing was lost on the path.
    Cwr,
    /// Fast recovery from a loss.
    Recovery,
    /// A retransmission timeout.
    Loss,
}

/// A row of the table `sockets`. Counters run from the start of the connection.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SocketSample {
    /// When it was taken.
    pub t: Instant,
    /// At which end.
    pub host: Host,
    /// Connection number within the process.
    pub connection: u32,
    /// Application payload received so far (SCSI or stream data, not headers).
    pub app_rx_bytes: u64,
    /// Application payload handed to the socket so far.
    pub app_tx_bytes: u64,
    /// Congestion window.
    pub cwnd_packets: u32,
    /// Slow-start threshold; `u32::MAX` or more than 2^30 while there is none.
    pub ssthresh_packets: u32,
    /// Maximum segment size for sending.
    pub mss_bytes: u32,
    /// Congestion state.
    pub state: CongestionState,
    /// Smoothed round-trip time.
    pub rtt_ns: u64,
    /// Smallest round-trip time seen.
    pub min_rtt_ns: u64,
    /// Unacknowledged packets.
    pub unacked_packets: u32,
    /// Packets retransmitted in all.
    pub retransmitted_packets: u32,
    /// Delivery rate as the kernel measured it.
    pub delivery_rate_bytes_per_s: u64,
    /// Pacing rate in force; `u64::MAX` if unpaced.
    pub pacing_rate_bytes_per_s: u64,
    /// Bytes written to the socket and not yet sent.
    pub notsent_bytes: u32,
    /// Payload that was not handed to the socket, whatever it waits for.
    pub unsent_bytes: u64,
    /// Bytes that the peer lets be under way: the window it offers.
    pub peer_window_bytes: u32,
    /// Time with something to send or not acknowledged.
    pub busy_ns: u64,
    /// Of that, limited by the peer's window.
    pub receive_window_limited_ns: u64,
    /// Of that, limited by the send buffer.
    pub send_buffer_limited_ns: u64,
    /// Commands that the target lets this session have open; at the initiator, the most that it has ever seen to be
    /// allowed. 0 without a session.
    pub command_window: u32,
    /// Time that the loop of this connection has spent waiting for something to do.
    pub loop_idle_ns: u64,
    /// CPU time that its thread has used.
    pub loop_cpu_ns: u64,
}

impl Host {
    /// The name that tables and users see.
    pub const fn name(self) -> &'static str {
        match self {
            Host::Near => "near",
            Host::Far => "far",
        }
    }
}

impl CongestionState {
    /// From `tcpi_ca_state`; values the kernel may add later count as `Open`.
    pub const fn from_kernel(state: u8) -> CongestionState {
        match state {
            1 => CongestionState::Disorder,
            2 => CongestionState::Cwr,
            3 => CongestionState::Recovery,
            4 => CongestionState::Loss,
            _ => CongestionState::Open,
        }
    }

    /// The name that tables and users see.
    pub const fn name(self) -> &'static str {
        match self {
            CongestionState::Open => "open",
            CongestionState::Disorder => "disorder",
            CongestionState::Cwr => "cwr",
            CongestionState::Recovery => "recovery",
            CongestionState::Loss => "loss",
        }
    }
}
