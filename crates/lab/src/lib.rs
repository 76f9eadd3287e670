//! Plans: loads, expectations, and the run directory with their results.
//!
//! [`Source::find`] and [`Plan::parse`] read a plan (format: `docs/reference/plans.md`), [`Lab::run`] runs one. Every cell is a
//! child process with a command line that a user could type; this crate opens no sockets, makes no namespaces and
//! computes no figures. [`replay`] shows a recorded run to a policy.

pub mod doctor;
mod exact;
mod plan;
pub mod replay;
mod run;

pub use plan::*;
pub use run::*;
