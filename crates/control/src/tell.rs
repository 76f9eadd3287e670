//! What the other end is told of a connection, and when.

pub(crate) mod monitor;
pub(crate) mod word;
