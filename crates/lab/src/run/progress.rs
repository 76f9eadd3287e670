//! What a run tells while it goes on. How it is shown is up to the command line.

use std::time::Duration;

/// One attempt at one cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Place in the order of the run, from 1.
    pub number: usize,
    /// How many there are.
    pub of: usize,
    /// The cell in words: `read at delay 8ms`.
    pub words: String,
    /// Repeat, from 1.
    pub repeat: u32,
    /// Attempt, from 1; more than one if the earlier ones were not valid.
    pub attempt: u32,
    /// How long the cell should take.
    pub expected: Duration,
    /// How long it and all after it should take.
    pub left: Duration,
}

/// Is told how a run goes on.
pub trait Progress {
    /// An attempt begins.
    fn begins(&mut self, step: &Step);
    /// An attempt ended; `trouble` says why it yields no figures.
    fn ended(&mut self, step: &Step, trouble: Option<&str>);
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begins(&mut self, _step: &Step) {}
    fn ended(&mut self, _step: &Step, _trouble: Option<&str>) {}
}
