//! The doctor's loop (measure, name the limiter, relieve it, measure again) and its validation by injected limiters.
//!
//! [`analysis::doctor`] reads facts from tables alone, [`diagnosis`] judges them, and farlun's own commands measure;
//! this module has only the order of runs and the changes in between.

mod diagnose;
mod knob;
mod matrix;
mod record;
mod treat;

pub use knob::Caller;
pub use matrix::{Cases, expected, judged_again};
pub use record::{Ran, Record};
pub use treat::{Change, Ending, Examined, Patient, Step, Treatment, treat};

pub(crate) use matrix::run as run_matrix;
