//! Offset of the clocks of two hosts, from the traffic itself.
//!
//! A time `t` of the far clock is `t - offset` on the near one. A request's time from near to far, by two clocks, is
//! its one-way delay plus the offset; that of its answer is its one-way delay less the offset. One-way delays are
//! positive, which bounds the offset from both sides; the smallest of each direction bound it best. If they are equal,
//! the middle is the offset. Clocks drift, so each stretch has its own offset; a stretch in which they drift by more
//! than a round trip has none that is right at both its ends, and is halved.

use serde::Serialize;

/// Stretches that a run is cut into, at least.
const STRETCHES: usize = 32;
/// Longest stretch: clocks of computers drift by some tens of microseconds a second.
const STRETCH_NS: u64 = 10_000_000_000;
/// A stretch of fewer requests than two of these is not cut again.
const STRETCH_LEAST: usize = 32;

/// A request's times at both ends, each on its own clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crossing {
    /// Departure of the request from the near host.
    pub near_sent_ns: u64,
    /// Arrival of the request at the far host.
    pub far_received_ns: u64,
    /// Departure of its answer from the far host.
    pub far_sent_ns: u64,
    /// The answer reached the near host.
    pub near_received_ns: u64,
}

/// The offset of the far clock, over time.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct ClockOffset {
    /// In order of the far clock; empty if the clocks are one, or their offset is unknown.
    pub points: Vec<OffsetPoint>,
    /// Stretches whose times contradict each other: no offset lets both the way there and the way back take time.
    pub contradictory: usize,
    /// Requests that are known at both ends; without one nothing is known of the clocks.
    pub requests: usize,
}

/// The offset during one stretch.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct OffsetPoint {
    /// Middle of the stretch, far clock.
    pub far_t_ns: u64,
    /// Far clock less near clock: the best guess.
    pub offset_ns: i64,
    /// The guess is wrong by this much at most.
    pub bound_ns: u64,
}

/// A stretch without its drift.
struct Stretch {
    point: OffsetPoint,
    length_ns: u64,
}

impl ClockOffset {
    /// From every request that is known at both ends; `None` without one. If the times agree as they are,
    /// because no way there or back takes less than no time, the clocks are taken for one.
    pub fn estimate(crossings: &[Crossing]) -> Option<ClockOffset> {
        let apart = |c: &Crossing| {
            signed(c.far_received_ns, c.near_sent_ns) < 0 || signed(c.near_received_ns, c.far_sent_ns) < 0
        };
        if crossings.is_empty() {
            return None;
        }
        if !crossings.iter().any(apart) {
            return Some(ClockOffset { requests: crossings.len(), ..ClockOffset::default() });
        }
        let mut ordered = crossings.to_vec();
        ordered.sort_unstable_by_key(|c| c.far_received_ns);
        let most = ordered.len().div_ceil(STRETCHES);
        let (mut stretches, mut contradictory) = (Vec::new(), 0);
        let mut rest = ordered.as_slice();
        while let Some(first) = rest.first() {
            let end_ns = first.far_received_ns.saturating_add(STRETCH_NS);
            let within = rest.partition_point(|c| c.far_received_ns < end_ns);
            let (this, others) = rest.split_at(within.clamp(1, most));
            contradictory += relate(this, &mut stretches);
            rest = others;
        }
        let points = with_drift(&stretches);
        Some(ClockOffset { points, contradictory, requests: crossings.len() })
    }

    /// True if far times have no place on the near clock: the clocks differ, and no stretch gives their offset.
    pub fn is_unknown(&self) -> bool {
        self.points.is_empty() && self.contradictory > 0
    }

    /// A far time on the near clock; between stretches the offset is interpolated.
    pub fn to_near(&self, far_ns: u64) -> u64 {
        let after = self.points.partition_point(|p| p.far_t_ns <= far_ns);
        let offset = match (after.checked_sub(1).map(|i| self.points[i]), self.points.get(after)) {
            (None, None) => 0,
            (Some(only), None) => only.offset_ns,
            (None, Some(only)) => only.offset_ns,
            (Some(a), Some(b)) => {
                let share = (far_ns - a.far_t_ns) as f64 / (b.far_t_ns - a.far_t_ns) as f64;
                a.offset_ns.saturating_add((b.offset_ns.saturating_sub(a.offset_ns) as f64 * share) as i64)
            }
        };
        far_ns.saturating_add_signed(offset.saturating_neg())
    }

