//! The policy `auto`: everything follows the path that was measured. It is the default.
//!
//! *Outstanding* is a multiple of the bandwidth-delay product (`product.rs`). *Bulk* is paced by the kernel, capped by
//! the delivered rate (`cap.rs`), and by its part of a line that several senders share (`share.rs`): its own process says it,
//! or the other end, which sees what all of them send (`arrival.rs`, `word.rs`).
//! *A lone request* is handed to TCP as fast as the line carries it (`space.rs`), and paced by nothing else. *Blocks* are
//! the caller's: what a block has to do with a window is over once its data are spaced, and a window that was cut for
//! nothing may double again (`threshold.rs`).

use core::time::Duration;

use event::CongestionChoice;

use crate::bulk::cap::{BULK_BYTES, Cap, Elsewhere, PACED_MIN};
use crate::bulk::wary::window_rate;
use crate::lone::crowd::Arrived;
use crate::lone::space::{START_BYTES_PER_S, Space, bulk_depth_bytes, held_bytes, part_depth_bytes};
use crate::loss::control::LossControl;
use crate::measure::cuts::Cuts;
use crate::measure::product::Product;
use crate::policy::{Decision, Observation, Policy};
use crate::sharing::arrival::Arrival;
use crate::sharing::meeting::Met;
use crate::sharing::share::Claim;
use crate::window::threshold::{Held, Threshold};

/// A window that grows is spread over a third of the round trip: after half of one CUBIC takes the line for full.
const WINDOW_TIMES: u64 = 3;
/// And no more than so much of what arrives, in percent, so that the ring is not too full when the line is.
const GROWTH_PERCENT: u64 = 150;

/// See the file's beginning.
#[derive(Clone, Debug)]
pub(crate) struct Auto {
    product: Product,
    cuts: Cuts,
    cap: Cap,
    loss: LossControl,
    space: Space,
    threshold: Threshold,
    arrival: Arrival,
    /// Its part, as its own process says, and as the other end does.
    granted_bytes_per_s: Option<u64>,
    left_bytes_per_s: Option<u64>,
    /// The kernel's pacing is too dear.
    is_by_hand: bool,
    rtt: Duration,
    /// What the kernel's pacing would let out of a window that grows.
    window_bytes_per_s: u64,
}

impl Auto {
    pub(crate) fn new() -> Auto {
        Auto {
            product: Product::new(),
            cuts: Cuts::default(),
            cap: Cap::new(BULK_BYTES),
            loss: LossControl::default(),
            space: Space::new(),
            threshold: Threshold::new(),
            arrival: Arrival::default(),
            granted_bytes_per_s: None,
            left_bytes_per_s: None,
            is_by_hand: false,
            rtt: Duration::ZERO,
            window_bytes_per_s: u64::MAX,
        }
    }
}

impl Auto {
    /// The smaller of its parts.
    fn part_bytes_per_s(&self) -> Option<u64> {
        self.granted_bytes_per_s.into_iter().chain(self.left_bytes_per_s).min()
    }

    /// Whether its process knows what the device takes that it is handed over to.
    fn knows_device(&self) -> bool {
        self.granted_bytes_per_s.is_some() && self.cap.is_wary_of_device()
    }

    /// What holds bulk back besides its window.
    fn held(&self, seen: &Observation) -> Held {
        if self.knows_device() {
            Held::ByDevice
        } else if seen.paced_one_by_one && self.granted_bytes_per_s.is_some() || self.cap.is_newcomer() {
            Held::ByPart
        } else {
            Held::No
        }
    }

    /// How fast bulk is handed over as long as nobody knows what the device takes.
    fn growing_bytes_per_s(&self) -> u64 {
        let arrived = self.cap.claim().and_then(|claim| claim.rate_bytes_per_s).unwrap_or(0);
        START_BYTES_PER_S.max(arrived / 100 * GROWTH_PERCENT).min(self.window_bytes_per_s)
    }
}

