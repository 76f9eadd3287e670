//! Figures of one load: throughput, latency, turnaround, ramp, steadiness; loads of several initiators together.

pub(crate) mod arrivals;
pub(crate) mod counter;
pub(crate) mod initiators;
pub mod latency;
pub mod ramp;
pub(crate) mod steadiness;
pub mod throughput;
pub mod turnaround;