    /// The largest error that is possible, in seconds.
    pub fn bound_s(&self) -> f64 {
        self.points.iter().map(|p| p.bound_ns as f64 / 1e9).fold(0.0, f64::max)
    }
}

/// Offset of a stretch, or of its halves if it contradicts itself; returns the number of parts that still do.
fn relate(crossings: &[Crossing], stretches: &mut Vec<Stretch>) -> usize {
    match stretch(crossings) {
        Some(found) => {
            stretches.push(found);
            0
        }
        None if crossings.len() >= 2 * STRETCH_LEAST => {
            let (before, after) = crossings.split_at(crossings.len() / 2);
            relate(before, stretches) + relate(after, stretches)
        }
        None => 1,
    }
}

fn stretch(crossings: &[Crossing]) -> Option<Stretch> {
    let there = crossings.iter().map(|c| signed(c.far_received_ns, c.near_sent_ns)).min()?;
    let back = crossings.iter().map(|c| signed(c.near_received_ns, c.far_sent_ns)).min()?;
    // No offset makes both delays positive: the times are not those of request and answer.
    if there.saturating_add(back) < 0 {
        return None;
    }
    let (first, last) = (crossings.first()?.far_received_ns, crossings.last()?.far_received_ns);
    // -back <= offset <= there: half of the shortest round trip is the uncertainty.
    let point = OffsetPoint {
        far_t_ns: crossings[crossings.len() / 2].far_received_ns,
        offset_ns: there.saturating_sub(back) / 2,
        bound_ns: u64::try_from(there.saturating_add(back) / 2).unwrap_or(0),
    };
    Some(Stretch { point, length_ns: last - first })
}

/// The drift within a stretch adds uncertainty: the shortest delays need not be at its middle. It is taken from one
/// stretch to the next.
fn with_drift(stretches: &[Stretch]) -> Vec<OffsetPoint> {
    let per_ns = |a: &Stretch, b: &Stretch| {
        let apart_ns = b.point.far_t_ns.saturating_sub(a.point.far_t_ns).max(1);
        b.point.offset_ns.abs_diff(a.point.offset_ns) as f64 / apart_ns as f64
    };
    let drifts: Vec<f64> = stretches.windows(2).map(|pair| per_ns(&pair[0], &pair[1])).collect();
    let one = |(n, stretch): (usize, &Stretch)| {
        let around = [n.checked_sub(1).and_then(|n| drifts.get(n)), drifts.get(n)];
        let drift = around.into_iter().flatten().copied().fold(0.0, f64::max);
        let drift_ns = (drift * stretch.length_ns as f64) as u64;
        OffsetPoint { bound_ns: stretch.point.bound_ns.saturating_add(drift_ns), ..stretch.point }
    };
    stretches.iter().enumerate().map(one).collect()
}

