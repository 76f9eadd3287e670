//! Memory of routes: a verdict of one connection serves the next on the same route.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use event::{CongestionChoice, CongestionDecision, Instant, LossReason};

/// Routes remembered; the oldest is forgotten first.
const ROUTES_MAX: usize = 1024;
/// Loss rates of Internet paths are steady over minutes.
const RANDOM_LASTS: Duration = Duration::from_secs(600);
/// A refuted change is tried again after so long, and so many times as long each time, up to a maximum.
const REFUTED_FIRST: Duration = Duration::from_secs(60);
const REFUTED_TIMES: u32 = 4;
const REFUTED_MAX: Duration = Duration::from_secs(3600);
/// Likewise a change that was taken back since losses came with a queue.
const RETURNED_LASTS: Duration = Duration::from_secs(10);

/// The addresses of a connection, without ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Route {
    /// Address of the peer; IPv4 as such, not as mapped into IPv6.
    pub peer: IpAddr,
    /// Address of this end.
    pub local: IpAddr,
}

/// Verdict on a route.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Remembered {
    /// Nothing.
    #[default]
    Nothing,
    /// It takes so many of a million packets by random loss.
    Random {
        /// Share of packets lost.
        share_ppm: u32,
    },
    /// A rate-based congestion control was no better there.
    Refuted,
}

impl Remembered {
    /// As tables have it.
    pub fn recorded_ppm(self) -> u32 {
        match self {
            Remembered::Nothing => 0,
            Remembered::Random { share_ppm } => share_ppm.clamp(1, u32::MAX - 1),
            Remembered::Refuted => u32::MAX,
        }
    }

    /// From what [`Remembered::recorded_ppm`] returned.
    pub fn from_recorded_ppm(ppm: u32) -> Remembered {
        match ppm {
            0 => Remembered::Nothing,
            u32::MAX => Remembered::Refuted,
            share_ppm => Remembered::Random { share_ppm },
        }
    }
}

/// Verdicts on routes.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    verdicts: BTreeMap<Route, Verdict>,
}

#[derive(Clone, Copy, Debug)]
struct Verdict {
    remembered: Remembered,
    noted: Instant,
    until: Instant,
    refuted_times: u32,
    decision: CongestionDecision,
}

impl Routes {
    /// The verdict on a route, if it holds still.
    pub fn remembered(&self, route: Route, now: Instant) -> Remembered {
        let verdict = self.verdicts.get(&route).filter(|verdict| now < verdict.until);
        verdict.map_or(Remembered::Nothing, |verdict| verdict.remembered)
    }

    /// Takes the decision of a connection on that route. A rate-based one confirms its verdict with every call; a refutation
    /// counts once until another decision comes.
    pub fn note(&mut self, route: Route, decision: &CongestionDecision, now: Instant) {
        let before = self.verdicts.get(&route).copied();
        let is_same = before.is_some_and(|before| before.decision == *decision);
        let refuted_times = before.map_or(0, |before| before.refuted_times);
        let (remembered, lasts, refuted_times) = match (decision.choice, decision.reason) {
            (CongestionChoice::RateBased, _) if self.remembered(route, now) == Remembered::Refuted => return,
            (CongestionChoice::RateBased, _) => {
                (Remembered::Random { share_ppm: decision.share_ppm }, RANDOM_LASTS, refuted_times)
            }
            _ if is_same => return,
            (_, LossReason::NoGain | LossReason::MoreLoss) => {
                let longer = REFUTED_FIRST.saturating_mul(REFUTED_TIMES.saturating_pow(refuted_times));
                (Remembered::Refuted, longer.min(REFUTED_MAX), refuted_times.saturating_add(1))
            }
            (_, LossReason::CongestionLoss) => (Remembered::Refuted, RETURNED_LASTS, refuted_times),
            _ => return,
        };
        if before.is_none() && self.verdicts.len() >= ROUTES_MAX {
            let oldest = self.verdicts.iter().min_by_key(|(_, verdict)| verdict.noted);
            if let Some(oldest) = oldest.map(|(route, _)| *route) {
                self.verdicts.remove(&oldest);
            }
        }
        let verdict =
            Verdict { remembered, noted: now, until: now + lasts, refuted_times, decision: *decision };
        self.verdicts.insert(route, verdict);
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    fn route(number: u32) -> Route {
        Route { peer: Ipv4Addr::from_bits(number).into(), local: Ipv4Addr::LOCALHOST.into() }
    }

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(s)
    }

    const RANDOM: CongestionDecision = CongestionDecision {
        choice: CongestionChoice::RateBased,
        reason: LossReason::RandomLoss,
        restarts: 0,
        share_ppm: 1000,
    };
    const REFUTED: CongestionDecision =
        CongestionDecision { choice: CongestionChoice::Hosts, reason: LossReason::NoGain, ..RANDOM };

    #[test]
    fn random_loss_is_remembered_for_ten_minutes_after_its_last_confirmation() {
        let mut routes = Routes::default();
        routes.note(route(1), &RANDOM, at(0));
        routes.note(route(1), &RANDOM, at(100));
        let random = Remembered::Random { share_ppm: 1000 };
        assert_eq!(
            [at(699), at(700)].map(|now| routes.remembered(route(1), now)),
            [random, Remembered::Nothing]
        );
        assert_eq!(routes.remembered(route(2), at(100)), Remembered::Nothing);
        routes.note(route(2), &CongestionDecision::default(), at(100));
        assert_eq!(routes.remembered(route(2), at(100)), Remembered::Nothing);
    }

    #[test]
    fn a_refutation_holds_for_longer_each_time_and_against_others() {
        let mut routes = Routes::default();
        let mut now = 0;
        for lasts in [60, 240, 960, 3600, 3600] {
            routes.note(route(1), &REFUTED, at(now));
            routes.note(route(1), &REFUTED, at(now + 1));
            routes.note(route(1), &RANDOM, at(now + 2));
            let seen = [now + lasts - 1, now + lasts].map(|now| routes.remembered(route(1), at(now)));
            assert_eq!(seen, [Remembered::Refuted, Remembered::Nothing], "{lasts}");
            now += lasts;
            routes.note(route(1), &RANDOM, at(now));
        }
    }

    #[test]
    fn the_oldest_of_many_is_forgotten() {
        let mut routes = Routes::default();
        for number in 0..=ROUTES_MAX as u32 {
            routes.note(route(number), &RANDOM, at(1) + Duration::from_micros(number.into()));
        }
        let random = Remembered::Random { share_ppm: 1000 };
        assert_eq!(routes.remembered(route(0), at(2)), Remembered::Nothing);
        assert_eq!([1, ROUTES_MAX as u32].map(|number| routes.remembered(route(number), at(2))), [random; 2]);
    }
}
