//! Rules from facts to a diagnosis.
//!
//! `concurrency`, `tcp`, `latency` and `capacity` find limiters, each with its effect on the load. `model` predicts the
//! load without one of them, `judge` orders the verdicts. `docs/reference/doctor.md` explains the method.

mod capacity;
mod concurrency;
mod judge;
mod latency;
mod model;
mod tcp;

pub use judge::judge;
