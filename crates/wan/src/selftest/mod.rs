//! Self-test of the emulator: accuracy of delay, rate and loss, and capacity.
//!
//! End to end, with the path's own table as the prediction: the time of a probe from one device to the other host,
//! minus its delay in the model, is the error. Everything runs in this process over paths of its own. The bounds hold
//! for an otherwise idle machine: other load makes a figure invalid, never wrong.

mod capacity;
mod check;
mod delay;
mod drops;
mod effort;
mod rate;
mod rig;

pub use check::{Check, SelfTest};
pub use effort::Effort;

use crate::WanError;
use check::Checks;

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
