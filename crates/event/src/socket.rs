//! One sample of a TCP connection: what the kernel says of it and what the application moved.

use crate::{Instant, Steered};

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
    /// Mean deviation of the round-trip time.
    pub rtt_var_ns: u64,
    /// Smallest round-trip time seen.
    pub min_rtt_ns: u64,
    /// Unacknowledged packets.
    pub unacked_packets: u32,
    /// Of them those that are on the path: neither arrived behind a gap nor thought lost, and what was sent again.
    pub in_flight_packets: u32,
    /// Packets thought lost that are not repaired yet.
    pub lost_packets: u32,
    /// Packets retransmitted in all.
    pub retransmitted_packets: u32,
    /// Retransmission timeouts in all; 0 if the kernel does not count them.
    pub timeouts: u32,
    /// Packets that have arrived, those behind a gap included; wraps.
    pub delivered_packets: u32,
    /// Of them those that the path had marked (ECN); wraps.
    pub marked_packets: u32,
    /// Packets that arrived twice, as the peer said (D-SACK); wraps.
    pub duplicate_packets: u32,
    /// Times that the path was seen to reorder packets; wraps.
    pub reorderings: u32,
    /// Bytes that the peer has acknowledged.
    pub acked_bytes: u64,
    /// What the peer allows to be sent beyond what it has acknowledged.
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
    /// Of that the time in which the peer's receive window was full.
    pub rwnd_limited_ns: u64,
    /// Of that the time in which the send buffer was full, and too small.
    pub sndbuf_limited_ns: u64,
    /// Payload that was not handed to the socket, whatever it waits for.
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
    /// How it was steered then; `None` if no policy was shown this sample.
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
