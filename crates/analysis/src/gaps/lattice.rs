//! Lattices: starts of groups at the multiples of a period, also after a pause.
//!
//! Only a clock makes them. The statistic is Rayleigh's: the length R of the mean of the unit vectors whose angles are
//! the phases of the starts. N starts without a clock have R of about 1/√N; timestamps with a normal error of a
//! standard deviation s have R = exp(−2π²s²/P²), which is 0.45 for a fifth of the period. The period is first estimated
//! from the times between neighbours, which needs no exact value, and then refined over longer and longer spans: groups
//! without a clock drift, and lose their phase over these.

use std::f64::consts::TAU;

use super::train::{Group, Train};

/// Beginnings that are needed.
const STARTS_MIN: usize = 50;
/// Limit on analysed starts: more do not improve the estimate.
const STARTS_MAX: usize = 6_000;
/// R of a lattice: stamps may be off by a fifth of the period.
const R_MIN: f64 = 0.45;
/// N·R² of a lattice; chance, at the hundred periods that are tried, reaches 10 once in 200 trains.
const SURE_MIN: f64 = 25.0;
/// Least share of the lattice's points with a group: with fewer they are bursts with another cause.
const OCCUPIED_MIN: f64 = 0.25;
/// Of all periods that explain the starts, the longest with an R so near the best is taken.
const NEAR_BEST: f64 = 0.85;
/// Periods that are sought.
const PERIOD_MIN_NS: f64 = 20_000.0;
const PERIOD_MAX_NS: f64 = 12_000_000.0;
/// A stretch in which a period that is off by a hundred-thousandth, as found ones may be, keeps its phase.
const TRACE_NS: f64 = 1e9;
/// Steps between periods that are tried first.
const STEP: f64 = 1.01;
/// Periods that are made exact.
const CANDIDATES: usize = 4;

/// Timer ticks of kernels: 1000, 300, 250 and 100 Hz.
pub(super) const TICKS_NS: [f64; 4] = [1e6, 1e9 / 300.0, 4e6, 1e7];

/// A lattice of group starts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Lattice {
    /// Period.
    pub(super) period_ns: f64,
    /// R.
    pub(super) strength: f64,
    /// Share of its points that have something.
    pub(super) occupied: f64,
}

/// The lattices of a train's groups: the best one, and a tick that lies in it or beside it.
pub(super) fn find(groups: &[Group]) -> Vec<Lattice> {
    let starts: Vec<f64> = starts(groups);
    if starts.len() < STARTS_MIN {
        return Vec::new();
    }
    let apart: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let candidates = candidates(&apart);
    let exact = candidates.iter().filter_map(|period_ns| refined(&starts, *period_ns, 10.0));
    let exact: Vec<Lattice> = exact.collect();
    let longest = longest_of(exact);
    let ticks = TICKS_NS.iter().filter_map(|period_ns| refined(&starts, *period_ns, 300.0));
    // A lattice of 4 ms is one of 1 ms, too: the longest counts here as well.
    let tick = longest_of(ticks.filter(|lattice| is_tick(lattice.period_ns)).collect());
    // A tick found both ways counts once, and a wide lattice includes its divisors.
    let other = |tick: &Lattice| {
        longest.is_none_or(|lattice| {
            let times = lattice.period_ns / tick.period_ns;
            times < 0.998 || (times - times.round()).abs() > 0.002 * times
        })
    };
    longest.into_iter().chain(tick.filter(other)).collect()
}

/// The widest of the lattices that explain the starts nearly as well as the best one.
fn longest_of(lattices: Vec<Lattice>) -> Option<Lattice> {
    let best = lattices.iter().map(|lattice| lattice.strength).fold(0.0, f64::max);
    let near = lattices.into_iter().filter(|lattice| lattice.strength >= NEAR_BEST * best);
    near.max_by(|a, b| a.period_ns.total_cmp(&b.period_ns))
}

/// True for the period of a kernel's tick: two clocks differ by less than three ten-thousandths.
pub(super) fn is_tick(period_ns: f64) -> bool {
    TICKS_NS.iter().any(|tick_ns| (period_ns / tick_ns - 1.0).abs() <= 3e-4)
}

