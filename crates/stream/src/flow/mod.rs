//! One direction of bytes: its source and its sink, its transfer, its history and its counters.

pub(crate) mod counters;
pub(crate) mod history;
pub(crate) mod sink;
pub(crate) mod source;
pub(crate) mod transfer;
