//! How evenly bytes arrive: what a direction delivers in short stretches of equal length, but for pauses in which it has had
//! nothing in flight for long. Short ones count: beside a receiver nothing is ever in flight for longer than a moment.
//!
//! A full line delivers the same in each; a congestion window that is cut and grows does not.

use serde::Serialize;

use super::distribution::Distribution;

/// Stretches are a round trip, but not shorter, in ns: acknowledgements come in clumps.
const STRETCH_LEAST_NS: u64 = 50_000_000;
/// A stretch that delivers so much of what the best ones do is as good as one of those.
const FULL: f64 = 0.75;
/// Stretches without anything that are counted; more are an outage.
const EMPTY_MAX: u64 = 10_000;

/// With nothing in flight for longer nothing was asked for, in ns: no round trip is as long.
const PAUSE_NS: u64 = 1_000_000_000;

/// Bytes that one direction has delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    stretch_ns: u64,
    /// Since when the last pause is over, and the time that counts before it.
    since_ns: Option<u64>,
    before_ns: u64,
    /// Since when nothing is in flight.
    empty_ns: Option<u64>,
    /// When the stretch ends, on that clock.
    end_ns: u64,
    bytes: u64,
    /// Bytes per stretch.
    stretches: Distribution,
    delivered: u64,
}

/// What is told of it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Delivered {
    /// Bytes that were acknowledged, in order or not.
    pub bytes: u64,
    /// Length of a stretch.
    pub stretch_s: f64,
    /// What the best tenth of all stretches deliver per second.
    pub peak_bytes_per_s: f64,
    /// Share of stretches that deliver nearly as much.
    pub full_share: f64,
}

impl Delivery {
    /// Something is in flight from now on.
    pub(super) fn begin(&mut self, t_ns: u64) {
        let empty_ns = self.empty_ns.take().filter(|empty_ns| t_ns.saturating_sub(*empty_ns) > PAUSE_NS);
        if let (Some(empty_ns), Some(since_ns)) = (empty_ns, self.since_ns) {
            self.before_ns = self.before_ns.saturating_add(empty_ns.saturating_sub(since_ns));
            self.since_ns = Some(t_ns);
        }
        self.since_ns.get_or_insert(t_ns);
    }

    /// Nothing is in flight any more.
    pub(super) fn end(&mut self, t_ns: u64) {
        self.empty_ns.get_or_insert(t_ns);
    }

    /// The time that counts, in ns: up to `t_ns`, or to when nothing was in flight any more.
    pub(super) fn busy_ns(&self, t_ns: u64) -> u64 {
        let until_ns = self.empty_ns.unwrap_or(t_ns);
        self.before_ns.saturating_add(self.since_ns.map_or(0, |since| until_ns.saturating_sub(since)))
    }

    /// So many bytes have been acknowledged at `t_ns`.
    pub(super) fn add(&mut self, t_ns: u64, bytes: u64, rtt_ns: u64) {
        self.begin(t_ns);
        let t_ns = self.busy_ns(t_ns);
        if self.stretch_ns == 0 {
            self.stretch_ns = rtt_ns.max(STRETCH_LEAST_NS);
            self.end_ns = t_ns.saturating_add(self.stretch_ns);
        }
        if t_ns >= self.end_ns {
            self.stretches.add(self.bytes);
            let passed = (t_ns - self.end_ns) / self.stretch_ns;
            self.stretches.add_many(0, passed.min(EMPTY_MAX));
            self.end_ns = self.end_ns.saturating_add((passed + 1).saturating_mul(self.stretch_ns));
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.delivered += bytes;
    }

    /// `None` before the first stretch is over, and if there was next to nothing in most.
    pub(super) fn told(&self) -> Option<Delivered> {
        let peak = self.stretches.quantile(0.9).filter(|peak| *peak > 0)?;
        let stretch_s = self.stretch_ns as f64 / 1e9;
        Some(Delivered {
            bytes: self.delivered,
            stretch_s,
            peak_bytes_per_s: peak as f64 / stretch_s,
            full_share: self.stretches.share_from((peak as f64 * FULL) as u64),
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
        let (even, bursts) = (even.told().expect("stretches"), bursts.told().expect("stretches"));
        assert!((even.peak_bytes_per_s / 1e6 - 1.0).abs() < 0.04 && even.full_share > 0.99, "{even:?}");
        assert!((bursts.peak_bytes_per_s / 4e6 - 1.0).abs() < 0.04, "{bursts:?}");
        assert!((bursts.full_share - 0.25).abs() < 0.01, "{bursts:?}");
    }

    /// A full line for ten seconds of a minute, and now and then a ping in the rest of it.
    #[test]
    fn time_in_which_nothing_is_asked_for_does_not_count() {
        let mut delivery = Delivery::default();
        for ping in 0..10 {
            delivery.begin(ping * 5_000 * MS);
            delivery.add(ping * 5_000 * MS + MS, 48, MS);
            delivery.end(ping * 5_000 * MS + MS);
        }
        delivery.begin(50_000 * MS);
        (50_000..60_000).for_each(|ms| delivery.add(ms * MS, 1_000, MS));
        let told = delivery.told().expect("stretches");
        assert!((told.peak_bytes_per_s / 1e6 - 1.0).abs() < 0.04 && told.full_share > 0.99, "{told:?}");
    }

    /// Every packet is acknowledged at once there; what holds the load is far away.
    #[test]
    fn a_tap_beside_the_receiver_sees_the_same() {
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
        let (even, bursts) = (even.told().expect("stretches"), bursts.told().expect("stretches"));
        assert!((even.peak_bytes_per_s / 1e6 - 1.0).abs() < 0.04 && even.full_share > 0.99, "{even:?}");
        assert!(bursts.peak_bytes_per_s < 10.4e6 && bursts.full_share < 0.2, "{bursts:?}");
    }

    #[test]
    fn a_long_pause_is_no_long_loop() {
        let mut delivery = Delivery::default();
        delivery.begin(0);
        delivery.add(0, 1, 0);
        delivery.add(u64::MAX, 1, 0);
        delivery.add(u64::MAX, 1, 0);
        assert_eq!((delivery.told(), delivery.delivered), (None, 3));
    }
}
