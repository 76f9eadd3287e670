//! Share of scenes in which the injected causes are found.

use std::ops::RangeInclusive;

use analysis::gaps::Cause;

use crate::scene::{Injected, Scene};

/// Share of scenes in which exactly the injected causes must be found.
pub(crate) const RIGHT_MIN: f64 = 0.95;

/// Results of one row of scenes.
pub(crate) struct Tally {
    pub(crate) row: Injected,
    /// Scenes in which exactly that was named.
    pub(crate) right: u64,
    /// In how many each cause was named, in the order of [`Cause`].
    pub(crate) named: [u64; 5],
    /// By how much a period differed from the one that was put in, at most.
    pub(crate) off: f64,
    /// Seeds of the others.
    pub(crate) wrong: Vec<u64>,
}

/// Results of all rows.
#[derive(Default)]
pub(crate) struct Sum {
    /// Scenes with something in them, and those of them that were right.
    pub(crate) injected: u64,
    pub(crate) right: u64,
    /// Scenes with nothing in them, and those of them in which something was named.
    pub(crate) clean: u64,
    pub(crate) invented: u64,
}

impl Tally {
    /// Plays a row with each of these seeds.
    pub(crate) fn of(row: Injected, seeds: RangeInclusive<u64>) -> Tally {
        let mut tally = Tally { row, right: 0, named: [0; 5], off: 0.0, wrong: Vec::new() };
        for seed in seeds {
            let scene = Scene::new(row, seed);
            let found = scene.found();
            let mut names: Vec<Cause> = found.iter().map(|(cause, _)| *cause).collect();
            names.iter().for_each(|cause| tally.named[*cause as usize] += 1);
            names.sort_unstable();
            match names == scene.truth() {
                true => tally.right += 1,
                false => tally.wrong.push(seed),
            }
            for (cause, period_s) in found {
                let off = scene.period_s(cause).map(|true_s| (period_s / true_s - 1.0).abs());
                tally.off = tally.off.max(off.unwrap_or(0.0));
            }
        }
        tally
    }
}

impl Sum {
    pub(crate) fn add(&mut self, tally: &Tally) {
        let (right, wrong) = (tally.right, tally.wrong.len() as u64);
        match tally.row.is_clean() {
            true => (self.clean, self.invented) = (self.clean + right + wrong, self.invented + wrong),
            false => (self.injected, self.right) = (self.injected + right + wrong, self.right + right),
        }
    }

    /// True if that is enough.
    pub(crate) fn is_good(&self) -> bool {
        self.invented == 0 && self.right as f64 >= RIGHT_MIN * self.injected as f64
    }
}
