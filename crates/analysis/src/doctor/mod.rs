//! Facts about a load for the doctor, from the tables of a run and nothing else; and those of a load in steps.
//!
//! [`survey`] reads them; `diagnosis::judge` derives the diagnosis, `diagnosis::steps::diagnose` that of several steps
//! ([`steps`]). `docs/reference/commands/doctor.md` explains both.

pub mod steps;
mod survey;

pub use survey::{Question, survey};
