//! The doctor: what limits a load, from what was measured of it and nothing else.

mod limiter;
mod verdict;

pub use limiter::{LIMITERS, Limiter};
pub use verdict::{Diagnosis, Evidence, Performance, Verdict};
