//! Round-trip times and the one timer that they set: retransmission, tail loss probe or reordering.

use core::time::Duration;

use event::Instant;

/// Linux's least deviation and its first timeout.
const RTO_LEAST: Duration = Duration::from_millis(200);
const RTO_FIRST: Duration = Duration::from_secs(1);
const RTO_MOST: Duration = Duration::from_secs(120);
/// Added to two round trips before a probe; if one packet is in flight its acknowledgement may be delayed.
const PROBE_SLACK: Duration = Duration::from_millis(2);

/// Reason of a wake-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    /// Nothing came back.
    Timeout,
    /// The tail may be lost.
    Probe,
    /// Packets are late by more than reordering explains.
    Reordering,
}

/// Round-trip estimates (RFC 6298) and the timer.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Timing {
    pub(crate) srtt: Option<Duration>,
    deviation: Duration,
    pub(crate) min_rtt: Option<Duration>,
    /// Timeouts in a row.
    pub(crate) backoff: u32,
    pub(crate) armed: Option<(Instant, Timer)>,
}

impl Timing {
    /// Takes the round trips of the earliest and the latest packet that were acknowledged.
    pub(crate) fn measured(&mut self, first: Duration, last: Duration) {
        self.min_rtt = Some(self.min_rtt.map_or(last, |least| least.min(last)));
        let Some(srtt) = self.srtt else {
            (self.srtt, self.deviation) = (Some(first), first / 2);
            return;
        };
        self.deviation = (self.deviation * 3 + srtt.abs_diff(first)) / 4;
        self.srtt = Some((srtt * 7 + first) / 8);
    }

    /// Retransmission timeout.
    pub(crate) fn timeout(&self) -> Duration {
        let base = self.srtt.map_or(RTO_FIRST, |srtt| srtt + (self.deviation * 4).max(RTO_LEAST));
        (base * (1 << self.backoff.min(9))).min(RTO_MOST)
    }

    /// Time until a probe (RFC 8985, 7.2).
    pub(crate) fn probe(&self, packets_out: u32) -> Duration {
        let slack = if packets_out == 1 { RTO_LEAST } else { PROBE_SLACK };
        self.srtt.map_or(RTO_FIRST, |srtt| srtt * 2 + slack).min(self.timeout())
    }
}
