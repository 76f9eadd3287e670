//! Delivery rate samples, as `net/ipv4/tcp_rate.c` takes them.

use core::time::Duration;

use event::Instant;

use super::board::Slot;

/// Counts that packets carry along.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Delivery {
    /// Packets that have arrived, those behind a gap included.
    pub(crate) delivered: u64,
    /// Time of the last of them.
    pub(crate) delivered_at: Instant,
    /// Time at which the packet of the last sample was sent.
    pub(crate) first_sent_at: Instant,
    /// Up to this count of delivered packets, samples are application-limited.
    pub(crate) app_limited_until: Option<u64>,
    /// Packets per second of the last sample that counts.
    pub(crate) packets_per_s: f64,
    /// That sample was application-limited.
    pub(crate) is_app_limited: bool,
}

/// Rate sample of one acknowledgement.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Sample {
    /// Delivered count, its time and the time since an earlier packet was sent, when the newest acknowledged packet was sent.
    pub(crate) prior: Option<(u64, Instant, Duration)>,
    /// Time of transmission and number of the newest of them.
    pub(crate) newest: Option<(Instant, u64)>,
    /// Packets delivered between; 0 if there is no sample.
    pub(crate) delivered: u64,
    /// Zero if there is no sample.
    pub(crate) interval: Duration,
    /// Packets newly delivered.
    pub(crate) acked: u32,
    /// Packets newly marked lost.
    pub(crate) losses: u32,
    pub(crate) is_app_limited: bool,
    /// Packets in flight before this acknowledgement.
    pub(crate) prior_in_flight: u32,
    /// Round trip of the latest packet that was sent once.
    pub(crate) rtt: Option<Duration>,
    /// Round trip of the earliest of them.
    pub(crate) first_rtt: Option<Duration>,
}

impl Delivery {
    /// Takes a packet that has arrived.
    pub(crate) fn arrived(&mut self, sample: &mut Sample, seq: u64, slot: &Slot) {
        self.delivered += 1;
        if sample.newest.is_none_or(|newest| newest < (slot.sent_at, seq)) {
            sample.newest = Some((slot.sent_at, seq));
            let sending = slot.sent_at.since(slot.first_sent_at);
            sample.prior = Some((slot.delivered, slot.delivered_at, sending));
            sample.is_app_limited = slot.is_app_limited;
            self.first_sent_at = slot.sent_at;
        }
    }

    /// Completes the sample of an acknowledgement.
    pub(crate) fn complete(&mut self, now: Instant, sample: &mut Sample, min_rtt: Option<Duration>) {
        if self.app_limited_until.is_some_and(|until| self.delivered > until) {
            self.app_limited_until = None;
        }
        if sample.acked > 0 {
            self.delivered_at = now;
        }
        let Some((delivered, at, sending)) = sample.prior else { return };
        let interval = sending.max(now.since(at));
        if interval.is_zero() || min_rtt.is_some_and(|least| interval < least) {
            return;
        }
        (sample.delivered, sample.interval) = (self.delivered - delivered, interval);
        let rate = sample.packets_per_s();
        if !sample.is_app_limited || rate >= self.packets_per_s {
            (self.packets_per_s, self.is_app_limited) = (rate, sample.is_app_limited);
        }
    }
}

impl Sample {
    /// Zero if there is no sample.
    pub(crate) fn packets_per_s(&self) -> f64 {
        if self.interval.is_zero() { 0.0 } else { self.delivered as f64 / self.interval.as_secs_f64() }
    }
}
