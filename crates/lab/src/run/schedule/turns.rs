//! Queue of attempts: cells in order, then those again that were invalid.
//!
//! A disturbance of an emulated path lasts for minutes: an immediate retry meets it again and uses up the attempts.
//! Only cells that other rates depend on are retried at once.

use std::collections::VecDeque;

/// Attempts at a cell. Where the machine under a virtual one disturbs one in four, a plan of sixty cells needs five to be
/// whole nineteen times in twenty.
pub(in crate::run) const MAX_ATTEMPTS: u32 = 5;

/// One attempt at one cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::run) struct Turn {
    /// The cell's index in the plan.
    pub(in crate::run) index: usize,
    /// Repeat, from 1.
    pub(in crate::run) repeat: u32,
    /// Its place in the order of the run, from 1.
    pub(in crate::run) number: usize,
    /// Attempt, from 1.
    pub(in crate::run) attempt: u32,
}

/// Queue of attempts.
#[derive(Debug)]
pub(in crate::run) struct Turns {
    waiting: VecDeque<Turn>,
}

impl Turns {
    /// Cells with their repeats in the order of the run, of which `done` are there already.
    pub(in crate::run) fn new(missing: &[(usize, u32)], done: usize) -> Turns {
        let turn = |(place, &(index, repeat))| Turn { index, repeat, number: done + place + 1, attempt: 1 };
        Turns { waiting: missing.iter().enumerate().map(turn).collect() }
    }

    /// Takes the next attempt.
    pub(in crate::run) fn take(&mut self) -> Option<Turn> {
        self.waiting.pop_front()
    }

    /// Queues another attempt, first if other rates depend on it; false if none is left.
    pub(in crate::run) fn again(&mut self, turn: Turn, is_followed: bool) -> bool {
        let next = Turn { attempt: turn.attempt + 1, ..turn };
        match (turn.attempt < MAX_ATTEMPTS, is_followed) {
            (false, _) => return false,
            (true, true) => self.waiting.push_front(next),
            (true, false) => self.waiting.push_back(next),
        }
        true
    }

    /// The cells still to be run, as indices.
    pub(in crate::run) fn indices(&self) -> impl Iterator<Item = usize> {
        self.waiting.iter().map(|turn| turn.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cell and attempt in the order of a run in which a cell is valid from some attempt on.
    fn run(valid_from: &[u32], followed: usize) -> Vec<(usize, u32)> {
        let cells: Vec<(usize, u32)> = (0..valid_from.len()).map(|index| (index, 1)).collect();
        let (mut turns, mut seen) = (Turns::new(&cells, 2), Vec::new());
        while let Some(turn) = turns.take() {
            assert_eq!(turn.number, turn.index + 3, "it keeps its place");
            seen.push((turn.index, turn.attempt));
            if turn.attempt < valid_from[turn.index] {
                turns.again(turn, turn.index == followed);
            }
        }
        seen
    }

    #[test]
    fn another_attempt_comes_after_all_others_unless_they_wait_for_it() {
        let seen = run(&[2, 3, 1, 2], 0);
        assert_eq!(seen, [(0, 1), (0, 2), (1, 1), (2, 1), (3, 1), (1, 2), (3, 2), (1, 3)]);
    }

    #[test]
    fn attempts_end() {
        assert_eq!(run(&[u32::MAX], 7), [1, 2, 3, 4, 5].map(|attempt| (0, attempt)));
        assert_eq!(run(&[u32::MAX, 1], 0).len(), 6);
    }
}
