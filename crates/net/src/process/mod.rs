//! Processes and threads: children, CPU time, resource limits, scheduling.

pub mod child;
pub mod cpu_time;
pub mod limits;
pub mod scheduling;
