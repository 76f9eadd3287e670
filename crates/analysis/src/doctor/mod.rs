//! The doctor: what limits a load, from what was measured of it and nothing else.

mod facts;
mod limiter;
mod verdict;

pub use facts::{Agreed, Ends, Facts, Outstanding, Receiver, Sender, Stages};
pub use limiter::{LIMITERS, Limiter};
pub use verdict::{Diagnosis, Evidence, Performance, Verdict};
