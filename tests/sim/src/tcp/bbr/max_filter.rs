//! Maximum of the samples of the last rounds.

use std::collections::VecDeque;

/// Samples that may still be the maximum, in order of age and so of falling value.
#[derive(Clone, Default, Debug)]
pub(super) struct MaxFilter {
    samples: VecDeque<(u64, f64)>,
}

impl MaxFilter {
    /// Adds a sample of `round` and forgets those older than `rounds`.
    pub(super) fn add(&mut self, round: u64, rounds: u64, value: f64) {
        while self.samples.back().is_some_and(|(_, last)| *last <= value) {
            self.samples.pop_back();
        }
        self.samples.push_back((round, value));
        while self.samples.front().is_some_and(|(old, _)| old + rounds < round) {
            self.samples.pop_front();
        }
    }

    pub(super) fn max(&self) -> f64 {
        self.samples.front().map_or(0.0, |(_, value)| *value)
    }
}
