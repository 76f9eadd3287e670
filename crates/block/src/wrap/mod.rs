//! Wrappers of a device: artificial latency and faults, for tests and experiments.

mod chance;
mod delay;
mod fault;

pub use delay::{Delay, Delays};
pub use fault::{FaultRule, FaultStore};
