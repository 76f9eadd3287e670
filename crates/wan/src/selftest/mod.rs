//! The emulator measures itself: how exact are its delays, its rates and its losses, and how much does it carry?
//!
//! End to end and with the path's own table as the prediction: a probe's time from one device to the other host, minus
//! what the model gave it, is what emulating added. Everything runs in this process over paths of its own. What the
//! bounds are for is an otherwise idle machine, so that other work on it makes a figure invalid, never wrong.

mod capacity;
mod check;
mod delay;
mod drops;
mod rate;
mod rig;

use serde::Serialize;

pub use check::Check;

use crate::WanError;
use check::Checks;

/// How much time to take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// A minute.
    Full,
    /// A quarter of a minute: fewer rates, shorter measurements.
    Quick,
}

/// What the emulator is like on this machine.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SelfTest {
    /// Every figure with its bound.
    pub checks: Vec<Check>,
    /// Whether every figure could be taken.
    pub valid: bool,
    /// Why not: a sentence each.
    pub reasons: Vec<String>,
    /// Which bounds the added delay has: `real-time` if the kernel gave the emulator that priority, as it does to root,
    /// `ordinary` if not.
    pub bounds: &'static str,
    /// Whether the kernel gave the emulator real-time priority.
    pub realtime: bool,
    /// Processors that other processes kept busy, in the measurement that they disturbed most.
    pub others_busy: f64,
    /// What they may keep busy before a figure is invalid.
    pub others_busy_max: f64,
    /// Processors of this machine.
    pub cpus: usize,
}

impl SelfTest {
    /// Whether every figure is within its bound.
    pub fn ok(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }
}

/// Measures everything; `progress` is told what comes next.
pub fn selftest(effort: Effort, progress: &mut dyn FnMut(&str)) -> Result<SelfTest, WanError> {
    let mut checks = Checks::default();
    progress("delay");
    delay::measure(effort, &mut checks)?;
    for rate in rate::rates(effort) {
        progress(&format!("rate, {}", rate.rate));
        rate::measure(rate, &mut checks)?;
    }
    progress("loss and policer");
    drops::measure(effort, &mut checks)?;
    for kind in capacity::KINDS {
        progress(kind.name);
        capacity::measure(&kind, effort, &mut checks)?;
    }
    Ok(checks.finish())
}
