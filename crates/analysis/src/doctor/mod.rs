//! The doctor's survey: facts about a load, from the tables of a run and nothing else; and those of a load in steps.
//!
//! [`survey`] reads them; `diagnosis::judge` reaches a diagnosis from them, `diagnosis::steps::diagnose` from those of several
//! steps ([`steps`]). `docs/reference/doctor.md` explains both.

pub mod steps;
mod survey;

pub use survey::{Question, survey};
