//! What every policy sees and decides.

use core::time::Duration;

use event::Instant;

/// What one end saw of one connection, some tens of times per second while it is busy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Observation {
    /// When.
    pub now: Instant,
    /// Smoothed round-trip time of TCP.
    pub rtt: Duration,
    /// Smallest round-trip time of TCP so far; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// Application payload that has come in or whose arrival was acknowledged, in all.
    pub moved_bytes: u64,
    /// Delivery rate of what this end sends, as the kernel measured it last.
    pub delivery_rate_bytes_per_s: u64,
    /// That rate was measured while there was too little to send: it says nothing of the path.
    pub app_limited: bool,
    /// Packets that this end has sent again, in all.
    pub retransmitted_packets: u64,
    /// Packets of this end that have arrived, those behind a gap included; wraps.
    pub delivered_packets: u32,
    /// Payload of a packet.
    pub mss_bytes: u32,
    /// Congestion window of what this end sends.
    pub cwnd_packets: u32,
    /// Payload waiting here to be sent, in the kernel's unsent queue or before it.
    pub backlog_bytes: u64,
    /// Mean length of the requests of late; zero if there were none.
    pub request_bytes: u64,
}

/// What to do until the next decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Payload that requests may have outstanding at once, if the caller leaves it open.
    pub outstanding_bytes: u64,
    /// Commands that the target should let be open at once.
    pub command_window: u32,
    /// Cap of the pacing rate; `None` leaves the connection unpaced, `u64::MAX - 1` paces it without a
    /// cap of ours.
    pub pacing_bytes_per_s: Option<u64>,
    /// How soon the policy wants to see the connection again, if it is busy.
    pub look_again: Duration,
}

/// A policy.
pub trait Policy {
    /// Takes what was seen.
    fn observe(&mut self, observation: &Observation);

    /// What to do now.
    fn decide(&self) -> Decision;
}
