//! Delivery rate of a direction in intervals of equal length, and its evenness.
//!
//! Long pauses with nothing in flight are left out. Short ones count, because at a tap beside the receiver data is in
//! flight for a moment only. A saturated link delivers the same in each interval, a sawtooth of cwnd does not.

use serde::Serialize;

use crate::figures::distribution::Distribution;

/// Minimum length of an interval in ns, which is a whole number of round trips; acknowledgements arrive in clumps.
const INTERVAL_MIN_NS: u64 = 50_000_000;
/// Share of the peak rate from which an interval counts as full.
const FULL: f64 = 0.75;
/// Limit of consecutive empty intervals that are counted; more are an outage.
const EMPTY_MAX: u64 = 10_000;

/// Time in ns with nothing in flight that is a pause; no round trip is as long.
const PAUSE_NS: u64 = 1_000_000_000;

/// Bytes delivered by one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    interval_ns: u64,
    /// End of the last pause, on the capture's clock.
    resumed_ns: Option<u64>,
    /// Busy time before the last pause.
    before_ns: u64,
    /// Time at which the flight became empty; `None` while something is in flight.
    empty_ns: Option<u64>,
    /// End of the current interval, in busy time.
    end_ns: u64,
    /// Bytes of the current interval.
    bytes: u64,
    /// Bytes per interval.
    intervals: Distribution,
    delivered: u64,
}

/// Delivery rate of a direction.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct DeliverySummary {
    /// Bytes acknowledged, cumulatively or selectively.
    pub bytes: u64,
    /// Length of an interval.
    pub stretch_s: f64,
    /// 90th percentile of the rate over all intervals.
    pub peak_bytes_per_s: f64,
    /// Share of intervals with at least three quarters of that rate.
    pub full_share: f64,
}

impl Delivery {
    /// Something is in flight from `t_ns` on.
    pub(crate) fn begin(&mut self, t_ns: u64) {
        let empty_ns = self.empty_ns.take().filter(|empty_ns| t_ns.saturating_sub(*empty_ns) > PAUSE_NS);
        if let (Some(empty_ns), Some(resumed_ns)) = (empty_ns, self.resumed_ns) {
            self.before_ns = self.before_ns.saturating_add(empty_ns.saturating_sub(resumed_ns));
            self.resumed_ns = Some(t_ns);
        }
        self.resumed_ns.get_or_insert(t_ns);
    }

    /// Nothing is in flight from `t_ns` on.
    pub(crate) fn end(&mut self, t_ns: u64) {
        self.empty_ns.get_or_insert(t_ns);
    }

    /// Busy time in ns up to `t_ns`, or up to the moment at which the flight became empty.
    pub(crate) fn busy_ns(&self, t_ns: u64) -> u64 {
        let until_ns = self.empty_ns.unwrap_or(t_ns);
        self.before_ns
            .saturating_add(self.resumed_ns.map_or(0, |resumed_ns| until_ns.saturating_sub(resumed_ns)))
    }

    /// `bytes` are acknowledged at `t_ns`; `rtt_ns` is the fastest round trip so far.
    pub(crate) fn add(&mut self, t_ns: u64, bytes: u64, rtt_ns: u64) {
        // The acknowledgement of a SYN is what measures the round trip.
        if self.interval_ns == 0 && bytes <= 1 {
            return;
        }
        self.begin(t_ns);
        let t_ns = self.busy_ns(t_ns);
        if self.interval_ns == 0 {
            // A window per round trip is even only over whole round trips.
            let rtt_ns = rtt_ns.max(1);
            self.interval_ns = INTERVAL_MIN_NS.div_ceil(rtt_ns).saturating_mul(rtt_ns);
            self.end_ns = t_ns.saturating_add(self.interval_ns);
        }
        if t_ns >= self.end_ns {
            self.intervals.add(self.bytes);
            let passed = (t_ns - self.end_ns) / self.interval_ns;
            self.intervals.add_many(0, passed.min(EMPTY_MAX));
            self.end_ns = self.end_ns.saturating_add((passed + 1).saturating_mul(self.interval_ns));
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.delivered += bytes;
    }

    /// Summary; `None` before the end of the first interval, and if nine in ten intervals are empty.
    pub(crate) fn summary(&self) -> Option<DeliverySummary> {
        let peak = self.intervals.quantile(0.9).filter(|peak| *peak > 0)?;
        let stretch_s = self.interval_ns as f64 / 1e9;
        Some(DeliverySummary {
            bytes: self.delivered,
            stretch_s,
            peak_bytes_per_s: peak as f64 / stretch_s,
            full_share: self.intervals.share_from((peak as f64 * FULL) as u64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn even_and_in_bursts() {
        let (mut even, mut bursts) = (Delivery::default(), Delivery::default());
        even.begin(0);
        bursts.begin(0);
        for ms in 0..40_000 {
            even.add(ms * MS, 1_000, 100 * MS);
            bursts.add(ms * MS, if ms % 400 < 100 { 4_000 } else { 0 }, 100 * MS);
        }
        let (even, bursts) = (even.summary().expect("intervals"), bursts.summary().expect("intervals"));
        assert!((even.peak_bytes_per_s / 1e6 - 1.0).abs() < 0.04 && even.full_share > 0.99, "{even:?}");
        assert!((bursts.peak_bytes_per_s / 4e6 - 1.0).abs() < 0.04, "{bursts:?}");
        assert!((bursts.full_share - 0.25).abs() < 0.01, "{bursts:?}");
    }

    /// A saturated link for ten seconds of a minute, and an occasional ping in the rest of it.
    #[test]
    fn pauses_do_not_count() {
        let mut delivery = Delivery::default();
        for ping in 0..10 {
            delivery.begin(ping * 5_000 * MS);
            delivery.add(ping * 5_000 * MS + MS, 48, MS);
            delivery.end(ping * 5_000 * MS + MS);
        }
        delivery.begin(50_000 * MS);
        (50_000..60_000).for_each(|ms| delivery.add(ms * MS, 1_000, MS));
        let found = delivery.summary().expect("intervals");
        assert!((found.peak_bytes_per_s / 1e6 - 1.0).abs() < 0.04 && found.full_share > 0.99, "{found:?}");
    }

    /// Every packet is acknowledged at once there; the bottleneck is far away.
    #[test]
    fn a_tap_beside_the_receiver_shows_the_same() {
        let (mut even, mut bursts) = (Delivery::default(), Delivery::default());
        for ms in 0..40_000_u64 {
            for (delivery, bytes) in
                [(&mut even, 1_000), (&mut bursts, if ms % 400 < 40 { 10_000 } else { 0 })]
            {
                if bytes > 0 {
                    delivery.begin(ms * MS);
                    delivery.add(ms * MS + 20_000, bytes, 20_000);
                    delivery.end(ms * MS + 20_000);
                }
            }
        }
        let (even, bursts) = (even.summary().expect("intervals"), bursts.summary().expect("intervals"));
        assert!((even.peak_bytes_per_s / 1e6 - 1.0).abs() < 0.04 && even.full_share > 0.99, "{even:?}");
        assert!(bursts.peak_bytes_per_s < 10.4e6 && bursts.full_share < 0.2, "{bursts:?}");
    }

    #[test]
    fn a_long_pause_is_no_long_loop() {
        let mut delivery = Delivery::default();
        delivery.begin(0);
        delivery.add(0, 2, 0);
        delivery.add(u64::MAX, 2, 0);
        delivery.add(u64::MAX, 2, 0);
        assert_eq!((delivery.summary(), delivery.delivered), (None, 6));
    }
}
