//! How fast a sender is let send that has a lot to send: the cap of its rate, and the way back after an overflow.

pub(crate) mod cap;
pub(crate) mod wary;
