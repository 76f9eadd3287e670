//! Order of the cells of a run, and its expected time.
//!
//! Repeats are interleaved, all cells once before any cell again, so that drift of the machine does not favour the
//! first cells. Within a repeat the seed decides.

use std::time::Duration;

use crate::plan::{Cell, LoadKind};

/// Namespaces, devices, processes, their end.
const SET_UP: Duration = Duration::from_millis(600);
/// Connecting, logging in, asking for the capacity, the last requests and logging out.
const ROUND_TRIPS: u32 = 8;

/// Cell indices with repeat numbers (from 1), in the order of the run.
pub(in crate::run) fn order(cells: usize, repeats: u32, seed: u64) -> Vec<(usize, u32)> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut order = Vec::with_capacity(cells * repeats as usize);
    for repeat in 1..=repeats {
        let mut round: Vec<usize> = (0..cells).collect();
        random.shuffle(&mut round);
        order.extend(round.into_iter().map(|cell| (cell, repeat)));
    }
    order
}

/// Moves cells that other rates depend on to the front of their round; the order is stable otherwise.
pub(in crate::run) fn followed_first(steps: &mut [(usize, u32)], is_followed: impl Fn(usize) -> bool) {
    steps.sort_by_key(|(cell, repeat)| (*repeat, !is_followed(*cell)));
}

/// Expected time of a cell, with its setup.
pub fn expected_time(cell: &Cell) -> Duration {
    let rtt = cell.path.rtt();
    let before = match &cell.load.kind {
        LoadKind::Bench(bench) => bench.warm_bulk.map_or(Duration::ZERO, |time| time.on(rtt)),
        LoadKind::Command(command) => command.before.on(rtt),
        LoadKind::Stream { .. } => Duration::ZERO,
    };
    SET_UP + rtt * ROUND_TRIPS + before + cell.load.time_on(&cell.path)
}

/// Time limit of a cell: beyond it a process hangs.
pub(in crate::run) fn time_limit(cell: &Cell) -> Duration {
    expected_time(cell) * 3 + Duration::from_secs(60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_once_before_any_again() {
        let order = order(7, 3, 1);
        for (repeat, round) in (1..).zip(order.chunks(7)) {
            let mut cells: Vec<usize> = round.iter().map(|(cell, _)| *cell).collect();
            assert!(round.iter().all(|(_, r)| *r == repeat));
            cells.sort_unstable();
            assert_eq!(cells, [0, 1, 2, 3, 4, 5, 6]);
        }
        assert_eq!(order, super::order(7, 3, 1), "the seed decides");
        assert_ne!(order, super::order(7, 3, 2));
        let mut sorted = order.clone();
        followed_first(&mut sorted, |cell| cell == 4);
        for (round, before) in sorted.chunks(7).zip(order.chunks(7)) {
            let rest: Vec<_> = before.iter().filter(|(cell, _)| *cell != 4).collect();
            assert_eq!((round[0].0, round[1..].iter().collect::<Vec<_>>()), (4, rest));
        }
    }
}
