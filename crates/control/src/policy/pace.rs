//! The policy `pace`: what `none` does, and what is sent is paced by the kernel, in bulk capped by the delivered rate
//! (`cap.rs`). A lone request is paced without a cap, at its window over the round trip. Where the device takes packets one
//! by one the kernel's pacing is too dear, and data are handed to TCP at the rate that the kernel would have.

use crate::bulk::cap::{Cap, Elsewhere, PACED_MIN};
use crate::bulk::wary::window_rate;
use crate::lone::space::{BURST_DEPTH_BYTES, bulk_depth_bytes, held_bytes};
use crate::measure::cuts::Cuts;
use crate::measure::product::Product;
use crate::policy::none::Fixed;
use crate::policy::{Decision, Observation, Policy};

/// What the kernel paces a window at, in percent of it over the round trip: up to half of its threshold, and from there
/// on (`tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio` as they are unless told; what a host has set is not asked).
const SLOW_START_PERCENT: u64 = 200;
const AVOIDANCE_PERCENT: u64 = 120;

/// See the file's beginning.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    product: Product,
    cuts: Cuts,
    cap: Cap,
    /// What the kernel would pace it at, where that is too dear.
    by_hand_bytes_per_s: Option<u64>,
}

impl Pace {
    pub(crate) fn new() -> Pace {
        let cap = Cap::new(BURST_DEPTH_BYTES);
        Pace { product: Product::new(), cuts: Cuts::default(), cap, by_hand_bytes_per_s: None }
    }
}

impl Policy for Pace {
    fn observe(&mut self, seen: &Observation) {
        self.product.observe(seen);
        let cut = self.cuts.observe(seen);
        self.cap.observe(seen, &self.product, cut, Elsewhere::default());
        self.by_hand_bytes_per_s = seen.paced_one_by_one.then(|| kernel_rate(seen));
    }

    fn decide(&self) -> Decision {
        let paced = self.cap.pacing_bytes_per_s(&self.product);
        let by_hand = paced.and_then(|cap| Some(self.by_hand_bytes_per_s?.min(cap)));
        Decision {
            pacing_bytes_per_s: if by_hand.is_some() { None } else { paced },
            burst_bytes_per_s: by_hand,
            burst_depth_bytes: by_hand
                .map_or(BURST_DEPTH_BYTES, |rate| bulk_depth_bytes(rate).min(BURST_DEPTH_BYTES)),
            held_bytes: by_hand.map(|rate| held_bytes(rate, bulk_depth_bytes(rate).min(BURST_DEPTH_BYTES))),
            look_again: self.cap.look_again(&self.product).min(Fixed::DECISION.look_again),
            ..Fixed::DECISION
        }
    }

    fn product_bytes(&self) -> u64 {
        self.product.bytes()
    }

    fn paces(&self) -> bool {
        true
    }

    fn hands_over(&self) -> bool {
        self.decide().burst_bytes_per_s.is_some()
    }
}

/// The rate that the kernel paces a window at (`tcp_update_pacing_rate` in net/ipv4/tcp_input.c).
fn kernel_rate(seen: &Observation) -> u64 {
    let percent =
        if seen.cwnd_packets < seen.ssthresh_packets / 2 { SLOW_START_PERCENT } else { AVOIDANCE_PERCENT };
    (window_rate(seen, seen.rtt.as_nanos()) / 100).saturating_mul(percent).max(PACED_MIN)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::policy::UNCAPPED;
    use crate::testing::QUIET;

    const RTT: Duration = Duration::from_millis(16);

    #[test]
    fn where_packets_are_paced_one_by_one_data_are_handed_over_as_fast_as_the_kernel_would_pace_them() {
        let lone = Observation {
            rtt: RTT,
            min_rtt: Some(RTT),
            burst_bytes: 1 << 20,
            cwnd_packets: 1000,
            ssthresh_packets: 900,
            mss_bytes: 1000,
            ..QUIET
        };
        let mut pace = Pace::new();
        pace.observe(&lone);
        let decision = pace.decide();
        assert_eq!((decision.pacing_bytes_per_s, decision.burst_bytes_per_s), (Some(UNCAPPED), None));
        for (cwnd_packets, rate) in [(1000, 75_000_000), (400, 50_000_000)] {
            pace.observe(&Observation { cwnd_packets, paced_one_by_one: true, ..lone });
            let decision = pace.decide();
            assert_eq!((decision.pacing_bytes_per_s, decision.burst_bytes_per_s), (None, Some(rate)));
        }
        pace.observe(&Observation { min_rtt: Some(RTT / 100), paced_one_by_one: true, ..lone });
        assert_eq!(pace.decide().burst_bytes_per_s, None, "a short path is left alone");
    }
}