/// True if groups lie, even faintly, on a lattice that was found elsewhere with this strength.
pub(super) fn lie_on(groups: &[Group], period_ns: f64, elsewhere: f64) -> bool {
    let starts = starts(groups);
    let r = strength(&starts, period_ns, starts.last().copied().unwrap_or(0.0) + 1.0);
    let sure = starts.len() as f64 * r * r >= SURE_MIN;
    // Points on every ninth position only belong to a wider lattice, not to this one.
    sure && r >= elsewhere / 2.0 && occupied(&starts, period_ns) >= OCCUPIED_MIN
}

/// R of every packet of a train, within stretches, for a lattice that was found elsewhere.
pub(super) fn trace(train: &Train, period_ns: f64) -> f64 {
    let first_ns = train.events.first().map_or(0, |event| event.t_ns);
    let times: Vec<f64> = train.events.iter().map(|event| (event.t_ns - first_ns) as f64).collect();
    strength(&times, period_ns, TRACE_NS)
}

fn starts(groups: &[Group]) -> Vec<f64> {
    let first = groups.first().map_or(0, |group| group.start_ns);
    groups.iter().take(STARTS_MAX).map(|group| (group.start_ns - first) as f64).collect()
}

/// Periods that the times between neighbours are multiples of, roughly.
fn candidates(apart: &[f64]) -> Vec<f64> {
    let some = &apart[..apart.len().min(1_500)];
    let mut ordered = some.to_vec();
    let (_, median, _) = ordered.select_nth_unstable_by(some.len() / 2, f64::total_cmp);
    // A period longer than the gap that it explains explains every gap.
    let longest = (*median * 1.1).min(PERIOD_MAX_NS);
    let mut tried: Vec<(f64, f64)> = Vec::new();
    let mut period = PERIOD_MIN_NS;
    while period <= longest {
        tried.push((period, multiples(some, period)));
        period *= STEP;
    }
    let r = |at: usize| tried.get(at).map_or(0.0, |(_, r)| *r);
    let mut peaks: Vec<(f64, f64)> = (0..tried.len())
        .filter(|at| r(*at) >= R_MIN / 2.0 && r(*at) >= r(at + 1) && (*at == 0 || r(*at) > r(at - 1)))
        .map(|at| tried[at])
        .collect();
    peaks.sort_unstable_by(|a, b| b.1.total_cmp(&a.1));
    let best = peaks.first().map_or(0.0, |(_, r)| *r);
    // Of lattices that nest, the wide ones are wanted.
    peaks.retain(|(_, r)| *r >= NEAR_BEST * best);
    peaks.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    peaks.truncate(CANDIDATES);
    peaks.into_iter().map(|(period, _)| period).collect()
}

/// Refines a period that is known well enough for so many periods, and measures its strength.
fn refined(starts: &[f64], period_ns: f64, mut periods: f64) -> Option<Lattice> {
    let total = starts.last()? + 1.0;
    let (mut period, mut span) = (period_ns, 0.0);
    while span < total {
        span = (period * periods).min(total);
        // Known to within a tenth of a turn over the last span, which was a third of this one.
        let r;
        (period, r) = best(starts, period, span, 0.3 * period / span);
        if r < R_MIN {
            return None;
        }
        periods *= 3.0;
    }
    let (period, r) = best(starts, period, span, 0.05 * period / span);
    let occupied = occupied(starts, period);
    let sure = starts.len() as f64 * r * r >= SURE_MIN;
    (sure && occupied >= OCCUPIED_MIN).then_some(Lattice { period_ns: period, strength: r, occupied })
}

/// Best of nine periods that differ from one by up to `unsure`, and its R.
fn best(starts: &[f64], period: f64, span: f64, unsure: f64) -> (f64, f64) {
    let tried = (-4..=4).map(|step| period * (1.0 + unsure * f64::from(step) / 4.0));
    let found = tried.map(|period| (period, strength(starts, period, span)));
    found.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((period, 0.0))
}

/// R within spans of this length, on average: a span keeps no phase from the one before.
fn strength(starts: &[f64], period_ns: f64, span: f64) -> f64 {
    let (mut sum, mut from) = (0.0, 0);
    while from < starts.len() {
        let end = starts[from] + span;
        let to = from + starts[from..].partition_point(|start| *start < end);
        let within = &starts[from..to];
        sum += resultant(within.iter().map(|start| start / period_ns)) * within.len() as f64;
        from = to;
    }
    sum / starts.len().max(1) as f64
}

