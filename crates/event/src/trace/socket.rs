//! One sample of a TCP connection: the kernel's TCP_INFO and the payload that the application moved.

use crate::{Instant, Steered};

/// End of the path at which a sample was taken.
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
    /// Normal state.
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
    /// Time of the sample.
    pub t: Instant,
    /// At which end.
    pub host: Host,
    /// Connection number within the process.
    pub connection: u32,
    /// Application payload received so far (SCSI or stream data, not headers).
    pub app_rx_bytes: u64,
    /// Application payload written to the socket so far.
    pub app_tx_bytes: u64,
    /// Congestion window.
    pub cwnd_packets: u32,
    /// Slow-start threshold; `u32::MAX` or above 2^30 if unset.
    pub ssthresh_packets: u32,
    /// Maximum segment size for sending.
    pub mss_bytes: u32,
    /// Congestion state.
    pub state: CongestionState,
    /// Smoothed round-trip time.
    pub rtt_ns: u64,
    /// Mean deviation of the round-trip time.
    pub rtt_var_ns: u64,
    /// Smallest round-trip time seen.
    pub min_rtt_ns: u64,
    /// Unacknowledged packets.
    pub unacked_packets: u32,
    /// Packets in flight of these (RFC 6675 pipe): neither SACKed nor marked lost, and retransmissions.
    pub in_flight_packets: u32,
    /// Packets thought lost that are not repaired yet.
    pub lost_packets: u32,
    /// Packets retransmitted in all.
    pub retransmitted_packets: u32,
    /// Retransmission timeouts in all; 0 if the kernel does not count them.
    pub timeouts: u32,
    /// Packets that arrived at the peer, in or out of order; wraps.
    pub delivered_packets: u32,
    /// Delivered packets with an ECN mark; wraps.
    pub marked_packets: u32,
    /// Packets that arrived twice, as the peer said (D-SACK); wraps.
    pub duplicate_packets: u32,
    /// Times that the path was seen to reorder packets; wraps.
    pub reorderings: u32,
    /// Bytes that the peer has acknowledged.
    pub acked_bytes: u64,
    /// Send window: bytes beyond the acknowledged ones that the peer allows.
    pub snd_wnd_bytes: u32,
    /// Delivery rate as the kernel measured it.
    pub delivery_rate_bytes_per_s: u64,
    /// That rate was measured while there was too little to send.
    pub is_app_limited: bool,
    /// Pacing rate in force; `u64::MAX` if unpaced.
    pub pacing_rate_bytes_per_s: u64,
    /// Bytes written to the socket and not yet sent.
    pub notsent_bytes: u32,
    /// Time with something to send, or sent and not acknowledged.
    pub busy_ns: u64,
    /// Part of the busy time limited by the peer's receive window.
    pub rwnd_limited_ns: u64,
    /// Part of the busy time limited by the send buffer.
    pub sndbuf_limited_ns: u64,
    /// Payload not written to the socket yet, for whatever reason.
    pub unsent_bytes: u64,
    /// Mean length of the requests since the last sample; 0 if there were none.
    pub request_bytes: u64,
    /// Commands that the target lets this session have open; at the initiator, the most that it has ever seen to be
    /// allowed. 0 without a session.
    pub command_window: u32,
    /// Time that the loop of this connection has spent waiting for something to do.
    pub loop_idle_ns: u64,
    /// CPU time that its thread has used.
    pub loop_cpu_ns: u64,
    /// Input and decision of the policy; `None` if no policy was given this sample.
    pub steered: Option<Steered>,
}

impl SocketSample {
    /// A connection of which nothing is known yet but where it is.
    pub const fn new(t: Instant, host: Host, connection: u32) -> SocketSample {
        SocketSample {
            t,
            host,
            connection,
            app_rx_bytes: 0,
            app_tx_bytes: 0,
            cwnd_packets: 0,
            ssthresh_packets: u32::MAX,
            mss_bytes: 0,
            state: CongestionState::Open,
            rtt_ns: 0,
            rtt_var_ns: 0,
            min_rtt_ns: 0,
            unacked_packets: 0,
            in_flight_packets: 0,
            lost_packets: 0,
            retransmitted_packets: 0,
            timeouts: 0,
            delivered_packets: 0,
            marked_packets: 0,
            duplicate_packets: 0,
            reorderings: 0,
            acked_bytes: 0,
            snd_wnd_bytes: 0,
            delivery_rate_bytes_per_s: 0,
            is_app_limited: false,
            pacing_rate_bytes_per_s: u64::MAX,
            notsent_bytes: 0,
            busy_ns: 0,
            rwnd_limited_ns: 0,
            sndbuf_limited_ns: 0,
            unsent_bytes: 0,
            request_bytes: 0,
            command_window: 0,
            loop_idle_ns: 0,
            loop_cpu_ns: 0,
            steered: None,
        }
    }
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
