//! Plans: what to run, what to expect of it, and the run directory that comes of it.
//!
//! [`Source::find`] and [`Plan::parse`] read a plan (format: `docs/reference/plans.md`), [`Lab::run`] runs one. Every
//! cell is a child process with a command line that a user could type; this crate opens no sockets, makes
//! no namespaces and computes no figures. [`replay`] asks a policy about a run that was recorded.

pub mod doctor;
mod exact;
mod plan;
pub mod replay;
mod run;

pub use plan::*;
pub use run::*;
