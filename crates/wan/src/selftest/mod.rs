//! Self-test of the emulator: accuracy of delay, rate and loss, and capacity.
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

/// Duration of the self-test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// A minute.
    Full,
    /// A quarter of a minute: fewer rates, shorter measurements.
    Quick,
}

/// Accuracy and capacity of the emulator on this machine.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SelfTest {
    /// Every figure with its bound.
    pub checks: Vec<Check>,
    /// True if every measurement is valid.
    pub valid: bool,
    /// Reasons for invalid measurements, one sentence each.
    pub reasons: Vec<String>,
    /// Bounds of the added delay: `real-time` if the kernel granted that priority to the emulator, as it does to root,
    /// otherwise `ordinary`.
    pub bounds: &'static str,
    /// True if the kernel granted the emulator real-time priority.
    pub realtime: bool,
    /// CPUs used by other processes during the most disturbed measurement.
    pub others_busy: f64,
    /// Upper limit of `others_busy` for a valid measurement.
    pub others_busy_max: f64,
    /// Processors of this machine.
    pub cpus: usize,
}

impl SelfTest {
    /// Returns true if every value keeps its bound.
    pub fn ok(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }
}

/// Runs all measurements; `progress` receives the name of each before it starts.
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
