//! Time that was charged while the fastest round trip was not yet known.
//!
//! Without a handshake the first acknowledgements may all have waited for the answers that they came with. Then the target's
//! time is taken for propagation, until a faster round trip is seen.

/// Limit of the fastest round trips that are kept, in their order.
const RECORDS: usize = 8;
/// A round trip longer than the fastest by this part, and by [`LATER_NS`], was not the fastest one.
const LONGER: f64 = 1.25;
/// Time in ns that a first round trip may take longer than others, for a host to wake up.
const LATER_NS: f64 = 200_000.0;

/// Times charged to propagation, by the fastest round trip known then.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChargedRoundTrips {
    /// Round trip and time charged with it, in ns.
    charged: [(u64, u64); RECORDS],
    count: usize,
}

impl ChargedRoundTrips {
    /// Adds time that was charged with a fastest round trip, both in ns; without one, 0, nothing is propagation.
    pub(crate) fn add(&mut self, rtt_ns: u64, ns: u64) {
        if rtt_ns == 0 {
            return;
        }
        let is_same = self.count > 0 && self.charged[self.count - 1].0 == rtt_ns;
        if !is_same && self.count < RECORDS {
            self.charged[self.count] = (rtt_ns, 0);
            self.count += 1;
        }
        let (last_rtt_ns, charged_ns) = &mut self.charged[self.count - 1];
        // The last record is of the fastest so far.
        *last_rtt_ns = rtt_ns;
        *charged_ns = charged_ns.saturating_add(ns);
    }

    /// Share of the time that was charged with another round trip than the fastest, `fastest_ns`.
    pub(crate) fn late_share(&self, fastest_ns: u64) -> f64 {
        let (known, fastest_ns) = (&self.charged[..self.count], fastest_ns as f64);
        let sum = |wanted: &dyn Fn(u64) -> bool| {
            known.iter().filter(|(rtt_ns, _)| wanted(*rtt_ns)).map(|(_, ns)| *ns as f64).sum::<f64>()
        };
        let late = sum(&|rtt_ns| rtt_ns as f64 > fastest_ns * LONGER + LATER_NS);
        late / sum(&|_| true).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_before_the_fastest_round_trip_is_late() {
        const MS: u64 = 1_000_000;
        let mut charged = ChargedRoundTrips::default();
        assert_eq!(charged.late_share(0), 0.0);
        charged.add(0, 70);
        charged.add(28 * MS, 30);
        charged.add(9 * MS, 20);
        charged.add(8 * MS, 40);
        charged.add(8 * MS, 10);
        assert_eq!(charged.late_share(8 * MS), 0.3, "{charged:?}");
        for rtt_ms in (1..8).rev() {
            charged.add(rtt_ms * MS, 100);
        }
        // 28 and 9 ms are late beside 7 ms, 8 ms are not.
        assert_eq!(charged.late_share(7 * MS), 0.0625, "{charged:?}");
        assert!(charged.late_share(MS) > 0.6, "{charged:?}");
    }
}
