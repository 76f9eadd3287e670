//! The doctor's loop — measure, name the limiter, fix it, measure again — and its proof: limiters that are put into a
//! load for it to find.
//!
//! [`analysis::doctor`] reads facts from tables alone, [`diagnosis`] judges them, and farlun's own commands measure; here
//! is only the order of runs and the changes in between.

mod asked;
mod knob;
mod matrix;
mod record;
mod treat;

pub use knob::Caller;
pub use matrix::{Cases, expected, judged_again};
pub use record::{Ran, Record};
pub use treat::{Change, Ending, Examined, Patient, Step, Treatment, treat};

pub(crate) use matrix::run as run_matrix;