/// Closeness of times to the multiples of a period, from 1 down to −1: the mean cosine. (Equal times have a resultant
/// of 1 at any period.)
fn multiples(times: &[f64], period: f64) -> f64 {
    times.iter().map(|time| ((time / period).fract() * TAU).cos()).sum::<f64>() / times.len() as f64
}

/// Length of the mean unit vector of angles given in turns.
fn resultant(turns: impl Iterator<Item = f64>) -> f64 {
    let (mut x, mut y, mut n) = (0.0, 0.0, 0.0);
    for turn in turns {
        let (sin, cos) = (turn.fract() * TAU).sin_cos();
        x += cos;
        y += sin;
        n += 1.0;
    }
    if n == 0.0 { 0.0 } else { f64::hypot(x, y) / n }
}

/// Share of the lattice's points from the first to the last that have a beginning; a pause of 50 points does not count.
fn occupied(starts: &[f64], period_ns: f64) -> f64 {
    let (mut points, mut taken) = (1.0, 1.0);
    for pair in starts.windows(2) {
        let steps = ((pair[1] - pair[0]) / period_ns).round();
        if steps >= 1.0 {
            taken += 1.0;
            points += if steps > 50.0 { 1.0 } else { steps };
        }
    }
    taken / points
}

#[cfg(test)]
mod tests {
    use super::super::packet::{Kind, Passage, Tap};
    use super::*;

    fn groups(starts: impl Iterator<Item = f64>) -> Vec<Group> {
        starts.map(|t| Group { start_ns: t as u64, events: 1, delay_ns: None }).collect()
    }

    #[test]
    fn a_trace_says_how_many_are_on_a_lattice() {
        let trace_of = |times: Vec<u64>| {
            let passage =
                |t_ns| Passage { sent_ns: t_ns, arrived_ns: None, bytes: 1500, segments: 1, unseen_ns: 0 };
            let passages: Vec<Passage> = times.into_iter().map(passage).collect();
            trace(&Train::of(&passages, Kind::Acks, Tap::Sent), 500_000.0)
        };
        let even = (0..50_000).map(|n| n * 36_000);
        let clocked = (0..3_600).map(|n| 7 + n * 500_000);
        assert!(trace_of(even.clone().collect()) < 0.01);
        assert!(trace_of(clocked.clone().collect()) > 0.99);
        // One in fifteen.
        let found = trace_of(even.chain(clocked).collect());
        assert!((found - 3_600.0 / 53_600.0).abs() < 0.01, "{found}");
        assert_eq!(trace_of(Vec::new()), 0.0);
    }

    /// Numbers from 0 to 1 that look like chance.
    fn chance(n: u64) -> f64 {
        let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    #[test]
    fn a_clock_is_found_through_pauses_and_blurred_stamps() {
        let mut at = 0.0;
        let on = |n: u64| {
            at += 125_000.0 * (1.0 + (chance(n) * 3.0).floor());
            // Four throws make nearly a normal error, here of 18 µs.
            at + (0..4).map(|k| chance(n * 4 + k + 1_000_000)).sum::<f64>() * 31_000.0
        };
        let found = find(&groups((0..4_000).map(on)));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!((found[0].period_ns / 125_000.0 - 1.0).abs() < 1e-5, "{found:?}");
        assert!(found[0].strength > 0.5 && (found[0].occupied - 0.5).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn what_drifts_and_what_comes_by_chance_have_none() {
        let mut at = 0.0;
        let drifting = |n: u64| {
            at += 100_000.0 + chance(n) * 25_000.0;
            at
        };
        assert_eq!(find(&groups((0..5_000).map(drifting))), []);
        let mut at = 0.0;
        let exponential = |n: u64| {
            at -= 100_000.0 * (1.0 - chance(n)).ln();
            at
        };
        assert_eq!(find(&groups((0..5_000).map(exponential))), []);
    }

    #[test]
    fn the_longest_period_counts_and_a_tick_stands_beside_it() {
        let found = find(&groups((0..900).map(|n| f64::from(n) * 4e6)));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!((found[0].period_ns / 4e6 - 1.0).abs() < 1e-5, "{found:?}");
        // Three bunches of a merging line in every tick.
        let bunches = (0..900).flat_map(|n| [0.0, 125e3, 250e3].map(|t| t + f64::from(n) * 1e6));
        let found: Vec<f64> =
            find(&groups(bunches)).iter().map(|lattice| (lattice.period_ns / 1e3).round()).collect();
        assert_eq!(found, [125.0, 1_000.0]);
    }
}
