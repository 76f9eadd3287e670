//! Diagnosis of a storage path: limiters, evidence, remedies and predicted gains, and the rules that derive them.
//!
//! [`Facts`] describe a load in plain numbers, whatever measured it. [`judge`] turns them into a [`Diagnosis`].
//! `farlun doctor`, `analyze`, `top` and `stream` share the names of [`Limiter`]. Nothing is measured or read here;
//! `docs/reference/doctor.md` explains the rules, `docs/reference/limiters.md` lists the limiters.

pub mod facts;
mod limiter;
mod performance;
pub mod remedy;
mod rules;
pub mod steps;
mod verdict;

pub use facts::Facts;
pub use limiter::{Instrument, LIMITERS, Limiter, LimiterLayer};
pub use performance::Performance;
pub use rules::judge;
pub use verdict::{Certainty, Diagnosis, Evidence, Verdict};