fn signed(later_ns: u64, earlier_ns: u64) -> i64 {
    later_ns.cast_signed().wrapping_sub(earlier_ns.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// 10 ms each way and up to 3 ms of waiting; the far clock is `ahead_ns` ahead and drifts by 50 ppm.
    fn crossings(ahead_ns: i64) -> Vec<Crossing> {
        let far = |t: u64| (t + t / 20_000).saturating_add_signed(ahead_ns);
        let one = |i: u64| {
            let sent = 1_000_000 * MS + i * 10 * MS;
            let (waits_there, waits_back) = ((i * 7 % 31) * MS / 10, (i * 11 % 29) * MS / 10);
            let there = sent + 10 * MS + waits_there;
            Crossing {
                near_sent_ns: sent,
                far_received_ns: far(there),
                far_sent_ns: far(there + MS),
                near_received_ns: there + 11 * MS + waits_back,
            }
        };
        (0..10_000).map(one).collect()
    }

    #[test]
    fn the_offset_is_found_within_its_bound_in_spite_of_drift() {
        for ahead_ns in [3_600_000_000_000_i64, -700_000_000_000] {
            let crossings = crossings(ahead_ns);
            let clock = ClockOffset::estimate(&crossings).unwrap();
            assert!((clock.bound_s() - 0.010).abs() < 0.001, "{}", clock.bound_s());
            for crossing in crossings.iter().step_by(97) {
                let near = clock.to_near(crossing.far_received_ns);
                let one_way = near as i64 - crossing.near_sent_ns as i64;
                assert!((9 * MS as i64..15 * MS as i64).contains(&one_way), "{one_way}");
            }
        }
    }

    #[test]
    fn clocks_that_part_by_more_than_a_round_trip_are_followed() {
        // Ten minutes at 50 ppm are 30 ms; the round trip is 100 us.
        let far = |t: u64| 77_000 * MS + t + t / 20_000;
        let one = |i: u64| {
            let sent = 1_000 * MS + i * 6 * MS;
            let (there, back) = (50_000 + i * 7 % 31 * 300, 50_000 + i * 11 % 29 * 300);
            let (far_received, far_sent) = (sent + there, sent + there + 20_000);
            Crossing {
                near_sent_ns: sent,
                far_received_ns: far(far_received),
                far_sent_ns: far(far_sent),
                near_received_ns: far_sent + back,
            }
        };
        let crossings: Vec<Crossing> = (0..100_000).map(one).collect();
        let clock = ClockOffset::estimate(&crossings).unwrap();
        assert_eq!((clock.contradictory, clock.is_unknown()), (0, false));
        assert!(clock.points.len() < 2_000, "{}", clock.points.len());
        let bound_ns = (clock.bound_s() * 1e9) as i64;
        assert!((50_000..200_000).contains(&bound_ns), "{bound_ns}");
        for (i, crossing) in (0..).zip(&crossings).step_by(97) {
            let received = one(i).near_sent_ns + 50_000 + i * 7 % 31 * 300;
            let wrong = clock.to_near(crossing.far_received_ns) as i64 - received as i64;
            assert!(wrong.abs() <= bound_ns, "{wrong} at {i}");
        }
    }

    #[test]
    fn the_bound_has_the_drift_in_it() {
        // The shortest way there is at the beginning of a stretch, the shortest back at its end: 50 ppm ahead or not.
        let crossings = crossings(3_600_000_000_000);
        let clock = ClockOffset::estimate(&crossings).unwrap();
        for crossing in &crossings {
            let true_offset = (crossing.far_received_ns - 3_600_000_000_000) / 20_001 + 3_600_000_000_000;
            let near = clock.to_near(crossing.far_received_ns);
            let wrong = (crossing.far_received_ns as i64 - near as i64 - true_offset as i64).unsigned_abs();
            assert!(wrong <= (clock.bound_s() * 1e9) as u64);
        }
        let half_a_round_trip = clock.points.iter().all(|point| point.bound_ns > 10 * MS);
        assert!(half_a_round_trip, "drift widens what half of the shortest round trip bounds");
    }

    #[test]
    fn times_of_a_file_that_is_not_ours_do_not_overflow() {
        let odd = |near_sent_ns, far_received_ns, far_sent_ns, near_received_ns| Crossing {
            near_sent_ns,
            far_received_ns,
            far_sent_ns,
            near_received_ns,
        };
        let far = 1 << 63;
        let times =
            [odd(0, far - 1, 10, 5), odd(far, 1, far, 0), odd(1, u64::MAX, u64::MAX, 2), odd(5, 4, 3, 2)];
        for set in [&times[..1], &times[1..2], &times[2..3], &times[..]] {
            let clock = ClockOffset::estimate(set).unwrap();
            for t in [0, 1, far, u64::MAX] {
                clock.to_near(t);
            }
            assert!(clock.bound_s() >= 0.0);
        }
    }

    #[test]
    fn one_clock_stays_one_clock() {
        let same: Vec<Crossing> = (1..100)
            .map(|i| Crossing {
                near_sent_ns: i * MS,
                far_received_ns: i * MS + 9 * MS,
                far_sent_ns: i * MS + 9 * MS,
                near_received_ns: i * MS + 12 * MS,
            })
            .collect();
        let clock = ClockOffset::estimate(&same).unwrap();
        assert_eq!((clock.to_near(12_345), clock.bound_s()), (12_345, 0.0));
        assert_eq!(ClockOffset::estimate(&[]), None);
    }

    #[test]
    fn times_that_no_offset_explains_yield_none() {
        let odd = Crossing {
            near_sent_ns: 20 * MS,
            far_received_ns: 10 * MS,
            far_sent_ns: 30 * MS,
            near_received_ns: 25 * MS,
        };
        let clock = ClockOffset::estimate(&[odd]).unwrap();
        assert_eq!((clock.points.as_slice(), clock.to_near(12_345)), ([].as_slice(), 12_345));
        assert!(clock.is_unknown(), "which is not the same as one clock");
        assert!(!ClockOffset::default().is_unknown());
        // A stretch that contradicts itself among others that do not.
        let clock = ClockOffset::estimate(&[crossings(3_600_000_000_000), vec![odd]].concat()).unwrap();
        assert_eq!((clock.contradictory, clock.is_unknown()), (1, false));
    }
}
