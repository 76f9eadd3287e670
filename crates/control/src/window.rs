//! Windows that are smaller than the path bears: whose slow-start threshold says nothing of it, or was found too early.

pub(crate) mod early;
pub(crate) mod threshold;
