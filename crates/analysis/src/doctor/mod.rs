//! The doctor: what limits a load, from what was measured of it and nothing else.
//!
//! [`survey`] takes [`Facts`] from the tables of a run, [`judge`] reaches a [`Diagnosis`] from facts. How it does is
//! told in `docs/doctor.md`; what a limiter is relieved with is in [`remedy`].

mod answers;
mod ends;
mod facts;
mod judge;
mod limiter;
mod model;
mod places;
pub mod remedy;
mod survey;
mod tcp;
mod verdict;

pub use facts::{Agreed, Ends, Facts, Outstanding, Receiver, Sender, Stages};
pub use judge::judge;
pub use limiter::{LIMITERS, Limiter};
pub use survey::{Question, survey};
pub use verdict::{Diagnosis, Evidence, Performance, Verdict};
