//! Runs a plan: every cell as one `farlun wan` command, its tables into the run directory, then the
//! figures, the checks and the report.
//!
//! The commands are the public ones, so a user can repeat any cell by copying its line. Nothing is
//! measured here (the commands do that) and nothing is computed (that is `analysis`).

mod attempt;
mod check;
mod command;
mod directory;
mod error;
mod lab;
mod outlook;
mod progress;
mod schedule;
mod session;

pub(crate) use command::Parts;
pub use command::quoted;
pub(crate) use directory::Lock;
pub use error::LabError;
pub use lab::{Lab, Order, Outcome, begun};
pub use outlook::{MachineUse, look};
pub(crate) use outlook::{Streak, what_to_do};
pub use progress::{Countdown, Progress, Silent, Step};
pub use schedule::expected_time;
