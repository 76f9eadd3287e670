//! Limits of a stream: those of the hosts, the rates that they allow before a run, and the limiter found after it.

pub(crate) mod ceiling;
pub(crate) mod host;
pub(crate) mod limiter;