impl Policy for Auto {
    fn observe(&mut self, seen: &Observation) {
        self.product.observe(seen);
        let cut = self.cuts.observe(seen);
        self.space.observe(seen, cut);
        let elsewhere = Elsewhere {
            line_bytes_per_s: self.space.line().filter(|_| seen.paced_one_by_one),
            part_bytes_per_s: self.part_bytes_per_s(),
            random_loss: self.loss.random_loss(seen, self.cap.base_rtt()),
        };
        self.cap.observe(seen, &self.product, cut, elsewhere);
        if self.cap.has_lost() {
            self.loss.overflowed();
        }
        let choice = self.loss.decision().choice;
        self.loss.observe(seen, cut, self.cap.base_rtt().unwrap_or(seen.rtt));
        if choice == CongestionChoice::Hosts && self.loss.decision().choice != choice {
            self.cap.restart();
        }
        self.cap.probe(self.loss.probing_percent());
        self.threshold.observe(seen, cut, self.held(seen));
        self.arrival.observe(seen);
        (self.is_by_hand, self.rtt) = (seen.paced_one_by_one, seen.rtt);
        self.window_bytes_per_s =
            window_rate(seen, seen.min_rtt.unwrap_or(seen.rtt).as_nanos()).saturating_mul(WINDOW_TIMES);
        if !self.cap.is_bulk() {
            // Who does not share a line has no part of it, and a later burst is not to have the one of now.
            (self.granted_bytes_per_s, self.left_bytes_per_s) = (None, None);
        }
    }

    fn decide(&self) -> Decision {
        let cap = self.cap.pacing_bytes_per_s(&self.product);
        let part = self.part_bytes_per_s().map(|part| part.max(PACED_MIN));
        let lone = (!self.cap.is_bulk()).then_some(&self.space);
        let paced = cap.map(|cap| cap.min(part.unwrap_or(u64::MAX)));
        let by_hand = paced.filter(|_| self.is_by_hand);
        let knows_device = self.knows_device();
        let has_queue = self.cap.claim().is_some_and(|claim| claim.has_queue);
        let handed = by_hand.filter(|_| self.cap.is_bulk()).map(|rate| match part {
            // The process that knows of all that go out here knows what the ring takes; but not of a slower line behind it.
            Some(part) if knows_device && !has_queue => part,
            Some(_) if knows_device => rate,
            _ => rate.min(self.growing_bytes_per_s()),
        });
        let burst_bytes_per_s = handed.or_else(|| lone.and_then(Space::bytes_per_s));
        let depth_bytes = self.space.depth_bytes();
        let burst_depth_bytes = match handed {
            None => depth_bytes,
            Some(rate) if knows_device => part_depth_bytes(rate).min(depth_bytes),
            Some(rate) => bulk_depth_bytes(rate).min(depth_bytes),
        };
        let held = |rate| held_bytes(rate, burst_depth_bytes);
        let held_bulk = burst_bytes_per_s.filter(|_| self.hands_over()).map(held);
        let look_lone = lone.and_then(Space::look_again).unwrap_or(Duration::MAX);
        Decision {
            block_bytes: None,
            outstanding_bytes: self.product.outstanding_bytes(),
            command_window: self.product.command_window(),
            pacing_bytes_per_s: if by_hand.is_some() { None } else { paced },
            burst_bytes_per_s,
            burst_depth_bytes,
            held_bytes: held_bulk.or_else(|| lone.and_then(Space::held_bytes)),
            thresholds_forgotten: self.threshold.forgotten(),
            congestion: self.loss.decision(),
            look_again: self
                .cap
                .look_again(&self.product)
                .min(look_lone)
                .min(self.loss.look_again(self.product.min_rtt().unwrap_or_default())),
        }
    }

    fn product_bytes(&self) -> u64 {
        self.product.bytes()
    }

    fn paces(&self) -> bool {
        true
    }

    fn forgets(&self) -> bool {
        true
    }

    fn claim(&self) -> Option<Claim> {
        self.cap.claim()
    }

