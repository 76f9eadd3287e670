//! The doctor's survey: facts about a load, from the tables of a run and nothing else.
//!
//! [`survey`] reads them; `diagnosis::judge` reaches a diagnosis from them. `docs/doctor.md` explains both.

mod survey;

pub use survey::{Question, survey};
