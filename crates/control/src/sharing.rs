//! How those whom one process serves, or receives from, share a line and the ring of a device.

pub(crate) mod arrival;
pub(crate) mod bottleneck;
pub(crate) mod claimant;
pub(crate) mod line;
pub(crate) mod meeting;
pub(crate) mod parts;
pub(crate) mod ring;
pub(crate) mod share;