    fn met(&self) -> Option<Met> {
        let (handed, burst_bytes_per_s) = self.cap.handed().zip(self.space.bytes_per_s())?;
        let met = Met {
            line_bytes_per_s: self.space.line(),
            last: self.space.arrived(),
            burst_bytes_per_s,
            arrived_bytes: self.cap.exact_bytes(),
            rtt: self.rtt,
            is_refused: handed.is_refused,
        };
        (!self.cap.is_bulk()).then_some(met)
    }

    fn claim_of_peer(&self) -> Option<Claim> {
        self.arrival.claim()
    }

    fn arrived(&self) -> Option<Arrived> {
        self.space.arrived()
    }

    fn grant(&mut self, bytes_per_s: Option<u64>) {
        self.granted_bytes_per_s = bytes_per_s;
    }

    fn left(&mut self, bytes_per_s: Option<u64>) {
        self.left_bytes_per_s = bytes_per_s;
    }
}

#[cfg(test)]
mod tests {
    use event::{CongestionState, Instant};

    use super::*;
    use crate::policy::UNCAPPED;
    use crate::testing::QUIET;

    const RTT: Duration = Duration::from_millis(100);
    const LINE: u64 = 117_000_000;

    fn auto(moved_bytes_per_s: u64, request_bytes: u64) -> Auto {
        let mut auto = Auto::new();
        for round in 0..40u64 {
            auto.observe(&Observation {
                now: Instant::ZERO + RTT * round as u32,
                rtt: RTT,
                min_rtt: Some(RTT),
                moved_bytes: moved_bytes_per_s / 10 * round,
                delivery_rate_bytes_per_s: moved_bytes_per_s,
                backlog_bytes: 64 << 20,
                burst_bytes: 64 << 20,
                request_bytes,
                ..QUIET
            });
        }
        auto
    }

    #[test]
    fn the_command_window_follows_small_requests() {
        assert_eq!(auto(LINE, 1 << 20).decide().command_window, 4096);
        let window = auto(LINE, 4096).decide().command_window;
        assert!((5000..7000).contains(&window), "{window}");
    }

    #[test]
    fn what_is_granted_limits_the_cap() {
        let mut auto = auto(LINE, 1 << 20);
        assert_eq!(auto.decide().pacing_bytes_per_s, Some(UNCAPPED), "alone, and no queue yet");
        let claim = auto.claim().expect("it is in bulk");
        assert_eq!((claim.weight, claim.has_queue), (1, false));
        auto.grant(Some(LINE / 4));
        assert_eq!(auto.decide().pacing_bytes_per_s, Some(LINE / 4));
        auto.grant(None);
        assert_eq!(auto.decide().pacing_bytes_per_s, Some(UNCAPPED));
    }

    #[test]
    fn a_newcomer_forgets_what_is_found_in_the_queue_of_others() {
        let forgotten = |part_bytes_per_s: Option<u64>| {
            let mut auto = Auto::new();
            for round in 0..30u64 {
                auto.grant(part_bytes_per_s.filter(|_| round >= 10));
                auto.observe(&Observation {
                    now: Instant::ZERO + RTT * round as u32,
                    rtt: if round < 10 { RTT } else { RTT * 3 / 2 },
                    min_rtt: Some(RTT),
                    moved_bytes: LINE / 1000 * round,
                    delivery_rate_bytes_per_s: LINE / 100,
                    cwnd_packets: 110,
                    unacked_packets: 100,
                    ssthresh_packets: if round < 12 { u32::MAX } else { 100 },
                    mss_bytes: 1448,
                    forgets_freely: true,
                    backlog_bytes: 64 << 20,
                    burst_bytes: 64 << 20,
                    ..QUIET
                });
            }
            auto.decide().thresholds_forgotten
        };
        assert_eq!([None, Some(LINE / 90)].map(forgotten), [0, 0], "it has no part, or has that");
        assert!(forgotten(Some(LINE / 2)) > 0);
    }

