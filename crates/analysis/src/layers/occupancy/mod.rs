//! Requests inside a layer over time: counts, rates, residence by Little's law, the limiting layer, device queues.

pub(super) mod device;
pub(super) mod flight;
pub(super) mod gate;
mod outline;
pub(super) mod rates;
pub(super) mod residence;
