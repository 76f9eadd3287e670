//! Even spacing: gaps that are so many nanoseconds for each byte, as a line makes them that is never idle.
//!
//! A line cannot send faster than it does, so its gaps have a floor and most of them lie on it. Other gaps do not:
//! evenly spread ones of a mean M have 3 % of themselves within 4 % of any value, exponential ones 1.5 %.

use super::packet::LEAST;
use super::train::Train;

/// Values that are taken for one: wide enough for clocks that count in tens of nanoseconds at 10 Gb/s.
const WIDTH: f64 = 1.04;
/// Share of the gaps between single packets that lie on the floor: ten times the share by chance.
const SHARE_MIN: f64 = 0.35;
/// Share of them that may lie below it: reordering and stamps that run backwards.
const BELOW_MAX: f64 = 0.10;
/// Least share of gaps between single packets; only these carry information.
const SINGLE_MIN: f64 = 0.25;

/// An even spacing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Spacing {
    /// Time for each byte.
    pub(super) ns_per_byte: f64,
    /// Median gap on the floor, for each packet.
    pub(super) gap_ns: f64,
    /// Share of all gaps that lie on it.
    pub(super) share: f64,
}

/// The even spacing of a train, if it has one.
pub(super) fn find(train: &Train) -> Option<Spacing> {
    let mut single = single(train);
    let gaps = train.events.len().saturating_sub(1);
    if (single.len() as f64) < SINGLE_MIN * gaps as f64 || single.len() < LEAST / 2 {
        return None;
    }
    single.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (mut from, mut best) = (0, 0..0);
    for to in 0..single.len() {
        while single[to].0 > single[from].0 * WIDTH {
            from += 1;
        }
        if to + 1 - from > best.len() {
            best = from..to + 1;
        }
    }
    let all = single.len() as f64;
    let middle = single[best.start + best.len() / 2];
    let found = best.len() as f64 / all >= SHARE_MIN && best.start as f64 / all <= BELOW_MAX;
    found.then(|| Spacing { ns_per_byte: middle.0, gap_ns: middle.1, share: best.len() as f64 / gaps as f64 })
}

/// Share of a train's gaps that have so much time for each byte, within 5 %.
pub(super) fn share_at(train: &Train, ns_per_byte: f64) -> f64 {
    let on = single(train).iter().filter(|(x, _)| (x / ns_per_byte - 1.0).abs() <= 0.05).count();
    on as f64 / (train.events.len().max(2) - 1) as f64
}

/// Time for each byte, and for each packet, before events outside of groups: gaps inside and right behind a group have
/// the group's cause.
fn single(train: &Train) -> Vec<(f64, f64)> {
    let gaps: Vec<u64> = train.gaps().collect();
    let apart = |at: usize| gaps.get(at).is_none_or(|gap_ns| *gap_ns > train.together_ns);
    let mut found = Vec::new();
    for (at, gap_ns) in gaps.iter().enumerate() {
        let alone = apart(at) && apart(at + 1) && (at == 0 || apart(at - 1));
        let bytes = train.events[at + 1].bytes;
        if alone && bytes > 0 {
            let packets = f64::from(train.events[at + 1].segments);
            found.push((*gap_ns as f64 / f64::from(bytes), *gap_ns as f64 / packets));
        }
    }
    found
}