    #[test]
    fn where_packets_are_paced_one_by_one_bulk_is_handed_over_at_the_rate() {
        let mut auto = auto(LINE, 1 << 20);
        let bulk = Observation {
            now: Instant::ZERO + 50 * RTT,
            rtt: RTT,
            min_rtt: Some(RTT),
            cwnd_packets: 1000,
            mss_bytes: 1448,
            backlog_bytes: 64 << 20,
            burst_bytes: 64 << 20,
            delivery_rate_bytes_per_s: LINE,
            ..QUIET
        };
        auto.observe(&bulk);
        assert_eq!(
            (auto.decide().pacing_bytes_per_s, auto.decide().burst_bytes_per_s),
            (Some(UNCAPPED), None)
        );
        auto.observe(&Observation { paced_one_by_one: true, ..bulk });
        assert_eq!(auto.decide().pacing_bytes_per_s, None);
        let handed = auto.decide().burst_bytes_per_s.expect("it is in bulk");
        assert!((1 << 20..4 * LINE).contains(&handed), "{handed}");
        auto.grant(Some(LINE / 100));
        assert_eq!(auto.decide().burst_bytes_per_s, Some(LINE / 100), "its part holds here too");
    }

    #[test]
    fn behind_a_known_device_a_slower_line_counts_as_well() {
        let mut auto = auto(LINE / 10, 1 << 20);
        let mut look = |ms: u64, queue_ms, cwnd_packets| {
            auto.observe(&Observation {
                now: Instant::ZERO + 50 * RTT + Duration::from_millis(ms),
                rtt: RTT + Duration::from_millis(queue_ms),
                min_rtt: Some(RTT),
                cwnd_packets,
                ssthresh_packets: cwnd_packets,
                state: if ms == 10 { CongestionState::Cwr } else { CongestionState::Open },
                mss_bytes: 1448,
                unacked_packets: 1000,
                backlog_bytes: 64 << 20,
                burst_bytes: 64 << 20,
                delivery_rate_bytes_per_s: LINE / 10,
                paced_one_by_one: true,
                ..QUIET
            });
            auto.grant(Some(LINE));
            auto.decide().burst_bytes_per_s.expect("it is in bulk")
        };
        look(0, 0, 2000);
        assert_eq!(look(10, 0, 1000), LINE, "what its part of the device is");
        let handed: Vec<u64> = (2..100).map(|n| look(10 * n, 50, 1000)).collect();
        assert!(handed[97] <= LINE / 10, "{handed:?}");
    }

    #[test]
    fn what_was_granted_ends_with_the_bulk() {
        let mut auto = auto(LINE, 1 << 20);
        auto.grant(Some(LINE / 4));
        let busy = Observation { rtt: RTT, min_rtt: Some(RTT), backlog_bytes: 64 << 20, ..QUIET };
        let bulk = [(64 << 20, LINE / 4), (1 << 20, LINE / 4), (0, UNCAPPED), (1 << 20, UNCAPPED)];
        for (backlog_bytes, expected) in bulk.into_iter().chain([(64 << 20, UNCAPPED)]) {
            let now = Instant::ZERO + 50 * RTT;
            auto.observe(&Observation { now, backlog_bytes, delivery_rate_bytes_per_s: LINE, ..busy });
            assert_eq!(auto.decide().pacing_bytes_per_s, Some(expected), "{backlog_bytes}");
        }
    }

    #[test]
    fn a_lone_request_is_not_paced_and_a_short_path_never() {
        let mut auto = Auto::new();
        let mut seen = Observation {
            rtt: RTT,
            min_rtt: Some(RTT),
            delivery_rate_bytes_per_s: 1,
            app_limited: true,
            backlog_bytes: 1 << 20,
            burst_bytes: 1 << 20,
            request_bytes: 1 << 20,
            ..QUIET
        };
        auto.observe(&seen);
        assert_eq!(auto.decide().pacing_bytes_per_s, None);
        assert!(auto.decide().burst_bytes_per_s.is_some(), "it is spaced");
        seen.backlog_bytes = 64 << 20;
        seen.min_rtt = Some(Duration::from_micros(100));
        auto.observe(&seen);
        let Decision { pacing_bytes_per_s, burst_bytes_per_s, .. } = auto.decide();
        assert_eq!((pacing_bytes_per_s, burst_bytes_per_s), (None, None));
    }
}
