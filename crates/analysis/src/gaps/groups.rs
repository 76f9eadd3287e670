//! Groups without a clock: packets that arrive together, with a least time between groups.
//!
//! A network card with interrupt coalescing makes them: the next group begins that time after the last, plus the
//! arrival time of the next packet. So the times between groups have a floor, and many lie near it; others are pauses.
//! Bursts by chance have no floor: of exponential times, 2 % are between the twentieth and a third more.

use super::train::{Group, Train};

/// Least share of packets in groups.
const TOGETHER_MIN: f64 = 0.5;
/// Times between groups up to this much above the floor are near it …
const NEAR: f64 = 1.35;
/// … and that many of them are: half of them if a card waits twice as long as packets that chance brings take to come,
/// and there may be a pause for every two.
const NEAR_MIN: f64 = 0.35;
/// Quantile that counts as the floor: one time in twenty may be shorter, as timestamps are inexact.
const FLOOR: f64 = 0.05;
/// Least number of groups.
const GROUPS_MIN: usize = 64;
/// Shorter times are scheduling delays of a busy machine, not of a network card.
const PERIOD_MIN_NS: f64 = 8_000.0;

/// Groups and the floor under the times between them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Groups {
    /// Floor of the times between groups.
    pub(super) period_ns: f64,
    /// Share of packets in groups.
    pub(super) share: f64,
}

/// The groups of a train, if they have a floor.
pub(super) fn find(train: &Train) -> Option<Groups> {
    let groups = train.groups(|_| 0);
    let share = together(&groups);
    if groups.len() < GROUPS_MIN || share < TOGETHER_MIN {
        return None;
    }
    let mut apart: Vec<u64> = groups.windows(2).map(|pair| pair[1].start_ns - pair[0].start_ns).collect();
    apart.sort_unstable();
    let at = |share: f64| apart[(apart.len() as f64 * share) as usize] as f64;
    let floor = at(FLOOR);
    let near = apart.partition_point(|t_ns| *t_ns as f64 <= floor * NEAR) as f64 / apart.len() as f64;
    (floor >= PERIOD_MIN_NS && near >= NEAR_MIN).then_some(Groups { period_ns: floor, share })
}

/// Share of events that are in groups of two or more.
pub(super) fn together(groups: &[Group]) -> f64 {
    let all: u64 = groups.iter().map(|group| u64::from(group.events)).sum();
    let many: u64 = groups.iter().filter(|g| g.events > 1).map(|g| u64::from(g.events)).sum();
    many as f64 / all.max(1) as f64
}
