//! What tests begin with.

mod beside;
mod bulk;
mod rival;
mod sender;

use core::time::Duration;

use event::{CongestionState, Instant, MayChange};

use crate::loss::route::Remembered;
use crate::policy::{CongestionSeen, Observation};
use crate::sharing::share::Claim;

/// A line of 1 Gb/s, in bytes of payload per second, and its round trip.
pub(crate) const LINE: u64 = 117_000_000;
pub(crate) const RTT: Duration = Duration::from_millis(16);

/// One in bulk on it, in whose queue packets stand.
pub(crate) fn claim(weight: u32, rate_bytes_per_s: u64) -> Claim {
    Claim {
        weight,
        rate_bytes_per_s: Some(rate_bytes_per_s),
        rtt: RTT,
        has_queue: true,
        had_queue: true,
        ..Claim::default()
    }
}

/// A connection over which nothing has happened.
pub(crate) const QUIET: Observation = Observation {
    now: Instant::ZERO,
    rtt: Duration::ZERO,
    min_rtt: None,
    moved_bytes: 0,
    received_bytes: 0,
    delivery_rate_bytes_per_s: 0,
    app_limited: false,
    retransmitted_packets: 0,
    lost_packets: 0,
    timeouts: 0,
    marked_packets: 0,
    busy: Duration::ZERO,
    delivered_packets: 0,
    unacked_packets: 0,
    mss_bytes: 1448,
    cwnd_packets: u32::MAX,
    peer_window_bytes: 0,
    ssthresh_packets: u32::MAX,
    state: CongestionState::Open,
    backlog_bytes: 0,
    burst_bytes: 0,
    was_spaced: false,
    handed_bytes_per_s: 0,
    has_company: false,
    paces_itself: false,
    congestion: CongestionSeen {
        may_change: MayChange::Locked,
        duplicate_packets: 0,
        reorderings: 0,
        remembered: Remembered::Nothing,
    },
    paced_one_by_one: false,
    forgets_freely: false,
    request_bytes: 0,
};
