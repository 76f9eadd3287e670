//! The two ends of a run and the messages between them.

pub(crate) mod far;
mod message;
pub(crate) mod near;
